"""A review: what its owner submits is tried, and then approved or rejected, by one of those who may, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.bots import form, store
from app.bots.models import Bot
from app.bots.review import edit, rights, version
from app.bots.review.rights import Who
from app.infra import clock
from app.infra.db import clean_text
from app.infra.errors import Conflict
from app.infra.i18n import Sentence, say

LONGEST_ANSWER = 4000
# What an owner tells the reviewers; the first one is needed.
QUESTIONS = ("approval_reason", "bot_capabilities", "rag_source_description", "testing_description")


def submit(who: Who, bot: Bot, answers: Mapping[str, Any]) -> Bot:
    """Asks for a review of a draft, with what reviewers should know (QUESTIONS). Raises BadInput, Conflict, NotAllowed."""
    rights.need(who, bot, "see")
    if bot.scope == "personal" and rights.may(who, bot, "edit"):
        raise Conflict(say("A personal bot needs no review. Choose first whom it is for."))
    rights.need(who, bot, "submit")
    told = questionnaire(answers)
    return store.write(
        bot,
        {
            **edit.UNREVIEWED,
            "questionnaire": told,
            "submitted_at": clock.now(),
            "state": "pending",
        },
        state=bot.state,
    )


def approve(who: Who, bot: Bot, *, revision: int | None = None) -> Bot:
    """Makes what waits the live version; `revision` is the one that was looked at. Raises Conflict, NotAllowed."""
    _need(who, bot, "approve", revision)
    fields = {**(bot.pending or {})}
    tools = fields.pop("tools", None)
    columns = {**fields, **edit.approval(who), "pending": None, "tester": None, "state": "approved"}
    return store.write(bot, columns, assigned=tools, state="pending")


def reject(who: Who, bot: Bot, reason: object, *, revision: int | None = None) -> Bot:
    """Drops what waits beside a live version, or sends a bot back to its owner, who reads `reason`.

    Raises BadInput, Conflict, NotAllowed.
    """
    _need(who, bot, "reject", revision)
    wrong: dict[str, Sentence] = {}
    told = _answer(reason, "reason", wrong, needed=True)
    form.refuse(wrong)
    state = "approved" if bot.is_live else "rejected"
    columns = {"pending": None, "tester": None, "submitted_at": None, "rejection_reason": told, "state": state}
    return store.write(bot, columns, state="pending")


def test(who: Who, bot: Bot) -> Bot:
    """Lets the reviewer talk to what waits, in place of whoever did before. Raises Conflict, NotAllowed."""
    _need(who, bot, "test", None)
    return store.write(bot, {"tester": who.uid}, state="pending", quietly=True)


def questionnaire(answers: Mapping[str, Any]) -> dict[str, str]:
    """The checked answers to QUESTIONS, all of them. Raises BadInput with a sentence a wrong field."""
    wrong: dict[str, Sentence] = {
        name[:64]: say("There is no field of this name.") for name in answers if name not in QUESTIONS
    }
    told = {name: _answer(answers.get(name), name, wrong, needed=name == QUESTIONS[0]) for name in QUESTIONS}
    form.refuse(wrong)
    return told


def changed_fields(bot: Bot) -> list[str]:
    """The names of what an approval would change; everything where nothing is live yet."""
    return [name for name in version.FIELDS if bot.pending is None or name in bot.pending]


def _need(who: Who, bot: Bot, verb: rights.Verb, revision: int | None) -> None:
    rights.need(who, bot, "see")
    rights.need(who, bot, verb)
    if revision is not None and revision != bot.revision:
        raise Conflict(store.CHANGED)


def _answer(value: object, name: str, wrong: dict[str, Sentence], *, needed: bool) -> str:
    text = "" if value is None else value
    if not isinstance(text, str):
        wrong[name] = say("This must be a text.")
        return ""
    text = clean_text(text).strip()
    if len(text) > LONGEST_ANSWER or (needed and not text):
        least = 1 if needed else 0
        wrong[name] = say("This has {least} to {most} characters.", least=least, most=LONGEST_ANSWER)
    return text
