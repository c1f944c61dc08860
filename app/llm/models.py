"""Tables of what was learned about model servers, and of how often they were asked lately."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, Json, UtcDateTime, prefixed


class ModelQuirk(Base):
    """A habit of a model that one retry healed; it counts for a day, and only at the address where it was learned."""

    __tablename__ = prefixed("model_quirks")
    __table_args__ = (UniqueConstraint("endpoint", "model", "quirk"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    endpoint: Mapped[str] = mapped_column(String(32))
    model: Mapped[str] = mapped_column(String(255))
    quirk: Mapped[str] = mapped_column(String(40), doc="llm.quirks.base.Quirk")
    server: Mapped[str] = mapped_column(String(16), doc="which address it was learned at, as the start of a hash")
    value: Mapped[int] = mapped_column(
        default=0, doc="the tokens of a learned limit; 0 where there is nothing to count"
    )
    learned_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class ModelRate(Base):
    """The calls of an endpoint in the last second, minute, hour and day (`model` empty), or a model's forced pause."""

    __tablename__ = prefixed("model_rates")
    __table_args__ = (UniqueConstraint("endpoint", "model"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    endpoint: Mapped[str] = mapped_column(String(32))
    model: Mapped[str] = mapped_column(String(255), default="")
    takes: Mapped[dict[str, list[list[int]]]] = mapped_column(
        Json, default=dict, doc="{window: [[slice of time, calls], ...]}"
    )
    version: Mapped[int] = mapped_column(Id, default=0, doc="counts the changes, so that one change wins")
    blocked_until: Mapped[datetime | None] = mapped_column(
        UtcDateTime, doc="the server said that nothing is left until then"
    )
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
