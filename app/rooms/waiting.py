"""Turns over a limit: told their waiting time, and answered when it is over (product.md K7).

Three limits make a turn wait: that of its room, that of its person, and that of its model's endpoint. None of them
holds up anybody else: later messages pass it, and those that wait for the same limit stand behind it in line
(rooms.limits). Its delivery stays in the inbox as it came, so it is answered with all that came with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import delete

from app.agent.events import Finished
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import transaction
from app.infra.errors import ParleyError
from app.infra.i18n import Sentence, say
from app.llm import endpoints
from app.llm.base import ErrorClass
from app.llm.endpoints import Resolved
from app.llm.limits import buckets
from app.rooms.limits import slots
from app.rooms.limits.schedule import MINUTE
from app.rooms.limits.slots import Asking, Slot, Wait
from app.rooms.limits.terms import Terms
from app.rooms.models import Part
from app.rooms.parts import Pause, Said
from app.rooms.thinking.question import Question

# So far apart come those whose model's server asked for a pause.
APART_SECONDS = 0.5
LONGEST_APART = 60.0


def limited(question: Question) -> Said | Pause | None:
    """That a limit is reached: a pause with the waiting time, or what is said where that would be too long; None where
    the turn may begin, which then counts."""
    terms = Terms.read()
    model = _model_wait(question, terms)
    may_wait = model is not None or question.delivery.held_until is not None
    if not (terms.room or terms.person or may_wait):
        return None
    slot = slots.ask(_asking(question), terms, model=model)
    if slot.wait is not None:
        return _waits(question, slot, terms)
    if slot.waited:
        _withdraw_notice(question)
    return None


def put_off(question: Question, finished: Finished, resolved: Resolved | None) -> Said | Pause | None:
    """The same for a turn that found its model's limit reached when it asked first; None for any other end."""
    seconds = finished.retry_after
    begun = finished.text.strip() or finished.tool_calls or finished.model_calls > 1
    if seconds is None or begun or resolved is None or finished.error_class != ErrorClass.RATE_LIMIT:
        return None
    terms, asking = Terms.read(), _asking(question)
    model = _until(resolved.endpoint, seconds, slots.ahead(resolved.endpoint, asking.answer_id))
    return _waits(question, slots.put_off(asking, terms, model=model), terms)


def waited(question: Question) -> Iterator[tuple[str, int]]:
    """What a turn has waited for before it began, and for how many milliseconds; nothing where it has not."""
    if question.delivery.held_until is None:
        return
    slot = slots.found(question.answer.id)
    if slot is not None and slot.kind:
        yield slot.kind, round((slot.at - slot.since).total_seconds() * 1000)


def _asking(question: Question) -> Asking:
    delivery = question.delivery
    return Asking(question.answer.id, delivery.id, delivery.instance_id, delivery.room, delivery.actor)


def _model_wait(question: Question, terms: Terms) -> Wait | None:
    """The wait for the limits of the model's endpoint, where it is longer than a turn waits once it has begun."""
    if not buckets.in_use():
        return None
    try:
        resolved = endpoints.resolve(question.bot.model)
    except ParleyError:
        return None  # the turn itself tells what is wrong
    before = slots.ahead(resolved.endpoint, question.answer.id)
    seconds = resolved.due_in(ahead=before)
    return None if seconds <= terms.model_wait else _until(resolved.endpoint, seconds, 0)


def _until(endpoint: str, seconds: float, before: int) -> Wait:
    apart = min(before * APART_SECONDS, LONGEST_APART) + random.uniform(*slots.JITTER_SECONDS)
    return Wait("model", clock.now() + timedelta(seconds=seconds + apart), endpoint)


def _waits(question: Question, slot: Slot, terms: Terms) -> Said | Pause | None:
    wait, asking, language = slot.wait, _asking(question), question.place.language
    if wait is None:
        return None
    time = buckets.spoken(slot.seconds)
    if wait.until > slot.since + terms.longest:
        # Whoever was told a moment ago knows it; whoever has waited is told in any case.
        told = slots.tell(asking) or clock.now() - slot.since > MINUTE
        slots.refuse(asking.answer_id)
        return Said(_refusal(wait, terms, time).text(language) if told else "", Reason.TOLD_LIMIT)
    pause = Pause("later", Reason.LIMIT_WAIT, slot.seconds, hold=False, detail=f"{wait.kind} {wait.endpoint}".strip())
    if not slots.tell(asking):
        return pause
    return replace(pause, notice=("waits", _notice(wait, terms, time).text(language)))


def _notice(wait: Wait, terms: Terms, time: Sentence) -> Sentence:
    if wait.kind == "room":
        return say(
            "This room has used its {most} answers a minute. Your answer comes in about {time}.",
            most=terms.room,
            time=time,
        )
    if wait.kind == "person":
        return say(
            "You have used your {most} answers a minute. Your answer comes in about {time}.",
            most=terms.person,
            time=time,
        )
    return say("The model has been asked as often as is allowed for now. Your answer comes in about {time}.", time=time)


def _refusal(wait: Wait, terms: Terms, time: Sentence) -> Sentence:
    if wait.kind == "room":
        return say(
            "This room has used its {most} answers a minute, and too many wait already. Please ask again in {time}.",
            most=terms.room,
            time=time,
        )
    if wait.kind == "person":
        return say(
            "You have used your {most} answers a minute, and too many wait already. Please ask again in {time}.",
            most=terms.person,
            time=time,
        )
    return say("The model has been asked as often as is allowed for now. Please ask again in {time}.", time=time)


def _withdraw_notice(question: Question) -> None:
    """A notice that could not be sent while the turn waited must not be sent right before its answer."""
    unsent = (Part.answer_id == question.answer.id, Part.kind == "waits", Part.state == "written")
    with transaction() as session:
        session.execute(delete(Part).where(*unsent))
