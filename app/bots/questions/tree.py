"""A bot's first questions (product.md K6): {"start": id, "questions": [{"id", "text", "answers": [...]}]}.

An answer is {"id", "text", "next": id of a question or null}, and with "type": "free_text" whatever somebody writes.
Whatever way they are answered, the questions come to an end, and each of them can be reached.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.infra.db import clean_text
from app.infra.i18n import Sentence, say

MOST_QUESTIONS = 15
MOST_ANSWERS = 4
LONGEST_ID = 64
LONGEST_QUESTION = 1000
LONGEST_ANSWER = 200
FREE_TEXT = "free_text"


@dataclass(frozen=True)
class Answer:
    """One way to answer; `next` is the id of the question that follows, None where none does.

    `own_words`: whatever somebody writes is taken as it is.
    """

    id: str
    text: str
    next: str | None
    own_words: bool


@dataclass(frozen=True)
class FirstQuestion:
    """A question with the ways to answer it, in the order in which they are shown."""

    id: str
    text: str
    answers: tuple[Answer, ...]

    @property
    def choices(self) -> tuple[Answer, ...]:
        return tuple(answer for answer in self.answers if not answer.own_words)

    @property
    def own_words(self) -> Answer | None:
        """The answer that takes any text."""
        return next((answer for answer in self.answers if answer.own_words), None)


class Wrong(Exception):
    """The questions can't be taken; `sentence` names the one that is wrong."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(str(sentence))
        self.sentence = sentence


def by_id(stored: Mapping[str, Any] | None) -> Mapping[str, FirstQuestion]:
    """The questions of what `checked` gave; empty where there are none."""
    return {each["id"]: _loaded(each) for each in stored["questions"]} if stored else {}


def first(stored: Mapping[str, Any] | None) -> FirstQuestion | None:
    """The question that is asked first; None where there are none."""
    return by_id(stored)[stored["start"]] if stored else None


def checked(value: Any) -> dict[str, Any] | None:
    """The questions in the form in which they are kept; None for none. Raises Wrong."""
    if value is None:
        return None
    if not _has(value, {"start", "questions"}):
        raise Wrong(say("First questions are an object with a start and a list of questions."))
    given = value["questions"]
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_QUESTIONS:
        raise Wrong(say("There are 1 to {most} first questions.", most=MOST_QUESTIONS))
    questions = [_question(each, number) for number, each in enumerate(given, start=1)]
    ids = [question["id"] for question in questions]
    twice = _twice(ids)
    if twice is not None:
        raise Wrong(say('Two first questions have the id "{id}".', id=twice))
    start = _id(value["start"])
    if start is None or start not in ids:
        raise Wrong(say("The start is the id of the question that is asked first."))
    _check_ways(start, questions)
    return {"start": start, "questions": questions}


def _question(value: Any, number: int) -> dict[str, Any]:
    if not _has(value, {"id", "text", "answers"}):
        raise Wrong(say("First question {number} must be an object with id, text and answers.", number=number))
    id = _id(value["id"])
    if id is None:
        sentence = say("The id of first question {number} has 1 to {most} printable characters.",
                       number=number, most=LONGEST_ID)  # fmt: skip
        raise Wrong(sentence)
    text = _text(value["text"], most=LONGEST_QUESTION, breaks="\n\t")
    if not text:
        raise Wrong(say('The text of the question "{id}" has 1 to {most} characters.', id=id, most=LONGEST_QUESTION))
    given = value["answers"]
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_ANSWERS:
        raise Wrong(say('The question "{id}" has 1 to {most} answers.', id=id, most=MOST_ANSWERS))
    answers = [_answer(each, id, number) for number, each in enumerate(given, start=1)]
    twice = _twice([answer["id"].casefold() for answer in answers])
    if twice is not None:
        raise Wrong(say('Two answers to the question "{id}" have the same id.', id=id))
    if sum("type" in answer for answer in answers) > 1:
        raise Wrong(say('The question "{id}" has more than one answer of the type free_text.', id=id))
    return {"id": id, "text": text, "answers": answers}


def _answer(value: Any, question: str, number: int) -> dict[str, Any]:
    if not _has(value, {"id"}, may={"text", "next", "type"}):
        sentence = say('Answer {number} to the question "{id}" must be an object with id, text, next and type.',
                       number=number, id=question)  # fmt: skip
        raise Wrong(sentence)
    id, kind = _id(value["id"]), value.get("type")
    if id is None:
        sentence = say('The id of answer {number} to the question "{id}" has 1 to {most} printable characters.',
                       number=number, id=question, most=LONGEST_ID)  # fmt: skip
        raise Wrong(sentence)
    if kind not in (None, FREE_TEXT):
        raise Wrong(say('An answer to the question "{id}" has a type other than free_text.', id=question))
    text = _text(value.get("text"), most=LONGEST_ANSWER)
    # A field to write into explains itself; a choice does not.
    if text is None or not (text or kind):
        sentence = say('The text of answer {number} to the question "{id}" has 1 to {most} characters on one line.',
                       number=number, id=question, most=LONGEST_ANSWER)  # fmt: skip
        raise Wrong(sentence)
    follows = value.get("next")
    if follows is not None and _id(follows) is None:
        raise _leads_nowhere(question)
    read = {"id": id, "text": text, "next": _id(follows)}
    return read | {"type": kind} if kind else read


def _check_ways(start: str, questions: Sequence[Mapping[str, Any]]) -> None:
    """Every answer leads on or ends the questions, none leads back, and every question can be reached."""
    following = {each["id"]: [answer["next"] for answer in each["answers"] if answer["next"]] for each in questions}
    for id, ids in following.items():
        if any(other not in following for other in ids):
            raise _leads_nowhere(id)
    for id in following:
        if id in _after(id, following):
            raise Wrong(say('The question "{id}" leads back to itself.', id=id))
    reached = {start, *_after(start, following)}
    for id in following:
        if id not in reached:
            raise Wrong(say('No answer leads to the question "{id}".', id=id))


def _after(id: str, following: Mapping[str, Sequence[str]]) -> set[str]:
    """The questions that can be asked after this one."""
    found: set[str] = set()
    waiting = [*following[id]]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += following[each]
    return found


def _leads_nowhere(question: str) -> Wrong:
    return Wrong(say('An answer to the question "{id}" leads to a question that is not there.', id=question))


def _has(value: Any, names: Collection[str], *, may: Collection[str] = ()) -> bool:
    """Whether it is an object with these fields, and with none that nobody would read."""
    return isinstance(value, Mapping) and {*names} <= {*value} <= {*names, *may}


def _id(value: Any) -> str | None:
    text = unicodedata.normalize("NFC", clean_text(value).strip()) if isinstance(value, str) else ""
    return text if 0 < len(text) <= LONGEST_ID and text.isprintable() else None


def _text(value: Any, *, most: int, breaks: str = "") -> str | None:
    """The text without what surrounds it; None for what is no text, is too long, or has control characters."""
    if value is not None and not isinstance(value, str):
        return None
    text = clean_text(value or "").replace("\r\n", "\n").strip()
    plain = all(char in breaks or unicodedata.category(char) not in ("Cc", "Zl", "Zp") for char in text)
    return text if plain and len(text) <= most else None


def _twice(names: Sequence[str]) -> str | None:
    return next((name for position, name in enumerate(names) if name in names[:position]), None)


def _loaded(stored: Mapping[str, Any]) -> FirstQuestion:
    answers = (
        Answer(each["id"], each["text"], each["next"], each.get("type") == FREE_TEXT) for each in stored["answers"]
    )
    return FirstQuestion(stored["id"], stored["text"], tuple(answers))
