"""A conversation as the model is given it: the newest messages, oldest first, and nothing that may not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, select

from app.conversations import expiry
from app.conversations.models import RoomMessage
from app.infra.db import reading

MayRead = Callable[[str, str], bool]
"""Whether the reader may read a source now, asked with its (collection, node)."""

DEFAULT_LIMIT = 50
LARGEST_ID = 2**63 - 1


def history(
    bot_id: int,
    instance_id: int,
    room: str,
    thread: int,
    *,
    limit: int = DEFAULT_LIMIT,
    may_read: MayRead | None = None,
    since: datetime | None = None,
    without_delivery: int | None = None,
) -> list[RoomMessage]:
    """The newest `limit` messages of exactly this thread (0 is the room itself), oldest first.

    A message with a source that may not be read is left out, and so is what it answers or what answers it; blanked
    ones likewise. `since` hides what is older (a cleared room), `without_delivery` the message that is being answered.
    """
    here = (*within(bot_id, instance_id, room, since=since), RoomMessage.thread == thread_key(thread))
    query = select(RoomMessage).where(*here)
    if without_delivery is not None:
        query = query.where(not_of(without_delivery))
    with reading() as session:
        newest = session.scalars(query.order_by(RoomMessage.id.desc()).limit(limit)).all()
    return _shown(newest[::-1], may_read)


def within(
    bot_id: int, instance_id: int, room: str, *, since: datetime | None = None
) -> tuple[ColumnElement[bool], ...]:
    """The conditions of a bot's messages in a room that are neither cleared nor expired."""
    here = (RoomMessage.bot_id == bot_id, RoomMessage.instance_id == instance_id, RoomMessage.room == room)
    if since is None:
        return (*here, expiry.alive())
    return (*here, expiry.alive(), RoomMessage.created_at >= since)


def thread_key(thread: int) -> int:
    """The thread as it is stored; a number that no message can have is the room itself."""
    return thread if 0 <= thread <= LARGEST_ID else 0


def not_of(delivery_id: int) -> ColumnElement[bool]:
    """The condition that a message does not come from this delivery."""
    return RoomMessage.delivery_id.is_(None) | (RoomMessage.delivery_id != delivery_id)


def readable(message: RoomMessage, may_read: MayRead | None) -> bool:
    """True when every source that is recorded on the message may be read."""
    return may_read is None or all(may_read(collection, node) for collection, node in message.sources)


def _shown(messages: Sequence[RoomMessage], may_read: MayRead | None) -> list[RoomMessage]:
    exchanges = list(_exchanges(messages))
    hidden = {
        exchange
        for exchange, message in zip(exchanges, messages, strict=True)
        if not message.text or not readable(message, may_read)
    }
    return [message for exchange, message in zip(exchanges, messages, strict=True) if exchange not in hidden]


def _exchanges(messages: Sequence[RoomMessage]) -> Iterable[tuple[str, int]]:
    """For each message a key that it shares with its answer: their delivery, else that one follows the other."""
    question = 0
    for message in messages:
        if message.role == "user":
            question = message.id
        yield ("delivery", message.delivery_id) if message.delivery_id is not None else ("question", question)
