from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rooms.neutral import RESOLVED, ZERO_WIDTH, neutralised

# As the server of Nextcloud finds mentions in a comment.
TALK = re.compile(
    r"\B(?<![^a-z0-9_\-@\.\'\s])@(\"(guest|email)/[a-f0-9]+\"|\"(?:federated_)?(?:group|team|user)/[a-z0-9_\-@\.\' /:]+\""
    r"|\"[a-z0-9_\-@\.\' ]+\"|[a-z0-9_\-@\.\']+)",
    re.IGNORECASE | re.ASCII,
)


@pytest.mark.parametrize(
    "text",
    [
        "@all listen",
        "hi @ada",
        '@"Åsa Berg" and @"group/crew"',
        "(@bob)",
        "**@all**",
        "@@ada",
        "x\n@all",
        "-@all",
        "`@all`",
    ]
    + ["```\n@all\n```", "https://x.test/-@all", '@"guest/5f3a"', "@team.lead's", "say:@ada", "hello\u00a0@all"],
)
def test_mentions_are_broken_and_look_the_same(text: str) -> None:
    broken = neutralised(text)
    assert broken != text
    assert broken.replace(ZERO_WIDTH, "") == text
    assert not TALK.search(broken)
    assert "@all" not in broken
    assert '@"' not in broken


@pytest.mark.parametrize(
    "text",
    [
        "write to jane@atlas.example",
        "https://media.example.test/@atlas/1",
        "a @ b",
        "5 @",
        "user@host:~$",
        "  keep   spaces ",
    ]
    + ["\tif x:\n\t\treturn  1", "mailto:josé@example.test", "https://x.test/?to=@ada", "and/@home"],
)
def test_nothing_else_is_altered(text: str) -> None:
    assert neutralised(text) == text


def test_a_json_answer_stays_json_with_its_keys() -> None:
    text = '{"@context": "https://schema.example.test", "cc": ["@id", "a@b.c"],\n   "n":  1}'
    assert neutralised(text) == text
    fenced = f"```json\n{text}\n```"
    assert neutralised(fenced) == fenced
    assert json.loads(neutralised('{"to": "hi @all"}')) == {"to": f"hi @{ZERO_WIDTH}all"}


def test_an_intended_mention_stays() -> None:
    assert neutralised('@ada and @"Åsa Berg", not @bob', intended=["ada", "åsa berg"]) == (
        f'@ada and @"Åsa Berg", not @{ZERO_WIDTH}bob'
    )


@given(st.text(alphabet=st.sampled_from(list("@aZ1_.-'\" /:\n`*(é謝")), max_size=40))
def test_no_text_leaves_a_mention_that_talk_resolves(text: str) -> None:
    broken = neutralised(text)
    assert not TALK.search(broken)
    assert not RESOLVED.search(broken)
    assert broken.replace(ZERO_WIDTH, "") == text
