from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.rooms.neutral import neutralised
from app.rooms.speaking.pieces import sayable
from app.rooms.split import blocks

LONG = "The harbour office opens at nine in the morning on every day but Sunday, as it says. "


@pytest.mark.parametrize(
    ("text", "waited", "said"),
    [
        ("One paragraph.\n\nThe next", 0, "One paragraph.\n\n"),
        ("One paragraph.\n\n", 0, ""),
        ("One.\n\nTwo.\n\nThree", 0, "One.\n\nTwo.\n\n"),
        ("```\ncode\n\nmore", 9, ""),
        ("Text:\n\n```\ncode\n```\nAnd", 0, "Text:\n\n```\ncode\n```\n"),
        ("# Title\n\nText that goes on", 9, ""),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", 9, ""),
        ('{"a": 1,\n\n"b": 2', 9, ""),
        ("[1, 2]\n\nmore", 9, ""),
        (LONG * 2 + "And then some", 4, LONG * 2),
        (LONG * 2 + "And then some", 2, ""),
        (LONG + "short", 4, ""),
        (LONG * 2 + "[1] is the source", 4, LONG),
        (LONG * 2, 4, LONG),
        ("- " + LONG * 3, 9, ""),
        (LONG + "See `a. code. that" + LONG, 9, ""),
    ],
)
def test_what_may_be_said_now(text: str, waited: float, said: str) -> None:
    assert text[: sayable(text, waited=waited)] == said


MARKDOWN = st.lists(
    st.sampled_from(
        [
            *(
                "word ",
                "Ein Satz endet hier. ",
                "[link](https://x.test/a.b) ",
                "`code. x` ",
                "\n",
                "\n\n",
                "```\n",
                "~~~\n",
            ),
            *(
                "| a | b |\n",
                "|---|---|\n",
                "- item\n",
                "1. one\n",
                "# Head\n",
                "> quote\n",
                "[1] ",
                "**bold. text** ",
            ),
            *("。", "大门九点开放", "    indented\n", LONG, "<", "[", "{", "&"),
        ]
    ),
    max_size=60,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(MARKDOWN, st.lists(st.integers(1, 40), max_size=80), st.lists(st.floats(0, 5), min_size=1, max_size=5))
def test_pieces_put_together_are_the_answer_and_nothing_is_torn_apart(
    text: str, sizes: list[int], waits: list[float]
) -> None:
    pieces, come, said = [], 0, 0
    for number, size in enumerate([*sizes, len(text)]):
        come = min(len(text), come + size)
        length = sayable(text[said:come], waited=waits[number % len(waits)])
        if length:
            pieces.append(text[said : said + length])
            said += length
    pieces.append(text[said:])
    assert "".join(pieces) == text
    for piece in pieces[:-1]:
        assert piece.strip()
        assert all(block.closed for block in blocks(piece))
        bare = re.sub(r"(?ms)^(```|~~~).*?^\1", "", piece)
        assert not re.search(r"\[[^\]\n]*\]\([^)\s]*$", bare)
    whole = [block.text.strip() for block in blocks(text) if block.mark or block.text.lstrip().startswith("|")]
    spread = "\x00".join(pieces)
    assert all(block in spread for block in whole)
    assert "@all" not in "".join(neutralised(piece) for piece in pieces)
