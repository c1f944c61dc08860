"""Tables of what an administrator changes at run time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, Json, LongText, UtcDateTime, prefixed


class SettingValue(Base):
    """A setting that differs from its default. Secrets stand in `sealed`, everything else in `value`."""

    __tablename__ = prefixed("settings")

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[Any] = mapped_column(Json, nullable=True)
    sealed: Mapped[str | None] = mapped_column(LongText)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Endpoint(Base):
    """A model server. `models` is what it last listed; empty `allowed_models` allows all of them."""

    __tablename__ = prefixed("endpoints")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(32), unique=True)
    url: Mapped[str] = mapped_column(String(1024))
    key: Mapped[str | None] = mapped_column(LongText, doc="the API key, sealed")
    default_model: Mapped[str | None] = mapped_column(String(255))
    allowed_models: Mapped[list[str]] = mapped_column(Json, default=list)
    models: Mapped[list[dict[str, Any]]] = mapped_column(
        Json, default=list, doc="[{id, context_length?, max_output_tokens?}] as last listed"
    )
    models_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    models_error: Mapped[str | None] = mapped_column(LongText)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
