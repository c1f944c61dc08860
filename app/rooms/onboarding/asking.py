"""The questions that a bot asks in a room before it answers there for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from app.bots import access, store
from app.bots.models import Bot
from app.bots.questions import tree
from app.bots.questions.tree import FirstQuestion
from app.bots.review.version import effective
from app.inbox.accept import fitted
from app.inbox.reasons import Reason
from app.platforms.base import Actor, IncomingEvent
from app.rooms import members
from app.rooms.onboarding import matching, rounds, wording
from app.rooms.onboarding.matching import Given
from app.rooms.onboarding.models import Round
from app.rooms.onboarding.rounds import End, Spot
from app.rooms.parts import Pause, Place, Said
from app.rooms.thinking.question import Question

MOST_HINTS = 3
LONGEST_ACTOR = 255


def awaits(event: IncomingEvent, place: Place) -> int | None:
    """The bot whose question a message answers that mentions none: the one that asked last, of those this person may answer.

    Whoever is asked answers with whatever they write; a moderator only with what is an answer. No answer is what
    replies to somebody else, a file alone, or what was written before the question was asked. May talk to the network.
    """
    if event.parent is not None or not event.words:
        return None
    waiting = rounds.unanswered(place.room.instance_id, place.room.token, event.thread or 0)
    mine = [each for each in waiting if each.actor == _key(event.actor)]
    # Those whom nobody asked look at no tree: they are most of a room.
    if not mine and not event.actor.moderator:
        return None
    found = next(iter(mine or waiting), None)
    if found is None or place.received_at <= found.heard_until:
        return None
    return found.bot_id if mine or _helps(event, found) else None


def next_step(question: Question) -> Said | Pause | None:
    """The first or the next question, or what is said at the end; None where the bot has nothing (more) to ask.

    A message that begins the questions waits until they are over, and is answered then. Told twice about one message
    it says the same: a step is made together with the parts of what is said. Never inside a block.
    """
    found = rounds.find(_spot(question)) or _begun(question)
    if found is None:
        return None
    if found.delivery_id == question.delivery.id:
        return _waiting(question, found)
    if found.state != "asking" or not _may_answer(question.event, question.place, found):
        return None
    return _answered(question, found)


def restart(question: Question) -> Said | None:
    """Asks from the beginning again, whoever writes the message (`@bot setup`); None where the bot has no questions.

    What was answered before is forgotten, and the message itself is answered by the first question.
    """
    first = tree.first(question.bot.onboarding)
    if first is None:
        return None
    text = wording.asked(first, question.place.language, lead=wording.ANEW)
    anew = partial(rounds.begin_anew, _spot(question), first.id, actor=_key(question.event.actor))
    return Said(text, Reason.ONBOARDING, anew)


def forget(instance_id: int, room: str, bot_id: int) -> int:
    """Forgets the bot's questions and their answers in every thread of the room, so that it asks again; gives their number.

    A message that waited for them is answered without them.
    """
    return rounds.forget(instance_id, room, bot_id)


def _begun(question: Question) -> Round | None:
    """The round that this message begins, or the one that somebody else has begun in this moment."""
    first = tree.first(question.bot.onboarding)
    if first is None:
        return None
    # One whose round was forgotten meanwhile does not begin another.
    if rounds.was_asked(question.answer.id):
        rounds.take_back(question.answer.id)
        return None
    spot, actor = _spot(question), _key(question.event.actor)
    rounds.begin(spot, first.id, actor=actor, delivery_id=question.delivery.id)
    return rounds.find(spot)


def _waiting(question: Question, round: Round) -> Pause | None:
    """The message that began the round: it waits, until the round is over or nobody has answered for too long."""
    if round.state == "asking":
        asked = _questions(question, round).get(round.question_id)
        if asked is not None and (not rounds.overdue(round) or rounds.put_off(round, question.answer.id)):
            text = wording.asked(asked, question.place.language, lead=wording.BEFORE_ANSWERING)
            return Pause("waiting", Reason.ONBOARDING, notice=("asks", text))
        rounds.end(round, "done" if asked is None else "expired")
    rounds.take_back(question.answer.id)
    return None


def _may_answer(event: IncomingEvent, place: Place, round: Round) -> bool:
    asked = round.actor == _key(event.actor) or event.actor.moderator is True
    return asked and place.received_at > round.heard_until


def _answered(question: Question, round: Round) -> Said | None:
    """What a message of somebody who may answer brings about; None where it is a moderator's and no answer."""
    questions = _questions(question, round)
    asked = questions.get(round.question_id)
    if asked is None:
        # The bot was changed while it asked.
        return _over(question, round, "done")
    given = matching.read(asked, question.caption)
    if given == "skip":
        return _over(question, round, "skipped")
    if given is None:
        return _missed(question, round, asked)
    record = _record(question, asked, given)
    following = questions.get(given.answer.next or "")
    if following is None:
        return _over(question, round, "done", answer=record)
    step = partial(rounds.ask, round, following.id, answer=record)
    return Said(wording.asked(following, question.place.language), Reason.ONBOARDING, step)


def _missed(question: Question, round: Round, asked: FirstQuestion) -> Said | None:
    """The question once more, a few times; then it is skipped. A moderator's other words are none of its business."""
    if round.actor != _key(question.event.actor):
        return None
    if round.misses >= MOST_HINTS:
        return _over(question, round, "skipped")
    text = wording.asked(asked, question.place.language, lead=wording.NOT_UNDERSTOOD)
    return Said(text, Reason.ONBOARDING, partial(rounds.ask, round, asked.id))


def _over(question: Question, round: Round, state: End, *, answer: Mapping[str, Any] | None = None) -> Said:
    """The end: the message that waits is answered now, which says enough; where none does, somebody says thank you."""
    text = "" if rounds.waits(round) else wording.THANKS.text(question.place.language)
    return Said(text, Reason.ONBOARDING, partial(rounds.end, round, state, answer=answer))


def _record(question: Question, asked: FirstQuestion, given: Given) -> dict[str, Any]:
    return {
        "question_id": asked.id,
        "question": asked.text,
        "answer_id": given.answer.id,
        "answer": given.words,
        "own_words": given.answer.own_words,
        "actor": _key(question.event.actor),
        "message_id": question.event.message_id,
    }


def _helps(event: IncomingEvent, round: Round) -> bool:
    """Whether a moderator who may use the bot has written an answer."""
    bot = store.get(round.bot_id)
    if bot is None:
        return False
    asked = _of(bot, round).get(round.question_id)
    if asked is None or matching.read(asked, event.words) is None:
        return False
    members.confirm([bot], event.actor, bot.instance_id)
    return access.may_use(bot, event.actor, bot.instance_id).allowed


def _questions(question: Question, round: Round) -> Mapping[str, FirstQuestion]:
    """The questions by id, in the version that whoever began the round talks to, also where somebody else answers."""
    if round.actor == _key(question.event.actor):
        return tree.by_id(question.bot.onboarding)
    bot = store.get(question.bot.id)
    return {} if bot is None else _of(bot, round)


def _of(bot: Bot, round: Round) -> Mapping[str, FirstQuestion]:
    kind, _, id = round.actor.partition("/")
    return tree.by_id(effective(bot, Actor(kind, id, id)).bot.onboarding)


def _spot(question: Question) -> Spot:
    room = question.place.room
    return Spot(room.instance_id, room.token, question.thread, question.bot.id)


def _key(actor: Actor) -> str:
    return fitted(actor.key, LONGEST_ACTOR)
