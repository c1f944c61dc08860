from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rooms.speaking.links import Known, plain

KNOWN = Known(hosts=frozenset({"cloud.example.test"}))
KNOWN.learn(["See https://docs.example.test/a?b=1, and (https://docs.example.test/c_(d))."])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[the plan](https://docs.example.test/a?b=1)", "[the plan](https://docs.example.test/a?b=1)"),
        ("[the plan](https://docs.example.test/a?b=2)", "the plan (`https://docs.example.test/a?b=2`)"),
        ("![x](https://evil.test/p.png?d=secret)", "x (`https://evil.test/p.png?d=secret`)"),
        ("![](https://evil.test/p.png)", "`https://evil.test/p.png`"),
        ("Go to https://evil.test/x.", "Go to `https://evil.test/x`."),
        ("Go to <https://evil.test/x>", "Go to `https://evil.test/x`"),
        ("HTTPS://EVIL.TEST/x", "`HTTPS://EVIL.TEST/x`"),
        ("www.evil.test/x", "`www.evil.test/x`"),
        ("[a][b]\n\n[b]: https://evil.test/x 'title'\n", "[a][b]\n\nb: `https://evil.test/x`\n"),
        ("[x](javascript:alert(1))", "x (`javascript:alert(1)`)"),
        ("[x](data:text/html,hi)", "x (`data:text/html,hi`)"),
        ('[x](https://evil.test "cloud.example.test")', "x (`https://evil.test`)"),
        ("https://cloud.example.test/f/12", "https://cloud.example.test/f/12"),
        ("https://cloud.example.test@evil.test/", "`https://cloud.example.test@evil.test/`"),
        ("https://cloud.example.test.evil.test/", "`https://cloud.example.test.evil.test/`"),
        ("see https://docs.example.test/c_(d).", "see https://docs.example.test/c_(d)."),
        ("`https://evil.test` and ``a ` https://evil.test``", "`https://evil.test` and ``a ` https://evil.test``"),
        ("```\nhttps://evil.test\n```\n", "```\nhttps://evil.test\n```\n"),
        ('{"url": "https://evil.test"}', '{"url": "https://evil.test"}'),
        ("    indented  spaces\tstay [1] (x)", "    indented  spaces\tstay [1] (x)"),
        ("[https://evil.test](https://evil.test)", "`https://evil.test`"),
    ],
)
def test_only_what_was_shown_to_it_can_be_linked(text: str, shown: str) -> None:
    assert plain(text, KNOWN) == shown


@given(st.text(alphabet="a[]()!`<>\n :/.htpsw\"'\\~", max_size=120))
def test_a_text_without_an_address_stays_what_it_is_and_no_address_is_left_bare(text: str) -> None:
    shown = plain(text, Known())
    if "://" not in text and "www." not in text and "](" not in text and "]:" not in text:
        assert shown == text
    assert plain(shown, Known()) == plain(plain(shown, Known()), Known())


@pytest.mark.parametrize(
    "piece", ["[", "![a](", "`", "`" * 3 + " ", "https://a.test/", "[a]: ", "<https://", "[a](b", "()"]
)
def test_no_text_can_be_abused_to_make_it_slow(piece: str) -> None:
    begun = time.process_time()
    plain(piece * (300_000 // len(piece)), Known())
    assert time.process_time() - begun < 5
