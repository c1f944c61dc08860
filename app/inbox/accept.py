"""A verified event becomes one row, committed before it is acknowledged; what was told already makes no second row."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import or_, update

from app.inbox.again import again
from app.inbox.models import RECOVERED, Delivery
from app.infra import clock, jobs
from app.infra.db import clean_text, core_transaction
from app.infra.sql.prepared import Insertion
from app.platforms.base import Envelope, IncomingEvent
from app.platforms.models import Registration

log = logging.getLogger(__name__)

# Talk tells a message and a system message once; a reaction to the same message may come again and again.
TOLD_ONCE = frozenset({"message", "system"})
SEEN_EVERY = timedelta(minutes=1)
DIGEST = 40


INSERTION = Insertion(
    jobs.table(Delivery),
    (
        *("registration_id", "instance_id", "room", "kind", "name", "actor", "object_id", "random_digest", "dedupe"),
        *("body", "state", "reason", "attempts", "due_at", "received_at"),
    ),
)


class Receiver(Protocol):
    """The registration that an event came for: the row itself, or what a door read of it."""

    @property
    def id(self) -> int: ...

    @property
    def instance_id(self) -> int: ...

    @property
    def last_event_at(self) -> datetime | None: ...


def accept(
    registration: Receiver,
    *,
    random: str,
    body: bytes,
    event: Envelope | IncomingEvent,
    backend: str | None = None,
    recovered_from: datetime | None = None,
) -> int | None:
    """Stores the event and wakes a worker; gives the row's id, or None for a duplicate.

    `random` is the request's own random header and `backend` its claimed server, remembered for the setup checks only.
    `recovered_from` is when it was said, where it was not told but read from its room after a gap.
    Raises what the database raises when the row can't be stored: nothing was accepted then.
    """
    room = fitted(event.room, 64)
    row = _row(registration, room, random=random, body=body, event=event)
    if recovered_from is not None:
        row |= {"kind": RECOVERED, "received_at": min(recovered_from, row["received_at"])}
    stored = again(lambda: _insert(row))
    if stored is not None:
        _wake(registration.instance_id, room)
    if recovered_from is None:
        _seen(registration, backend)
    return stored


def fitted(text: str, length: int) -> str:
    """`text` as every database takes it, at most `length` characters; what was cut is told apart by a digest.

    Rooms whose names begin alike must not share a lane, nor events a key.
    """
    cleaned = clean_text(text)
    if cleaned == text and len(text) <= length:
        return text
    digest = hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return f"{cleaned[: length - DIGEST - 1]}~{digest}"


def _row(
    registration: Receiver, room: str, *, random: str, body: bytes, event: Envelope | IncomingEvent
) -> dict[str, Any]:
    now = clock.now()
    object_id = None if event.object_id is None else fitted(event.object_id, 64)
    told_once = object_id is not None and event.kind in TOLD_ONCE
    return {
        "registration_id": registration.id,
        "instance_id": registration.instance_id,
        "room": room,
        "kind": event.kind,
        "name": clean_text(event.name)[:64],
        "actor": fitted(event.actor.key, 255),
        "object_id": object_id,
        "random_digest": hashlib.sha256(random.encode("utf-8", "surrogatepass")).hexdigest(),
        "dedupe": f"{room}:{object_id}:{event.kind}" if told_once else None,
        "body": body,
        "state": "queued",
        "reason": "",
        "attempts": 0,
        "due_at": now,
        "received_at": now,
    }


def _insert(row: Mapping[str, Any]) -> int | None:
    return INSERTION.run(row)


def _wake(instance_id: int, room: str) -> None:
    try:
        jobs.enqueue("inbox.drain", instance_id, room)
    except Exception:
        # The row stands, so the event is accepted; the sweep finds it.
        log.exception("no worker could be woken for a new event")


def _seen(registration: Receiver, backend: str | None) -> None:
    """Remembers when the last event came and which server it named, at most once a minute."""
    now = clock.now()
    named = None if backend is None else clean_text(backend)[:1024]
    last = registration.last_event_at
    if last is not None and now - last < SEEN_EVERY:
        return
    table = Registration
    values: dict[str, Any] = {"last_event_at": now} | ({} if named is None else {"backend_seen": named})
    old = or_(table.last_event_at.is_(None), table.last_event_at <= now - SEEN_EVERY)
    try:
        with core_transaction() as connection:
            connection.execute(update(table).where(table.id == registration.id, old).values(values))
    except Exception:
        # Worth knowing, never worth an event.
        log.exception("the time of the last event was not noted")
