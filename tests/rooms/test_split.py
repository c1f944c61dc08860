from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.rooms.neutral import neutralised
from app.rooms.split import LIMIT, blocks, closed, split

FENCE_LINE = re.compile(r"^[ \t>]*(`{3,}|~{3,})")


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def balanced(part: str) -> bool:
    return all(block.closed for block in blocks(part))


def test_a_short_answer_is_one_message_as_it_is() -> None:
    text = "  indented\n\n- a\n  - b\n\n```py\n    x = 1\n```"
    assert split(text) == [text]


def test_white_space_is_no_message() -> None:
    assert split(" \n\t\n  ") == []
    assert split("") == []


def test_a_long_text_is_cut_after_sentences() -> None:
    text = "Line of the harbour log, nothing special. " * 1200
    parts = split(text)
    assert len(parts) == 2
    assert all(len(part) <= LIMIT and part.endswith("special.") for part in parts)
    assert squeezed("".join(parts)) == squeezed(text)


def test_a_fence_longer_than_a_message_is_closed_and_opened_again_with_its_language() -> None:
    text = "Here it is:\n```py title=x\n" + "print('row')\n" * 3500 + "```\nDone."
    parts = split(text)
    assert all(len(part) <= LIMIT and balanced(part) for part in parts)
    assert parts[0].startswith("Here it is:\n```py title=x\nprint")
    assert parts[0].endswith("\n```")
    assert parts[1].startswith("```py title=x\nprint")
    assert parts[1].endswith("```\nDone.")
    assert "".join(parts).count("print('row')") == 3500


def test_a_fence_that_fits_goes_whole_into_the_next_message() -> None:
    fence = "```\n" + "code line\n" * 30 + "```"
    parts = split("word " * 40 + "\n\n" + fence + "\nend", limit=340)
    assert fence in parts[1]
    assert parts[0] == ("word " * 40).strip()


def test_a_table_that_fits_is_never_cut() -> None:
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 10
    parts = split("text " * 30 + "\n" + table + "\nmore " * 10, limit=200)
    assert any(table.strip() in part for part in parts)


def test_a_table_longer_than_a_message_is_cut_between_rows() -> None:
    table = "| a | b |\n|---|---|\n" + "| one | two |\n" * 100
    parts = split(table, limit=200)
    assert all(line.startswith("|") and line.endswith("|") for part in parts for line in part.splitlines())
    assert squeezed("".join(parts)) == squeezed(table)


def test_a_link_with_spaces_is_not_cut() -> None:
    link = "[the minutes of the meeting](https://cloud.example.test/f/12)"
    parts = split("many words before it " * 4 + link + " and words after it" * 6, limit=120)
    assert any(link in part for part in parts)


def test_tilde_fences_and_fences_in_quotes_and_lists_are_fences() -> None:
    for opening, line, closing in (
        ("~~~~sh", "echo ```", "~~~~"),
        ("> ```", "> quoted code", "> ```"),
        ("  - ", "x", ""),
        ("    ```js", "    f()", "    ```"),
    ):
        text = f"{opening}\n" + f"{line}\n" * 60 + closing
        for part in split(text, limit=150):
            assert len(part) <= 150
            assert balanced(part)


def test_one_endless_word_is_cut_between_characters() -> None:
    parts = split("e\u0301" * 200, limit=99)
    assert all(len(part) <= 99 and part.startswith("e") for part in parts)
    assert "".join(parts) == "e\u0301" * 200


def test_indentation_after_a_seam_stays() -> None:
    parts = split("first paragraph here\n\n    indented code line\n    second line", limit=45)
    assert parts[1] == "    indented code line\n    second line"


def test_an_open_fence_is_closed_before_something_is_said_after_it() -> None:
    assert closed("so:\n```py\nprint(") == "so:\n```py\nprint(\n```"
    assert closed("so:\n```py\nx\n```\nend") == "so:\n```py\nx\n```\nend"
    assert closed("") == ""


LINES = st.sampled_from(
    ["", " ", "word", "two words.", "  - item", "| a | b |", "|---|---|", "| 1 | 2 |", "long " * 9, "x" * 70]
    + ["```", "```py", "~~~", "````", "> ```", "text `code` more", "[a b](http://x.test/y)", "    code", "😀" * 20]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(LINES, max_size=25).map("\n".join), st.integers(min_value=30, max_value=120))
def test_parts_are_never_empty_never_too_long_and_lose_nothing(text: str, limit: int) -> None:
    parts = split(text, limit=limit)
    assert all(part.strip() and len(part) <= limit for part in parts)
    rest = squeezed("".join(line for part in parts for line in part.split("\n") if not FENCE_LINE.match(line)))
    assert rest == squeezed("".join(line for line in text.split("\n") if not FENCE_LINE.match(line)))
    if not text.strip():
        assert parts == []


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="`~", exclude_categories=["Cs"]), max_size=400))
def test_any_text_without_fences_is_found_again_in_its_parts(text: str) -> None:
    parts = split(text, limit=37)
    assert all(part.strip() and len(part) <= 37 for part in parts)
    assert squeezed("".join(parts)) == squeezed(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(LINES, max_size=20).map("\n".join))
def test_blocks_joined_are_the_text(text: str) -> None:
    assert "".join(block.text for block in blocks(text)) == text


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["a line of code", "x", "", "    deep", "y" * 30]), max_size=40),
    st.sampled_from(["```", "~~~", "````", "> ```"]),
    st.integers(min_value=60, max_value=150),
)
def test_every_part_of_a_fence_is_balanced(body: list[str], mark: str, limit: int) -> None:
    text = "before\n" + "\n".join([mark + "py", *body, mark]) + "\nafter"
    parts = split(text, limit=limit)
    assert all(len(part) <= limit and balanced(part) for part in parts)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "a\n\n" * 60_000,
        "[a](b) " * 30_000,
        "[" * 200_000,
        "@" * 200_000,
        '@"' * 100_000,
        "```\n" * 50_000,
        "`" * 200_000,
    ]
    + ["|\n- " + " " * 150_000 + "x", "e" + "\u0301" * 200_000, "!" * 200_000, "> " * 100_000],
    ids=["lines", "links", "brackets", "ats", "quotes", "fences", "ticks", "rule", "accents", "ends", "quotation"],
)
def test_the_strangest_answer_can_not_be_abused_to_keep_a_worker_busy(text: str) -> None:
    begun = time.monotonic()
    split(neutralised(closed(text)))
    assert time.monotonic() - begun < 15
