from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations import words


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("What did we decide about the budget?", ["decid", "budget"]),
        ("Was haben wir zum Haushalt beschlossen?", ["haushalt", "beschloss"]),
        ("Qu'est-ce qu'on a décidé pour le budget ?", ["decid", "budget"]),
        ("BUDGET budget Büdget", ["budget"]),
        ("Straße STRASSE", ["strass"]),
        ("the and of", ["the", "and", "of"]),
        ("C", ["c"]),
        ("", []),
        ("?! ...", []),
        ("空いている", ["空い", "いて", "てい", "いる"]),
        ("4711", ["4711"]),
        ("ｆｕｌｌ wi\u200bdth", ["full", "width"]),
    ],
)
def test_the_words_that_say_something_are_looked_for(query: str, found: list[str]) -> None:
    assert [each.text for each in words.wanted(query)] == found


@pytest.mark.parametrize(
    ("query", "text", "count"),
    [
        ("budget plans", "The BUDGET and the plan", 2),
        ("budgets", "a budget", 1),
        ("Beschlüsse", "Der Beschluß steht", 1),
        ("budget", "Jahresbudget", 1),
        ("art", "start", 0),
        ("art", "arts", 1),
        ("ab", "abc", 0),
        ("eleve", "Les élèves", 1),
        ("係留", "空いている係留場所は", 1),
        ("100%", "100 percent", 1),
        ("_", "nothing", 0),
    ],
)
def test_words_match_whatever_their_case_accents_and_endings(query: str, text: str, count: int) -> None:
    assert words.matches(words.wanted(query), words.fold(text)) == count


@given(st.text())
def test_no_query_makes_it_fail(query: str) -> None:
    wanted = words.wanted(query)
    assert len(wanted) <= words.MOST_WORDS
    assert words.matches(wanted, words.fold(query)) <= len(wanted)
    assert words.fold(words.fold(query)) == words.fold(query)


def test_a_huge_query_is_cut() -> None:
    begun = time.process_time()
    assert len(words.wanted("word" * 100_000 + " " + " ".join(map(str, range(50_000))))) == words.MOST_WORDS
    assert time.process_time() - begun < 2
