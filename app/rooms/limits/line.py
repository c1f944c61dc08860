"""The line of those that wait, seen as a whole: who has left it, whose time has to be computed anew, how long it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, or_, select, update

from app.inbox import claim
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import reading, transaction
from app.rooms.limits.models import TurnSlot
from app.rooms.limits.slots import OPEN

MOST = 1000
WAITING = TurnSlot.state == "waiting"
IS_OPEN = select(Delivery.id).where(Delivery.id == TurnSlot.delivery_id, Delivery.state.in_(OPEN)).exists()


@dataclass(frozen=True)
class Line:
    """How many turns wait, by what they wait for, and when the last of them is due."""

    waiting: int
    kinds: dict[str, int]
    last_due: datetime | None


def seen(instance_id: int | None = None) -> Line:
    """The line of an instance, or of all."""
    here = () if instance_id is None else (TurnSlot.instance_id == instance_id,)
    rows = select(TurnSlot.kind, func.count(), func.max(TurnSlot.at)).where(WAITING, IS_OPEN, *here)
    with reading() as session:
        found = session.execute(rows.group_by(TurnSlot.kind)).all()
    kinds = {kind: int(number) for kind, number, _ in found}
    return Line(sum(kinds.values()), kinds, max((due for *_, due in found), default=None))


def hurry(instance_id: int | None = None) -> list[tuple[int, str]]:
    """Makes everybody that waits ask anew now, and gives their rooms (instance id, token); the caller wakes them."""
    return _hurry() if instance_id is None else _hurry(TurnSlot.instance_id == instance_id)


def replan(mark: str) -> list[tuple[int, str]]:
    """Makes those ask anew whose time was computed from other settings, or behind somebody who has left the line.

    Gives their rooms; the caller wakes them.
    """
    _close_ranks()
    return _hurry(TurnSlot.terms != mark)


def _close_ranks() -> None:
    """Takes those out of the line who were stopped or have ended otherwise; the time of those behind them is no longer true."""
    with reading() as session:
        left = session.scalars(select(TurnSlot).where(WAITING, ~IS_OPEN).limit(MOST)).all()
    if not left:
        return
    behind = update(TurnSlot).where(WAITING, or_(*(_waits_with(slot) for slot in left)))
    with transaction() as session:
        session.execute(delete(TurnSlot).where(TurnSlot.id.in_([slot.id for slot in left]), WAITING))
        session.execute(behind.values(terms="").execution_options(synchronize_session=False))


def _waits_with(slot: TurnSlot) -> ColumnElement[bool]:
    """Those that wait for the same limit as this one."""
    same = TurnSlot.kind == slot.kind
    if slot.kind == "model":
        return same & (TurnSlot.endpoint == slot.endpoint)
    whose = TurnSlot.room == slot.room if slot.kind == "room" else TurnSlot.actor == slot.actor
    return same & (TurnSlot.instance_id == slot.instance_id) & whose


def _hurry(*where: ColumnElement[bool]) -> list[tuple[int, str]]:
    now = clock.now()
    slots = select(TurnSlot.id, TurnSlot.delivery_id).where(WAITING, *where).order_by(TurnSlot.id).limit(MOST)
    with reading() as session:
        waiting = session.execute(slots).all()
    if not waiting:
        return []
    # Nobody waits for those before them until their old time.
    late = update(TurnSlot).where(TurnSlot.id.in_([slot_id for slot_id, _ in waiting]), WAITING, TurnSlot.at > now)
    with transaction() as session:
        session.execute(late.values(at=now).execution_options(synchronize_session=False))
    return claim.hurry_limited([delivery_id for _, delivery_id in waiting])
