from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bots import markup
from app.bots.mentions import Mentions, find
from app.platforms.base import Actor, IncomingEvent, Named
from app.platforms.nextcloud_talk import payload

NAMES = ("atlas", "atlas-dev", "muse", "kelp", "AI Helper", "ai", "Åse", "海藻")
MIRA = Actor("users", "mira", "Mira")
CASES = [json.loads(line) for line in (Path(__file__).parent.parent / "cases" / "d_talk.jsonl").open(encoding="utf-8")]
ABOUT_NAMES = [case for case in CASES if case["kind"].startswith(("mention_", "rich_", "slash_", "raw_body"))]


def event(text: str, *named: Named) -> IncomingEvent:
    return IncomingEvent("message", "room", "Room", MIRA, text=text, named=named)


def found(text: str, names: tuple[str, ...] = NAMES) -> Mentions:
    return find(event(text), names)


@pytest.mark.parametrize("case", [case for case in ABOUT_NAMES if "triggered" in case["expect"]], ids=lambda c: c["id"])
def test_the_cases_from_the_field_hold(case: dict) -> None:
    told = payload.parse(case["input"]["requests"][0]["body"].encode())
    mentions = find(told, case["input"]["bots"])
    assert list(mentions.names) == case["expect"]["triggered"]
    for text in (mentions.text, *(mentions.text_for(name) for name in mentions.names)):
        assert all(words in text for words in case["expect"].get("clean_contains", ()))
        assert not any(words in text for words in case["expect"].get("clean_absent", ()))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@atlas hello", ["atlas"]),
        ("hello @ATLAS.", ["atlas"]),
        ("hello (@atlas), you", ["atlas"]),
        ('@"Atlas" hello', ["atlas"]),
        ("@“atlas” hello", ["atlas"]),
        ("@AI Helper what is the plan?", ["AI Helper"]),
        ('@"ai  helper" what is the plan?', ["AI Helper"]),
        ("@ai Helperx", ["ai"]),
        ('@AI Helper what is the plan? @"AI Helper" @ai', ["AI Helper", "ai"]),
        ("@muse, @atlas: compare", ["muse", "atlas"]),
        ("@atlas/@muse compare", ["atlas", "muse"]),
        ("@atlas's answer", ["atlas"]),
        ("@atlas’s answer", ["atlas"]),
        ("__@atlas__ and ~~@muse~~", ["atlas", "muse"]),
        ("👋@atlas❤️", ["atlas"]),
        ("❤️@atlas", ["atlas"]),
        ("ok.@atlas go", ["atlas"]),
        ("@atlas... well", ["atlas"]),
        ("@atlas-", ["atlas"]),
        ("@atlas—go", ["atlas"]),
        ("- @atlas go", ["atlas"]),
        ("＠ａｔｌａｓ go", ["atlas"]),
        ("@åse and @A\u030ase", ["Åse"]),
        ("@海藻さん、空いていますか", ["海藻"]),
        ("@kelpさん", ["kelp"]),
        ("감사@kelp님", ["kelp"]),
        ("@at\u200dlas go", ["atlas"]),
        ("@\u200batlas go", ["atlas"]),
        ("@atlas\u200bgo", ["atlas"]),
        ("\u2067@atlas\u2069 go", ["atlas"]),
        ("@AI\u00a0Helper go", ["AI Helper"]),
        ("line\n@atlas", ["atlas"]),
        ("  /atlas go", ["atlas"]),
        ('/"AI Helper" go', ["AI Helper"]),
    ],
)
def test_a_name_after_a_sign_at_a_boundary_is_a_mention(text: str, names: list[str]) -> None:
    assert list(found(text).names) == names


@pytest.mark.parametrize(
    "text",
    [
        "atlas",
        "@ atlas",
        "@atlasx @xatlas @atlas1",
        "@atlas_2 @atlas.example",
        "jane@atlas",
        "jane+@atlas jane_@atlas",
        "@atlas@other.example",
        "@@atlas",
        "\\@atlas",
        "see http://x.example/@atlas?to=@atlas",
        "www.x.example/a,@atlas",
        "x.example/@atlas ./@atlas ~/@atlas",
        "@atlas/core is a package",
        "/atlas/notes",
        "go /atlas",
        "/ atlas",
        "`@atlas` and ``x ` @atlas``",
        "```\n@atlas\n```",
        "```py\n@atlas",
        "text\n~~~~\n@atlas\n~~~\n@muse\n~~~~",
        "Look: ```yaml\nto: @atlas\n\nalso: @muse\n```",
        "- ```\n  @atlas\n  ```",
        "> @atlas\n>@muse",
        "   > @atlas",
        "@аtlas",
        "@αtlas",
        "@atlas\u0301",
        "@muśe",
        "@all",
        '@"@atlas"',
        '@"atlas crew"',
        '@"atlas',
        '@"atlas\n"',
        "@李atlas",
    ],
)
def test_what_only_looks_like_a_mention_is_none(text: str) -> None:
    assert found(text).names == ()
    assert found(text).text == text


def test_all_is_nobodys_name_even_where_a_bot_has_it() -> None:
    assert find(event("@all @ALL /all"), ["all", "All"]) == Mentions(
        (), "@all @ALL /all", (), "@all @ALL /all", (), bytes(14)
    )


def test_a_code_span_that_is_never_closed_is_no_code() -> None:
    assert found("a ` b @atlas").names == ("atlas",)
    assert found("use ``` here @atlas").names == ("atlas",)
    assert found("\\`@atlas\\`").names == ("atlas",)


def test_code_ends_where_it_ends() -> None:
    assert found("```\n@muse\n```\n@atlas").names == ("atlas",)
    assert found("> @muse\n@atlas").names == ("atlas",)
    assert found("`@muse`@atlas").names == ("atlas",)
    assert found("`a\n\n@atlas `").names == ("atlas",)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("**@Atlas**, which berth?", "which berth?"),
        ("hi @atlas!", "hi!"),
        ("compare @atlas with x", "compare with x"),
        ("what about @atlas?", "what about?"),
        ("@atlas: @muse - go", "go"),
        ("@atlas & @muse go", "go"),
        ("@atlas :) hi", ":) hi"),
        ("【@kelp】　空いて", "空いて"),
        ("感謝@kelp お願い", "感謝 お願い"),
        ("hello\n@atlas\nworld", "hello\n\nworld"),
        ("@atlas   indented?\n    keep", "indented?\n    keep"),
        ("x (@atlas) y", "x y"),
        ("and(@atlas)so", "and so"),
        ("``@atlas` x", "`` ` x"),
        ("@atlas", ""),
        (" \u200f@atlas\u200f ", ""),
        ("@atlas 👩‍💻 ❤️", "👩‍💻 ❤️"),
        ("@atlas {\n  \"a\": 1\n}", "{\n  \"a\": 1\n}"),
        ("@atlas `x  @muse  y`", "`x  @muse  y`"),
        ("@atlas-dev and atlas-dev", "and atlas-dev"),
    ],
)  # fmt: skip
def test_the_text_reads_as_if_the_mention_had_never_stood_there(text: str, cleaned: str) -> None:
    assert found(text).text == cleaned


def test_each_bot_reads_the_names_of_the_others() -> None:
    mentions = found("@atlas compare with @atlas-dev, @atlas")
    assert mentions.text == "compare with,"
    assert mentions.text_for("atlas") == "compare with @atlas-dev,"
    assert mentions.text_for("atlas-dev") == "@atlas compare with, @atlas"


def test_names_put_in_for_placeholders_never_match() -> None:
    text = "atlas and @atlas and @muse"
    named = (Named(0, 5, "user", "a.strand", "atlas"), Named(10, 16, "user", "b", "@atlas"))
    assert find(event(text, *named), NAMES).names == ("muse",)
    assert find(event("@atlas", Named(1, 6, "user", "b", "atlas")), NAMES).names == ()
    assert find(event("@atlas", Named(3, 6, "user", "b", "las")), NAMES).names == ()


def test_a_placeholder_opens_no_code_and_no_quote() -> None:
    text = "`` hi @atlas ``"
    named = (Named(0, 2, "user", "b", "``"), Named(13, 15, "user", "b", "``"))
    assert find(event(text, *named), NAMES).names == ("atlas",)
    assert find(event("> @atlas", Named(0, 1, "user", "b", ">")), NAMES).names == ("atlas",)


def test_unknown_names_are_kept_for_the_record() -> None:
    mentions = found('@nobody asked @"atlas crew" and @Nobody, @all, x@y.example, `@code`, @some.one@else.example')
    assert mentions.names == ()
    assert mentions.unknown == ("nobody", "atlas crew")
    assert len(found(" ".join(f"@n{number}" for number in range(1000))).unknown) == 20


@pytest.mark.parametrize(
    "text",
    [
        "@" * 32_000,
        '@"' * 16_000,
        "@a" * 16_000,
        "@\u200b" * 16_000,
        "_@" * 16_000,
        "` " * 16_000,
        "\\`" * 16_000,
        "```x\n" * 6_400,
        "(" * 10_000 + "@atlas" + ")" * 10_000,
        "@atlas" + "." * 31_000 + "x",
        "@atlas " * 4_500,
        "https://" * 4_000,
        "-" * 31_990 + "@atlas",
        "@" + "a" * 31_999,
    ],
    ids=lambda text: text[:6].encode("unicode_escape").decode(),
)
def test_it_takes_linear_time_whatever_stands_there(text: str) -> None:
    names = [f"bot-{number}" for number in range(490)] + ["atlas", "a" * 100, "a", "a-", "a-a-a-a"]
    begun = time.process_time()
    find(event(text), names)
    assert time.process_time() - begun < 1.5


ALPHABET = st.sampled_from([*"@/ \n`~>*_-.,:;'\"()[]\\atls3é", "```", "~~~", "@atlas", "@muse", "https://", "\u200b",
                            "\u200f", "\ufeff", "\u3000", "\uff20", "海藻", "ß", "👩‍💻", "\u0301", "\ud800", "\r\n"])  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(ALPHABET, max_size=80).map("".join))
SPANS = st.lists(st.tuples(st.integers(-5, 250), st.integers(-5, 250)), max_size=4)


@settings(max_examples=400, deadline=None)
@given(text=TEXTS, spans=SPANS, names=st.lists(st.text(max_size=8), max_size=5))
def test_no_text_makes_it_fail(text: str, spans: list[tuple[int, int]], names: list[str]) -> None:
    named = tuple(Named(start, end, "user", "x", "x") for start, end in spans)
    mentions = find(event(text, *named), [*NAMES, *names])
    assert set(mentions.names) <= {*NAMES, *names}
    assert len(mentions.text) <= len(text) + len(mentions.cuts)


@settings(max_examples=400, deadline=None)
@given(text=st.lists(ALPHABET, max_size=80).map("".join))
def test_code_stays_as_it_was(text: str) -> None:
    marks = markup.marks(text)
    mentions = find(event(text), NAMES)
    for cleaned in (mentions.text, *(mentions.text_for(name) for name in mentions.names)):
        at = 0
        for block in blocks(text, marks):
            at = cleaned.index(block, at) + len(block)


def blocks(text: str, marks: bytearray) -> list[str]:
    """The pieces of a text that are marked as code."""
    pieces, current = [], ""
    for character, mark in zip(text, marks, strict=True):
        if mark == markup.CODE:
            current += character
        elif current:
            pieces.append(current)
            current = ""
    return [*pieces, current] if current else pieces
