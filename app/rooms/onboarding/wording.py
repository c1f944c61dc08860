"""How a first question is put to people: what it asks, the choices under their letters, and how to answer."""

from __future__ import annotations

from app.bots.questions.tree import FirstQuestion
from app.infra.i18n import Sentence, say
from app.rooms.onboarding.matching import LETTERS

BEFORE_ANSWERING = say("Before I answer, please tell me:")
ANEW = say("Please tell me:")
NOT_UNDERSTOOD = say("Sorry, I could not tell which answer you mean. Please try once more:")
THANKS = say("Thank you, I will keep that in mind.")
BY_LETTER = say('Answer with a letter, or write "skip" to go on without an answer.')
IN_OWN_WORDS = say('Answer in your own words, or write "skip" to go on without an answer.')
EITHER = say('Answer with a letter or in your own words, or write "skip" to go on without an answer.')


def asked(question: FirstQuestion, language: str, *, lead: Sentence | None = None) -> str:
    """The question as it stands in the room; after a `lead` also how it is answered."""
    pieces = [question.text, "\n".join(_lines(question))]
    if lead is not None:
        pieces = [lead.text(language), *pieces, _how(question).text(language)]
    return "\n\n".join(filter(None, pieces))


def _lines(question: FirstQuestion) -> list[str]:
    lines = [f"- **{letter}** {choice.text}" for letter, choice in zip(LETTERS, question.choices, strict=False)]
    own = question.own_words
    return [*lines, f"- {own.text}"] if own is not None and own.text else lines


def _how(question: FirstQuestion) -> Sentence:
    if question.own_words is None:
        return BY_LETTER
    return EITHER if question.choices else IN_OWN_WORDS
