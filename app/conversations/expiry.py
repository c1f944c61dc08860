"""Rooms whose messages expire: each message carries its time, and after it is neither read nor kept.

As in the chat system, the setting of a room counts for what is said after it; what was said before keeps its time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select

from app.conversations.models import RoomExpiration, RoomMessage
from app.infra import clock
from app.infra.db import changed, insert_once, reading, transaction
from app.infra.jobs import table

LONGEST_SECONDS = 10 * 365 * 86_400


def set_expiration(instance_id: int, room: str, seconds: int | None) -> None:
    """From now on messages of this room live for `seconds`; None or 0: as long as the retention allows."""
    here = (RoomExpiration.instance_id == instance_id, RoomExpiration.room == room)
    with transaction() as session:
        session.execute(delete(RoomExpiration).where(*here))
        if seconds and seconds > 0:
            row = {"instance_id": instance_id, "room": room, "seconds": min(seconds, LONGEST_SECONDS)}
            insert_once(session, table(RoomExpiration), row)


def ends_at(instance_id: int, room: str) -> datetime | None:
    """When a message that is said in the room now expires; None where messages stay."""
    query = select(RoomExpiration.seconds).where(RoomExpiration.instance_id == instance_id, RoomExpiration.room == room)
    with reading() as session:
        seconds = session.scalar(query)
    return None if seconds is None else clock.now() + timedelta(seconds=seconds)


def alive() -> ColumnElement[bool]:
    """The condition of messages that have not expired."""
    return RoomMessage.expires_at.is_(None) | (RoomMessage.expires_at > clock.now())


def purge() -> int:
    """Deletes what has expired; gives the number of messages."""
    with transaction() as session:
        return changed(session.execute(delete(RoomMessage).where(RoomMessage.expires_at <= clock.now())))
