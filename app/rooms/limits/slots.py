"""Handing out places to turns: one of those that a minute has, or one in line.

Whoever asks holds the gates of its room and of its person meanwhile, in this order: of two that ask for the last place
one gets it, on every database. A turn counts once, however often a crash makes it ask.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from sqlalchemy import ColumnElement, and_, delete, func, select, update
from sqlalchemy.orm import Session

from app.inbox.again import again
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import changed, insert_once, reading, transaction
from app.infra.jobs import table
from app.rooms.limits.models import TurnGate, TurnSlot
from app.rooms.limits.schedule import MINUTE, next_start
from app.rooms.limits.terms import Terms

Kind = Literal["room", "person", "model"]

# A delivery in another state has ended: nobody waits any more.
OPEN = ("queued", "claimed", "running")
# Those whose time comes at one moment don't all come at that moment.
JITTER_SECONDS = (0.05, 0.5)
KEPT = timedelta(days=1)
TRIES = 5


@dataclass(frozen=True)
class Asking:
    """A turn that asks for its place."""

    answer_id: int
    delivery_id: int
    instance_id: int
    room: str
    actor: str

    @property
    def gates(self) -> tuple[str, str]:
        """The names of what is locked meanwhile, in the order in which everybody locks."""
        return f"room:{self.room}", f"person:{self.actor}"


@dataclass(frozen=True)
class Wait:
    """What a turn waits for, and until when; `endpoint` is whose limit it is where it waits for a model."""

    kind: Kind
    until: datetime
    endpoint: str = ""


@dataclass(frozen=True)
class Slot:
    """A place: the turn may begin, or has to `wait`. `since` is when it asked first, `waited` whether it was in line."""

    since: datetime
    wait: Wait | None = None
    waited: bool = False

    @property
    def seconds(self) -> float:
        """How long it has to wait from now on."""
        return 0.0 if self.wait is None else max(0.0, (self.wait.until - clock.now()).total_seconds())


def ask(asking: Asking, terms: Terms, *, model: Wait | None = None) -> Slot:
    """Takes a place for a turn, or puts it in line; one that has begun keeps its place. `model` is a wait of its model."""
    return _with_gates(partial(_placed, asking, terms, model, keeps=True), asking)


def put_off(asking: Asking, terms: Terms, *, model: Wait) -> Slot:
    """Puts a turn in line that had begun, and counts no more: its model answered nothing."""
    return _with_gates(partial(_placed, asking, terms, model, keeps=False), asking)


def refuse(answer_id: int) -> None:
    """Takes a turn out of the line that won't be run."""
    with transaction() as session:
        own = update(TurnSlot).where(TurnSlot.answer_id == answer_id)
        session.execute(own.values(state="refused", at=clock.now()))


def tell(asking: Asking) -> bool:
    """Whether the person is to be told that this turn waits: they are for one turn a minute in a room."""
    now = clock.now()
    theirs = (TurnSlot.instance_id == asking.instance_id, TurnSlot.actor == asking.actor, TurnSlot.room == asking.room)
    with transaction() as session:
        own = session.scalars(select(TurnSlot).where(TurnSlot.answer_id == asking.answer_id)).one()
        if own.told_at is not None:
            return True
        if session.scalar(select(TurnSlot.id).where(*theirs, TurnSlot.told_at > now - MINUTE).limit(1)) is not None:
            return False
        own.told_at = now
    return True


def ahead(endpoint: str, answer_id: int) -> int:
    """How many wait for a model of this endpoint before this turn."""
    waiting = (TurnSlot.kind == "model", TurnSlot.endpoint == endpoint)
    with reading() as session:
        own_id = session.scalar(select(TurnSlot.id).where(TurnSlot.answer_id == answer_id))
        before = select(func.count()).select_from(TurnSlot).where(*_in_line(own_id, clock.now()), *waiting)
        return session.scalar(before) or 0


def found(answer_id: int) -> TurnSlot | None:
    """The place of a turn as it stands."""
    with reading() as session:
        return session.scalars(select(TurnSlot).where(TurnSlot.answer_id == answer_id)).one_or_none()


def forget() -> int:
    """Deletes places that count no more and gates that nobody uses; gives the number of places."""
    before = clock.now() - KEPT
    with transaction() as session:
        session.execute(delete(TurnGate).where(TurnGate.used_at < before))
        old = delete(TurnSlot).where(TurnSlot.state != "waiting", TurnSlot.at < before)
        return changed(session.execute(old.execution_options(synchronize_session=False)))


def _with_gates(place: partial[Slot | None], asking: Asking) -> Slot:
    for _ in range(TRIES):
        slot = again(place)
        if slot is not None:
            return slot
        again(partial(_make_gates, asking))
    raise RuntimeError("a turn found no gates to hold")


def _make_gates(asking: Asking) -> None:
    for name in asking.gates:
        row = {"instance_id": asking.instance_id, "name": name, "used_at": clock.now()}
        # In a transaction of its own: two that insert the same row would hold locks that neither can raise (MariaDB).
        with transaction() as session:
            insert_once(session, table(TurnGate), row)


def _placed(asking: Asking, terms: Terms, model: Wait | None, *, keeps: bool) -> Slot | None:
    """The place of the turn, written; None where a gate is missing."""
    with transaction() as session:
        if not all(_held(session, asking.instance_id, name) for name in asking.gates):
            return None
        now = clock.now()
        own = session.scalars(select(TurnSlot).where(TurnSlot.answer_id == asking.answer_id)).one_or_none()
        if keeps and own is not None and own.state == "begun":
            return Slot(own.since)
        waits = [*_waits(session, asking, terms, own, now), *([] if model is None else [model])]
        wait = max(waits, key=lambda each: each.until, default=None)
        waited = own is not None and own.state == "waiting"
        written = _written(session, asking, own, now)
        written.state, written.at = ("begun", now) if wait is None else ("waiting", wait.until)
        if wait is not None:
            written.kind, written.endpoint, written.terms = wait.kind, wait.endpoint, terms.mark
        return Slot(written.since, wait, waited)


def _held(session: Session, instance_id: int, name: str) -> bool:
    """Holds a gate until the transaction ends; False where there is none."""
    gate = update(TurnGate).where(TurnGate.instance_id == instance_id, TurnGate.name == name)
    return changed(session.execute(gate.values(used_at=clock.now()))) == 1


def _written(session: Session, asking: Asking, own: TurnSlot | None, now: datetime) -> TurnSlot:
    """The row of the turn, made where there is none; one that was refused before begins anew."""
    if own is None:
        own = TurnSlot(**vars(asking), since=now)
        session.add(own)
    elif own.state == "refused":
        own.since, own.told_at = now, None
    return own


def _waits(session: Session, asking: Asking, terms: Terms, own: TurnSlot | None, now: datetime) -> Iterator[Wait]:
    here, own_id = TurnSlot.instance_id == asking.instance_id, None if own is None else own.id
    scopes: tuple[tuple[Kind, int, ColumnElement[bool]], ...] = (
        ("room", terms.room, TurnSlot.room == asking.room),
        ("person", terms.person, TurnSlot.actor == asking.actor),
    )
    for kind, most, whose in scopes:
        if most > 0:
            starts = session.scalars(select(TurnSlot.at).where(here, whose, *_counts(asking, now))).all()
            line = select(TurnSlot.at).where(here, whose, TurnSlot.kind == kind, *_in_line(own_id, now))
            dues = session.scalars(line).all()
            moment = max([next_start(starts, most, now=now, ahead=len(dues)), *dues])
            if moment > now:
                yield Wait(kind, moment + timedelta(seconds=random.uniform(*JITTER_SECONDS)))


def _counts(asking: Asking, now: datetime) -> Iterator[ColumnElement[bool]]:
    """The turns of the last minute; one from the far future was counted by a clock that was wrong."""
    yield TurnSlot.state == "begun"
    yield and_(TurnSlot.at > now - MINUTE, TurnSlot.at < now + MINUTE)
    yield TurnSlot.answer_id != asking.answer_id


def _in_line(own_id: int | None, now: datetime) -> Iterator[ColumnElement[bool]]:
    """Those that wait, and came before this one. Whoever does not come when it is due keeps no place free for long."""
    yield TurnSlot.state == "waiting"
    yield TurnSlot.at > now - MINUTE
    yield select(Delivery.id).where(Delivery.id == TurnSlot.delivery_id, Delivery.state.in_(OPEN)).exists()
    if own_id is not None:
        yield TurnSlot.id < own_id
