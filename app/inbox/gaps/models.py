"""Tables of times in which no event could be taken, and of what was read from the rooms afterwards."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, UtcDateTime, prefixed


class SignOfLife(Base):
    """When events could last be taken and stored; one row for all servers of this installation."""

    __tablename__ = prefixed("signs_of_life")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(32), unique=True)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Gap(Base):
    """A time in which events of an instance may have been lost. `finished_at` is None while its rooms are to be read."""

    __tablename__ = prefixed("gaps")
    __table_args__ = (Index(None, "finished_at", "due_at"), Index(None, "instance_id", "ended_at"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(ForeignKey(prefixed("instances.id"), ondelete="CASCADE"))
    began_at: Mapped[datetime] = mapped_column(UtcDateTime, doc="the last sign of life before it")
    ended_at: Mapped[datetime] = mapped_column(UtcDateTime, doc="the first sign of life after it")
    due_at: Mapped[datetime] = mapped_column(UtcDateTime, doc="its rooms are not to be read earlier")
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    reason: Mapped[str] = mapped_column(
        String(32), default="", doc="why the rooms could not be read (accounts.serviceuser.Reason)"
    )
    asked: Mapped[bool] = mapped_column(
        default=False, doc="nobody noticed it here: an operator asked to read the rooms"
    )
    recovered: Mapped[int] = mapped_column(default=0, doc="how many events were put into the inbox")


class RoomReading(Base):
    """What came of the last reading of a room after a gap."""

    __tablename__ = prefixed("room_readings")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    room_id: Mapped[int] = mapped_column(ForeignKey(prefixed("rooms.id"), ondelete="CASCADE"), unique=True)
    read_at: Mapped[datetime] = mapped_column(UtcDateTime)
    reason: Mapped[str] = mapped_column(
        String(32), default="", doc="why it could not be read (accounts.serviceuser.Reason)"
    )
    last_id: Mapped[int | None] = mapped_column(BigInteger, doc="the last message that stood in it then")
    left_out_at: Mapped[datetime | None] = mapped_column(
        UtcDateTime, doc="then something was left out that somebody wrote: it was too old, or too much"
    )
