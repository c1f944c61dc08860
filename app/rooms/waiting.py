"""Turns over a limit: told their waiting time, and answered when it is over."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import ColumnElement, select

from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import reading
from app.infra.i18n import Sentence, say
from app.rooms.models import Answer
from app.rooms.parts import Pause, Said
from app.rooms.thinking.question import Question
from app.settings import store
from app.traces.models import TurnTrace

MINUTE = timedelta(minutes=1)


def limited(question: Question) -> Said | Pause | None:
    """Too many turns in this minute, in the room or of this person: told once a minute, with the waiting time."""
    delivery, answer, place = question.delivery, question.answer, question.place
    limits = store.several("turns_per_room_minute", "turns_per_person_minute")
    here = (TurnTrace.instance_id == delivery.instance_id, TurnTrace.delivery_id != delivery.id)
    room = _seconds_left(*here, TurnTrace.room == delivery.room, most=limits["turns_per_room_minute"])
    person = _seconds_left(*here, TurnTrace.actor == delivery.actor, most=limits["turns_per_person_minute"])
    if not room and not person:
        return None
    if _told_lately(delivery, answer):
        return Said("", Reason.TOLD_LIMIT)
    sentence = (
        _room_waits(limits["turns_per_room_minute"], room)
        if room >= person
        else _person_waits(limits["turns_per_person_minute"], person)
    )
    return Said(sentence.text(place.language), Reason.TOLD_LIMIT)


def _room_waits(most: int, seconds: int) -> Sentence:
    return say(
        "This room has used its {most} answers a minute. Please ask again in {seconds} seconds.",
        most=most,
        seconds=seconds,
    )


def _person_waits(most: int, seconds: int) -> Sentence:
    return say(
        "You have used your {most} answers a minute. Please ask again in {seconds} seconds.", most=most, seconds=seconds
    )


def _seconds_left(*where: ColumnElement[bool], most: int) -> int:
    """Seconds until one of the last `most` turns is a minute old; 0 when there were fewer."""
    now = clock.now()
    recent = select(TurnTrace.started_at).where(*where, TurnTrace.started_at > now - MINUTE)
    with reading() as session:
        starts = session.scalars(recent.order_by(TurnTrace.started_at.desc()).limit(most)).all()
    if len(starts) < most:
        return 0
    return max(1, round((starts[-1] + MINUTE - now).total_seconds()))


def _told_lately(delivery: Delivery, answer: Answer) -> bool:
    query = (
        select(Answer.id)
        .join(Delivery, Delivery.id == Answer.delivery_id)
        .where(Delivery.instance_id == delivery.instance_id, Delivery.room == delivery.room)
        .where(Delivery.actor == delivery.actor, Answer.id != answer.id)
        .where(Answer.reason == Reason.TOLD_LIMIT.value, Answer.created_at > clock.now() - MINUTE)
    )
    with reading() as session:
        return session.scalar(query.limit(1)) is not None
