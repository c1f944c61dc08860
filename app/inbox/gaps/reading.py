"""The rooms that are to be read after a gap: one worker at a time reads those of an instance, under a lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select, update

from app.accounts.serviceuser import Reason
from app.inbox.gaps.models import Gap, RoomReading
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import changed, insert_once, reading, transaction
from app.infra.jobs import table
from app.platforms.models import Room

LEASE = timedelta(minutes=5)
AGAIN = timedelta(seconds=30)
# Numbers of messages are those of events in the order in which they came, give or take those of one moment.
LOOKED_AT = 20


@dataclass(frozen=True)
class OpenGap:
    """The open gaps of an instance as one: events between `began` and `ended` may be lost."""

    instance_id: int
    ids: tuple[int, ...]
    began: datetime
    ended: datetime


def due() -> Sequence[int]:
    """The instances whose rooms are to be read now."""
    query = select(Gap.instance_id).where(Gap.finished_at.is_(None), Gap.due_at <= clock.now()).distinct()
    with reading() as session:
        return session.scalars(query).all()


def claim(instance_id: int) -> OpenGap | None:
    """Takes the open gaps of an instance for LEASE; None where there is none, or another worker has them."""
    now = clock.now()
    mine = (Gap.instance_id == instance_id, Gap.finished_at.is_(None))
    with transaction() as session:
        taken = update(Gap).where(*mine, Gap.due_at <= now).values(due_at=now + LEASE)
        if not changed(session.execute(taken)):
            return None
        found = session.scalars(select(Gap).where(*mine).order_by(Gap.id)).all()
    return OpenGap(
        instance_id,
        tuple(gap.id for gap in found),
        min(gap.began_at for gap in found),
        max(gap.ended_at for gap in found),
    )


def put_off(missed: OpenGap, reason: str, *, recovered: int = 0, delay: timedelta = AGAIN) -> None:
    """Gives the gaps back: the rest is read in `delay`."""
    values = {"due_at": clock.now() + delay, "reason": reason, "recovered": Gap.recovered + recovered}
    with transaction() as session:
        session.execute(update(Gap).where(Gap.id.in_(missed.ids)).values(values))


def finish(missed: OpenGap, reason: str = "", *, recovered: int = 0) -> None:
    """All that can be read was read; `reason` is why it was not."""
    values = {"finished_at": clock.now(), "reason": reason, "recovered": Gap.recovered + recovered}
    with transaction() as session:
        session.execute(update(Gap).where(Gap.id.in_(missed.ids)).values(values))


def note_room(room_id: int, reason: Reason | None, *, left_out: bool = False, last_id: int | None = None) -> None:
    """What came of reading a room, in which `last_id` is the last message."""
    now = clock.now()
    values: dict[str, Any] = {"read_at": now, "reason": reason or "", "last_id": last_id}
    if left_out:
        values["left_out_at"] = now
    with transaction() as session:
        if insert_once(session, table(RoomReading), {"room_id": room_id, **values}) is None:
            session.execute(update(RoomReading).where(RoomReading.room_id == room_id).values(values))


def notes(instance_id: int) -> Mapping[int, RoomReading]:
    """What came of the last reading of each room of an instance, by the room's id."""
    rows = select(RoomReading).join(Room, Room.id == RoomReading.room_id).where(Room.instance_id == instance_id)
    with reading() as session:
        return {note.room_id: note for note in session.scalars(rows)}


def last_known(registration_id: int, instance_id: int, room: str, *, before: datetime) -> int | None:
    """The number of the last message of a room that this registration was told of before a moment."""
    query = (
        select(Delivery.object_id)
        .where(Delivery.instance_id == instance_id, Delivery.room == room)
        .where(Delivery.registration_id == registration_id, Delivery.received_at <= before)
        .where(Delivery.kind.in_(("message", "system", "recovered")), Delivery.object_id.is_not(None))
        .order_by(Delivery.id.desc())
        .limit(LOOKED_AT)
    )
    with reading() as session:
        ids = [str(id) for id in session.scalars(query)]
    return max((int(id) for id in ids if id.isascii() and id.isdigit()), default=None)
