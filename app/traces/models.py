"""Tables of what runs did."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, Json, LongText, UtcDateTime, prefixed


class TurnTrace(Base):
    """One run of the agent loop for one message and one bot."""

    __tablename__ = prefixed("turns")
    __table_args__ = (Index(None, "instance_id", "started_at"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    delivery_id: Mapped[int | None] = mapped_column(Id, index=True)
    bot_id: Mapped[int | None] = mapped_column(Id, index=True)
    bot_name: Mapped[str] = mapped_column(String(200), default="")
    room: Mapped[str] = mapped_column(String(64), default="")
    actor: Mapped[str] = mapped_column(String(255), default="")
    status: Mapped[str] = mapped_column(
        String(16), default="running", doc="running, success, incomplete, error, interrupted, waiting"
    )
    ended: Mapped[str] = mapped_column(String(32), default="", doc="why the loop ended (agent.events.EndReason)")
    endpoint: Mapped[str] = mapped_column(String(32), default="")
    model: Mapped[str] = mapped_column(String(255), default="")
    model_calls: Mapped[int] = mapped_column(default=0)
    tool_calls: Mapped[int] = mapped_column(default=0)
    prompt_tokens: Mapped[int] = mapped_column(default=0)
    completion_tokens: Mapped[int] = mapped_column(default=0)
    total_tokens: Mapped[int] = mapped_column(default=0)
    error_class: Mapped[str] = mapped_column(String(64), default="")
    detail: Mapped[str | None] = mapped_column(LongText)
    shared_at: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="the person showed its text to administrators")
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    milliseconds: Mapped[int | None] = mapped_column()


class TraceEvent(Base):
    """A step of a turn; `payload` is capped and redacted before it is written."""

    __tablename__ = prefixed("trace_events")
    __table_args__ = (UniqueConstraint("turn_id", "sequence"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    turn_id: Mapped[int] = mapped_column(ForeignKey(prefixed("turns.id"), ondelete="CASCADE"))
    sequence: Mapped[int] = mapped_column()
    kind: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(128), default="", doc="the tool or the endpoint")
    milliseconds: Mapped[int | None] = mapped_column()
    payload: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
