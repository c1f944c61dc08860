from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bots.questions import tree
from app.bots.questions.tree import FirstQuestion
from app.rooms.onboarding import matching, wording
from app.rooms.onboarding.matching import Given


def question(*choices: tuple[str, str], own: bool = False) -> FirstQuestion:
    answers = [{"id": id, "text": text, "next": None} for id, text in choices]
    if own:
        answers.append({"id": "own", "text": "Another", "next": None, "type": "free_text"})
    asked = tree.first(tree.checked({"start": "q", "questions": [{"id": "q", "text": "Q?", "answers": answers}]}))
    assert asked is not None
    return asked


def read(asked: FirstQuestion, text: str) -> str | None:
    found = matching.read(asked, text)
    return found.answer.id if isinstance(found, Given) else found


LANGUAGES = question(("c", "C++"), ("sharp", "C#"), ("été", "Été à Åland"))


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("A", "c"),
        ("b)", "sharp"),
        ("[C].", "été"),
        ("C#", "sharp"),
        ("c++", "c"),
        ("sharp", "sharp"),
        ("E\u0301TE\u0301 a\u0300 A\u030aland", "été"),
        ("  \u00e9t\u00e9   \u00e0\n\u00e5land ", "été"),
        ("ÉTÉ", "été"),
        ("D", None),
        ("A and B", None),
        ("", None),
        ("...", None),
        ("\u200b", None),
    ],
)
def test_a_choice_is_named_by_its_letter_its_text_or_its_id(text: str, id: str | None) -> None:
    assert read(LANGUAGES, text) == id


def test_the_letter_that_people_see_counts_before_an_id_that_they_do_not() -> None:
    asked = question(("b", "Oslo"), ("a", "Bergen"))
    assert "- **A** Oslo\n- **B** Bergen" in wording.asked(asked, "en")
    assert read(asked, "a") == "b"


def test_own_words_are_taken_as_they_are_where_they_name_no_choice() -> None:
    asked = question(("o", "Oslo"), own=True)
    found = matching.read(asked, "  Oslo, or *Moss*?\n ")
    assert isinstance(found, Given)
    assert (found.answer.id, found.words) == ("own", "Oslo, or *Moss*?")
    assert read(asked, "oslo!") == "o"
    assert read(asked, "B") == "own"
    assert read(asked, " \n ") is None


def test_a_choice_that_is_called_skip_is_that_choice() -> None:
    assert read(question(("x", "Skip")), "skip") == "x"
    assert read(question(("x", "Go on")), "skip") == "skip"
    assert read(question(own=True), "Skip!") == "skip"
    assert read(question(own=True), "skip the harbour") == "own"


def test_a_question_in_own_words_alone_shows_no_letter() -> None:
    text = wording.asked(question(own=True), "en", lead=wording.ANEW)
    assert text.startswith("Please tell me:\n\nQ?\n\n- Another\n\nAnswer in your own words")


def test_both_ways_to_answer_are_told() -> None:
    assert "a letter or in your own words" in wording.asked(question(("o", "Oslo"), own=True), "en", lead=wording.ANEW)


@given(st.text(max_size=3000), st.booleans())
def test_any_text_is_an_answer_that_there_is_or_none(text: str, own: bool) -> None:
    asked = question(("o", "Oslo"), ("b", "Bergen"), own=own)
    found = matching.read(asked, text)
    if isinstance(found, Given):
        assert found.answer in asked.answers
        assert 0 < len(found.words) <= matching.LONGEST_OWN_WORDS
        assert found.answer.own_words or found.words == found.answer.text
    else:
        assert found == "skip" or not own or not text.strip()
