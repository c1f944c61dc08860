"""Tables of the turns that began lately, and of those that wait."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, UtcDateTime, prefixed


class TurnSlot(Base):
    """The place of one turn under the limits. `state`: waiting, begun (it counts for a minute), refused.

    Turns that wait for the same limit begin in the order of their ids.
    """

    __tablename__ = prefixed("turn_slots")
    __table_args__ = (
        UniqueConstraint("answer_id"),
        Index(None, "instance_id", "room", "state", "at"),
        Index(None, "instance_id", "actor", "state", "at"),
        Index(None, "state", "at"),
        Base.__table_args__,
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    answer_id: Mapped[int] = mapped_column(ForeignKey(prefixed("answers.id"), ondelete="CASCADE"))
    delivery_id: Mapped[int] = mapped_column(Id)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    actor: Mapped[str] = mapped_column(String(255))
    state: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(16), default="", doc="what it waits or waited for: room, person, model")
    endpoint: Mapped[str] = mapped_column(String(32), default="", doc="whose limit, where it waits for a model")
    terms: Mapped[str] = mapped_column(String(16), default="", doc="which settings its time was computed from")
    since: Mapped[datetime] = mapped_column(UtcDateTime, doc="when it asked first")
    at: Mapped[datetime] = mapped_column(UtcDateTime, doc="when it is due, began, or was refused")
    told_at: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="when its person was told that it waits")


class TurnGate(Base):
    """A row to lock while a place in a room, or of a person, is handed out."""

    __tablename__ = prefixed("turn_gates")
    __table_args__ = (UniqueConstraint("instance_id", "name"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    name: Mapped[str] = mapped_column(String(270), doc="room: or person: and whose")
    used_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
