"""Tables of chat systems: registrations (one webhook address and secret each), rooms, and the sandbox's own messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, Json, LongText, UtcDateTime, prefixed


class Registration(Base):
    """A bot as the chat system knows it. It carries one bot of ours (`shared` False) or many."""

    __tablename__ = prefixed("registrations")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(ForeignKey(prefixed("instances.id"), ondelete="CASCADE"))
    platform: Mapped[str] = mapped_column(String(32), default="nextcloud_talk")
    name: Mapped[str] = mapped_column(String(64))
    key: Mapped[str] = mapped_column(String(64), unique=True, doc="the opaque last part of the webhook address")
    secret: Mapped[str] = mapped_column(LongText, doc="sealed; 64 characters")
    previous_secret: Mapped[str | None] = mapped_column(LongText, doc="sealed; accepted until previous_until")
    previous_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    webhook_url: Mapped[str] = mapped_column(String(1024), doc="as installed; its SHA-1 is our actor id in the rooms")
    actor_hash: Mapped[str] = mapped_column(String(40), index=True, doc="sha1(webhook_url)")
    shared: Mapped[bool] = mapped_column(default=True)
    blocked_until: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="the breaker is open until then")
    blocked_reason: Mapped[str | None] = mapped_column(String(255))
    last_event_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_post_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_post_status: Mapped[str | None] = mapped_column(String(64))
    refused_at: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="our signature was last refused then")
    throttled_at: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="the server last said that it slows us down")
    backend_seen: Mapped[str | None] = mapped_column(String(1024))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Room(Base):
    """A conversation of an instance; made by Join or by the first event that names it."""

    __tablename__ = prefixed("rooms")
    __table_args__ = (UniqueConstraint("instance_id", "token"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(ForeignKey(prefixed("instances.id"), ondelete="CASCADE"))
    token: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(String(255), default="")
    one_to_one: Mapped[bool] = mapped_column(default=False)
    language: Mapped[str | None] = mapped_column(String(8))
    members_changed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    cleared_at: Mapped[datetime | None] = mapped_column(
        UtcDateTime, doc="history_cleared: nothing older is shown or kept"
    )
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class RoomBinding(Base):
    """A registration that is active in a room; `left_at` is set by Leave and by a room that is gone."""

    __tablename__ = prefixed("room_bindings")
    __table_args__ = (UniqueConstraint("room_id", "registration_id"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    room_id: Mapped[int] = mapped_column(ForeignKey(prefixed("rooms.id"), ondelete="CASCADE"))
    registration_id: Mapped[int] = mapped_column(ForeignKey(prefixed("registrations.id"), ondelete="CASCADE"))
    joined_at: Mapped[datetime] = mapped_column(UtcDateTime)
    left_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class SandboxMessage(Base):
    """A message in a sandbox room: the sandbox is a small Talk server of our own."""

    __tablename__ = prefixed("sandbox_messages")
    __table_args__ = (Index(None, "room", "id"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    room: Mapped[str] = mapped_column(String(64))
    actor: Mapped[str] = mapped_column(String(255), doc="users/ada or bots/bot-<sha1>")
    actor_name: Mapped[str] = mapped_column(String(255))
    text: Mapped[str] = mapped_column(LongText)
    reply_to: Mapped[int | None] = mapped_column(Id)
    reference_id: Mapped[str | None] = mapped_column(String(64), index=True)
    reactions: Mapped[dict[str, Any]] = mapped_column(Json, default=dict, doc="{emoji: [actor, ...]}")
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
