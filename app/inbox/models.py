"""Tables of accepted events. A row is the durable truth of a delivery; a Celery message is only a wake-up."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, LongBinary, LongText, UtcDateTime, prefixed

RECOVERED = "recovered"
MESSAGES = ("message", RECOVERED)
"""The kinds of rows that are messages. What a recovered one is, is told by its body: an event of the room, now and then."""


class Delivery(Base):
    """One accepted event: told by a webhook, or read from its room after a gap (kind recovered).

    `random_digest` guards against replays of one request; `dedupe` is "<room>:<object id>:<type>" for events that are
    told once (Create, Activity), NULL otherwise. Two unique keys: whichever meets first makes a duplicate.
    """

    __tablename__ = prefixed("inbox")
    __table_args__ = (
        UniqueConstraint("registration_id", "random_digest"),
        UniqueConstraint("registration_id", "dedupe"),
        Index(None, "state", "due_at"),
        Index(None, "instance_id", "room", "state", "id"),
        Base.__table_args__,
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    registration_id: Mapped[int] = mapped_column(Id)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64), default="")
    kind: Mapped[str] = mapped_column(String(16), doc="platforms.base.EventKind, or recovered")
    name: Mapped[str] = mapped_column(String(64), default="", doc="the platform's name of the event")
    actor: Mapped[str] = mapped_column(String(255), default="")
    object_id: Mapped[str | None] = mapped_column(String(64))
    random_digest: Mapped[str] = mapped_column(String(64))
    dedupe: Mapped[str | None] = mapped_column(String(190))
    body: Mapped[bytes | None] = mapped_column(LongBinary, doc="the raw bytes; blanked when the retention is over")
    state: Mapped[str] = mapped_column(String(16), default="queued")
    reason: Mapped[str] = mapped_column(String(64), default="", doc="inbox.reasons.Reason")
    detail: Mapped[str | None] = mapped_column(LongText)
    attempts: Mapped[int] = mapped_column(default=0)
    turn_id: Mapped[int | None] = mapped_column(Id)
    due_at: Mapped[datetime] = mapped_column(
        UtcDateTime, doc="not to be claimed earlier; the end of time once the body is blanked"
    )
    held_until: Mapped[datetime | None] = mapped_column(
        UtcDateTime, doc="while it waits for another try, later rows of its room wait for it until then"
    )
    received_at: Mapped[datetime] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Lane(Base):
    """A room's place in the queue: one holder at a time works its deliveries in order, under a lease."""

    __tablename__ = prefixed("lanes")
    __table_args__ = (UniqueConstraint("instance_id", "room"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    holder: Mapped[str | None] = mapped_column(String(64))
    lease_until: Mapped[datetime | None] = mapped_column(UtcDateTime, index=True)
