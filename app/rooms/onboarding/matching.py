"""What somebody wrote, as an answer to a first question. Pure: no database.

A choice is named by its letter as it is shown, by its text or by its id. What surrounds it, its case and how its
characters are composed don't count. Whatever names no choice is taken as it is, where the question takes own words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.bots.questions.tree import Answer, FirstQuestion

LETTERS = "ABCD"
LONGEST_OWN_WORDS = 2000
# In any language, whatever the room's: people answer in theirs.
SKIPS = frozenset({"skip", "überspringen", "ueberspringen", "passer"})
EDGES = " \t\r\n.,:;!?()[]{}*_~`'\"“”„‘’‚«»‹›"


@dataclass(frozen=True)
class Given:
    """An answer, and the words in which it is kept."""

    answer: Answer
    words: str


def read(question: FirstQuestion, text: str) -> Given | Literal["skip"] | None:
    """The answer that a text gives to a question, or that it skips all that is left; None for neither."""
    named = _choice(question, text)
    if named is not None:
        return Given(named, named.text)
    if SKIPS.intersection(_keys(text)):
        return "skip"
    own, words = question.own_words, text.strip()
    return Given(own, words[:LONGEST_OWN_WORDS]) if own is not None and words else None


def _choice(question: FirstQuestion, text: str) -> Answer | None:
    choices = question.choices
    # What people see comes first: a letter is the one that stands there, whatever ids the choices have.
    named = (LETTERS, [choice.text for choice in choices], [choice.id for choice in choices])
    for key in filter(None, _keys(text)):
        for names in named:
            for name, choice in zip(names, choices, strict=False):
                if _key(name) == key:
                    return choice
    return None


def _keys(text: str) -> Iterator[str]:
    """The text as it is compared; then without marks around it, as in "(A)" and "Skip!"."""
    yield _key(text)
    yield _key(text.strip(EDGES))


def _key(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    return " ".join(unicodedata.normalize("NFC", composed.casefold()).split())
