"""Where each round of first questions stands: one row a bot, room and thread, changed by conditional steps.

The message that met the bot waits in the inbox ("waiting") and frees its room. Whatever ends the round wakes it in the
same transaction; should that ever be missed, `silence.go_on` finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from app.agent.prompt import Told
from app.conversations import expiry
from app.inbox import claim
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock, jobs
from app.infra.db import changed, insert_once, reading, transaction
from app.rooms.models import Part
from app.rooms.onboarding.models import Round

SILENCE = timedelta(minutes=10)
WORKED = ("queued", *claim.UNFINISHED)
End = Literal["done", "skipped", "expired"]


class Overtaken(Exception):
    """The round went on, or ended, since it was read: the message is looked at once more."""


@dataclass(frozen=True)
class Spot:
    """Where a bot asks: one thread of a room (`thread` 0 is the room itself)."""

    instance_id: int
    room: str
    thread: int
    bot_id: int

    @property
    def row(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class State:
    """A round as programs see it: never the words of an answer. `asked` is the id of the question asked last."""

    bot_id: int
    thread: int
    state: str
    actor: str
    asked: str
    answered: int
    asked_at: datetime
    updated_at: datetime


def find(spot: Spot) -> Round | None:
    """The bot's round there."""
    with reading() as session:
        return session.scalars(select(Round).where(*_at(spot))).one_or_none()


def unanswered(instance_id: int, room: str, thread: int) -> Sequence[Round]:
    """The rounds in a thread whose question waits for an answer, the one asked last first."""
    here = (Round.instance_id == instance_id, Round.room == room, Round.thread == thread, Round.state == "asking")
    with reading() as session:
        return session.scalars(select(Round).where(*here).order_by(Round.asked_at.desc(), Round.id.desc())).all()


def states(instance_id: int, room: str) -> list[State]:
    """How far the bots of a room are with their first questions."""
    query = select(Round).where(Round.instance_id == instance_id, Round.room == room)
    with reading() as session:
        rows = session.scalars(query.order_by(Round.thread, Round.bot_id)).all()
    return [
        State(
            bot_id=row.bot_id,
            thread=row.thread,
            state=row.state,
            actor=row.actor,
            asked=row.question_id,
            answered=len(row.answers),
            asked_at=row.asked_at,
            updated_at=row.updated_at,
        )
        for row in rows
    ]


def told(spot: Spot) -> tuple[Told, ...]:
    """What people answered there, for the prompt."""
    found = find(spot)
    if found is None or (found.expires_at is not None and found.expires_at <= clock.now()):
        return ()
    return tuple(Told(each["question"], each["answer"], each["own_words"]) for each in found.answers)


def begin(spot: Spot, question_id: str, *, actor: str, delivery_id: int) -> None:
    """Begins the round for the message that waits for it, unless there is one: of two, the first begins it."""
    with transaction() as session:
        asked = _asked(session, spot, question_id)
        insert_once(session, jobs.table(Round), {**spot.row, **asked, "actor": actor, "delivery_id": delivery_id})


def begin_anew(spot: Spot, question_id: str, *, actor: str) -> None:
    """Begins a round that nothing waits for, in place of any other; what waited for that goes on."""
    with transaction() as session:
        values = {**_asked(session, spot, question_id), "actor": actor, "delivery_id": None}
        known = session.scalars(select(Round).where(*_at(spot))).one_or_none()
        if known is None and insert_once(session, jobs.table(Round), {**spot.row, **values}) is not None:
            return
        if known is not None:
            wake(known)
        session.execute(update(Round).where(*_at(spot)).values({**values, "steps": Round.steps + 1}))


def ask(round: Round, question_id: str, *, answer: Mapping[str, Any] | None = None) -> None:
    """The next question is asked, or with no answer the same one once more. Raises Overtaken."""
    with transaction() as session:
        values = _asked(session, _spot(round), question_id)
        if answer is None:
            values |= {"misses": round.misses + 1, "answers": round.answers, "expires_at": round.expires_at}
        else:
            values |= _answered(round, answer)
        _step(session, round, values)


def end(round: Round, state: End, *, answer: Mapping[str, Any] | None = None) -> None:
    """The round is over, with the last answer where there is one; what waited for it goes on. Raises Overtaken."""
    values = {"state": state, "updated_at": clock.now(), **({} if answer is None else _answered(round, answer))}
    with transaction() as session:
        _step(session, round, values)
        wake(round)


def wake(round: Round) -> None:
    """Lets the message go on that waits for the round, where it still does."""
    if round.delivery_id is not None and claim.wake(round.delivery_id, Reason.ONBOARDING):
        jobs.enqueue(claim.DRAIN, round.instance_id, round.room)


def overdue(round: Round) -> bool:
    """Whether nobody has answered for too long."""
    return round.asked_at + SILENCE <= clock.now()


def put_off(round: Round, answer_id: int) -> bool:
    """Counts the time from now on, where the first question could not be sent so far; False where it was."""
    sent = select(Part.id).where(Part.answer_id == answer_id, Part.kind == "asks", Part.state != "written")
    with transaction() as session:
        if session.scalar(sent) is not None:
            return False
        now = clock.now()
        _step(session, round, {"asked_at": now, "updated_at": now})
    return True


def waits(round: Round) -> bool:
    """Whether a message is answered when the round is over."""
    if round.delivery_id is None:
        return False
    query = select(Delivery.id).where(Delivery.id == round.delivery_id, Delivery.state.in_(("waiting", *WORKED)))
    with reading() as session:
        return session.scalar(query) is not None


def was_asked(answer_id: int) -> bool:
    """Whether the answer to a message has begun with a question before."""
    with reading() as session:
        asked = session.scalar(select(Part.id).where(Part.answer_id == answer_id, Part.kind == "asks"))
    return asked is not None


def take_back(answer_id: int) -> None:
    """A question that could not be sent in time must not be sent right before the answer."""
    unsent = (Part.answer_id == answer_id, Part.kind == "asks", Part.state == "written")
    with transaction() as session:
        session.execute(delete(Part).where(*unsent))


def forget(instance_id: int, room: str, bot_id: int | None = None) -> int:
    """Forgets the rounds of a room, or of one bot there; gives their number. What waited for one goes on."""
    here = (Round.instance_id == instance_id, Round.room == room)
    return _drop(*here, *(() if bot_id is None else (Round.bot_id == bot_id,)))


def leave(instance_id: int, room: str, registration_id: int) -> None:
    """Ends what is asked there by bots of a registration that was removed from the room."""
    through = select(Delivery.id).where(
        Delivery.instance_id == instance_id, Delivery.room == room, Delivery.registration_id == registration_id
    )
    here = (Round.instance_id == instance_id, Round.room == room, Round.state == "asking")
    _drop(*here, Round.delivery_id.in_(through))


def unsay(instance_id: int, room: str, *, since: datetime, gone: Callable[[str, int | None], bool]) -> None:
    """Forgets answers whose messages were deleted; `gone` is asked with the actor and the message's id.

    Only rounds are looked at in which somebody answered since then.
    """
    lately = (Round.instance_id == instance_id, Round.room == room, Round.updated_at >= since)
    with transaction() as session:
        for row in session.scalars(select(Round).where(*lately)):
            row.answers = [each for each in row.answers if not gone(each["actor"], each["message_id"])]


def purge() -> None:
    """Forgets answers whose time is over; that they were given is still known."""
    over = update(Round).where(Round.expires_at <= clock.now())
    with transaction() as session:
        session.execute(over.values(answers=[], expires_at=None))


def _asked(session: Session, spot: Spot, question_id: str) -> dict[str, Any]:
    """The columns of a question that is asked now."""
    now = clock.now()
    unread = select(func.max(Delivery.received_at)).where(
        Delivery.instance_id == spot.instance_id, Delivery.room == spot.room, Delivery.state.in_(WORKED)
    )
    return {
        "state": "asking",
        "question_id": question_id,
        "misses": 0,
        "steps": 0,
        "answers": [],
        "heard_until": session.scalar(unread) or now,
        "asked_at": now,
        "updated_at": now,
        "expires_at": None,
    }


def _answered(round: Round, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "answers": [*round.answers, dict(answer)],
        "expires_at": expiry.ends_at(round.instance_id, round.room),
    }


def _step(session: Session, round: Round, values: Mapping[str, Any]) -> None:
    as_read = (Round.id == round.id, Round.state == "asking", Round.steps == round.steps)
    step = update(Round).where(*as_read).values({**values, "steps": round.steps + 1})
    if changed(session.execute(step)) != 1:
        raise Overtaken(f"the round {round.id} is not at step {round.steps} any more")


def _drop(*where: ColumnElement[bool]) -> int:
    with transaction() as session:
        rows = session.scalars(select(Round).where(*where)).all()
        for row in rows:
            wake(row)
        session.execute(delete(Round).where(Round.id.in_([row.id for row in rows])))
    return len(rows)


def _spot(round: Round) -> Spot:
    return Spot(round.instance_id, round.room, round.thread, round.bot_id)


def _at(spot: Spot) -> tuple[ColumnElement[bool], ...]:
    return tuple(getattr(Round, name) == value for name, value in spot.row.items())
