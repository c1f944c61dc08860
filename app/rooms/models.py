"""Tables of a bot in a room: how it responds there, its answers, and the parts of each answer, written before they are sent."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, LongText, UtcDateTime, prefixed


class RoomBot(Base):
    """What is set for one bot in one room. At most one bot a room responds always."""

    __tablename__ = prefixed("room_bots")
    __table_args__ = (UniqueConstraint("instance_id", "room", "bot_id"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    bot_id: Mapped[int] = mapped_column(ForeignKey(prefixed("bots.id"), ondelete="CASCADE"))
    response_mode: Mapped[str] = mapped_column(String(16), default="mention", doc="mention or always")
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Answer(Base):
    """What one bot owes one delivery. `state`: due, running, written (parts stand), done, failed, unknown."""

    __tablename__ = prefixed("answers")
    __table_args__ = (UniqueConstraint("delivery_id", "bot_id"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    delivery_id: Mapped[int] = mapped_column(Id)
    bot_id: Mapped[int] = mapped_column(ForeignKey(prefixed("bots.id"), ondelete="CASCADE"))
    position: Mapped[int] = mapped_column(default=0)
    state: Mapped[str] = mapped_column(String(16), default="due")
    reason: Mapped[str] = mapped_column(String(64), default="")
    attempts: Mapped[int] = mapped_column(default=0)
    turn_id: Mapped[int | None] = mapped_column(Id)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Part(Base):
    """One message that we send. `state`: written, sending, sent, refused, unknown.

    `reference_id` is stable over every try; `text_digest` finds the bot that a quoted text came from (kept 30 days).
    A notice (that it thinks, that it waits, a first question) is no part of the answer: its `sequence` is below zero.
    """

    __tablename__ = prefixed("parts")
    __table_args__ = (
        UniqueConstraint("answer_id", "sequence"),
        Index(None, "instance_id", "room", "text_digest"),
        Base.__table_args__,
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    answer_id: Mapped[int] = mapped_column(ForeignKey(prefixed("answers.id"), ondelete="CASCADE"))
    sequence: Mapped[int] = mapped_column()
    kind: Mapped[str] = mapped_column(String(16), default="answer", doc="answer, or a notice: thinking, waits, asks")
    registration_id: Mapped[int] = mapped_column(Id)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    bot_id: Mapped[int] = mapped_column(ForeignKey(prefixed("bots.id"), ondelete="CASCADE"))
    reply_to: Mapped[int | None] = mapped_column(Id)
    text: Mapped[str] = mapped_column(LongText)
    text_digest: Mapped[str] = mapped_column(String(64))
    reference_id: Mapped[str] = mapped_column(String(64), unique=True)
    state: Mapped[str] = mapped_column(String(16), default="written")
    attempts: Mapped[int] = mapped_column(default=0)
    claimed_at: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="when its last post began, if it may stand")
    sought_at: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="since when its room is asked for it in vain")
    status: Mapped[int | None] = mapped_column(doc="the last HTTP status")
    sent_at: Mapped[datetime | None] = mapped_column(UtcDateTime, index=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
