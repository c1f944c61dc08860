"""Tables of tokens per call, summed per day."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import Date, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, UtcDateTime, prefixed


class UsageCall(Base):
    """One model call that an endpoint answered."""

    __tablename__ = prefixed("usage_calls")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    turn_id: Mapped[int | None] = mapped_column(Id, index=True)
    bot_id: Mapped[int | None] = mapped_column(Id)
    actor: Mapped[str] = mapped_column(String(255), default="")
    endpoint: Mapped[str] = mapped_column(String(32))
    model: Mapped[str] = mapped_column(String(255))
    prompt_tokens: Mapped[int] = mapped_column(default=0)
    completion_tokens: Mapped[int] = mapped_column(default=0)
    at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class UsageDay(Base):
    """The sums of one day, in the time zone of the instance, for one instance, bot, endpoint and model."""

    __tablename__ = prefixed("usage_days")
    __table_args__ = (UniqueConstraint("day", "instance_id", "bot_id", "endpoint", "model"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    day: Mapped[date] = mapped_column(Date)
    instance_id: Mapped[int] = mapped_column(Id)
    bot_id: Mapped[int] = mapped_column(Id, default=0)
    endpoint: Mapped[str] = mapped_column(String(32))
    model: Mapped[str] = mapped_column(String(255))
    calls: Mapped[int] = mapped_column(default=0)
    prompt_tokens: Mapped[int] = mapped_column(Id, default=0)
    completion_tokens: Mapped[int] = mapped_column(Id, default=0)
