"""Tables of what was said between people and bots in rooms."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, Json, LongText, UtcDateTime, prefixed


class RoomMessage(Base):
    """One message of a bot's conversation in a room, ordered by `id`. Tool results never stand here.

    What a delivery said to a bot, and what the bot answered, stands here once however often the delivery is tried.
    """

    __tablename__ = prefixed("room_messages")
    __table_args__ = (
        UniqueConstraint("bot_id", "delivery_id", "role"),
        Index(None, "bot_id", "instance_id", "room", "thread", "id"),
        Base.__table_args__,
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    bot_id: Mapped[int] = mapped_column(ForeignKey(prefixed("bots.id"), ondelete="CASCADE"))
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    thread: Mapped[int] = mapped_column(Id, default=0, doc="message id of the thread's root; 0 is the room itself")
    role: Mapped[str] = mapped_column(String(16), doc="user or assistant")
    actor: Mapped[str] = mapped_column(String(255), doc="users/ada, or bots/<mention name> for an answer")
    speaker: Mapped[str] = mapped_column(String(255), doc="display name")
    text: Mapped[str] = mapped_column(LongText, doc="empty where it was blanked")
    folded: Mapped[str] = mapped_column(LongText, default="", doc="the text as it is searched (words.fold)")
    quoted: Mapped[str | None] = mapped_column(LongText, doc="the parent it replied to, as 'name: text'")
    message_id: Mapped[int | None] = mapped_column(Id, index=True, doc="the platform's id of a user's message")
    delivery_id: Mapped[int | None] = mapped_column(Id, index=True)
    sources: Mapped[list[list[str]]] = mapped_column(Json, default=list, doc="[[collection, node], ...] it came from")
    incomplete: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime, index=True)


class RoomExpiration(Base):
    """How long a room keeps what is said from now on, as its moderators set it there."""

    __tablename__ = prefixed("room_expirations")
    __table_args__ = (UniqueConstraint("instance_id", "room"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    seconds: Mapped[int] = mapped_column(Id)


class Transcript(Base):
    """That a moderator lets a room's messages be kept, so that bots can search them; without a row nothing is kept."""

    __tablename__ = prefixed("transcripts")
    __table_args__ = (UniqueConstraint("instance_id", "room"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    actor: Mapped[str] = mapped_column(String(255), doc="who switched it on, as users/ada")
    since: Mapped[datetime] = mapped_column(UtcDateTime)


class TranscriptMessage(Base):
    """A message of a room whose transcript is on, whoever it was said to. What one delivery says stands here once."""

    __tablename__ = prefixed("transcript_messages")
    __table_args__ = (
        UniqueConstraint("delivery_id", "actor"),
        Index(None, "instance_id", "room", "id"),
        Base.__table_args__,
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    thread: Mapped[int] = mapped_column(Id, default=0)
    actor: Mapped[str] = mapped_column(String(255), doc="users/ada, or bots/<mention name> for an answer")
    speaker: Mapped[str] = mapped_column(String(255), doc="display name")
    text: Mapped[str] = mapped_column(LongText, doc="empty where it was blanked")
    folded: Mapped[str] = mapped_column(LongText, default="", doc="the text as it is searched (words.fold)")
    message_id: Mapped[int | None] = mapped_column(Id, doc="the platform's id, where it is known")
    delivery_id: Mapped[int] = mapped_column(Id)
    sources: Mapped[list[list[str]]] = mapped_column(Json, default=list, doc="[[collection, node], ...] it came from")
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime, index=True)


class Cancellation(Base):
    """That somebody wants the answers to a delivery to stop."""

    __tablename__ = prefixed("cancellations")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    delivery_id: Mapped[int] = mapped_column(Id, unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
