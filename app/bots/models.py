"""Tables of who answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, Json, LongText, UtcDateTime, prefixed


class Bot(Base):
    """A prompt, a model, knowledge, tools and a scope. `mention_key` is the folded name: one bot a key and instance."""

    __tablename__ = prefixed("bots")
    # An id is never used twice: what is kept about a bot that is gone must not be taken for another's.
    __table_args__ = (
        UniqueConstraint("instance_id", "mention_key"),
        {**Base.__table_args__, "sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(ForeignKey(prefixed("instances.id"), ondelete="CASCADE"))
    owner_id: Mapped[int] = mapped_column(ForeignKey(prefixed("people.id")))
    name: Mapped[str] = mapped_column(String(200))
    mention_name: Mapped[str] = mapped_column(String(100), doc="without @; never changes")
    mention_key: Mapped[str] = mapped_column(String(200))
    description: Mapped[str | None] = mapped_column(LongText)
    system_prompt: Mapped[str] = mapped_column(LongText)
    model: Mapped[str | None] = mapped_column(String(255), doc="a model reference; None: the default model")
    temperature: Mapped[float | None] = mapped_column()
    scope: Mapped[str] = mapped_column(String(16), default="personal", doc="personal, groups, teams or global")
    groups: Mapped[list[str]] = mapped_column(Json, default=list)
    teams: Mapped[list[str]] = mapped_column(Json, default=list)
    state: Mapped[str] = mapped_column(String(16), default="draft", doc="draft, pending, approved or rejected")
    is_active: Mapped[bool] = mapped_column(default=True)
    registration_id: Mapped[int | None] = mapped_column(
        ForeignKey(prefixed("registrations.id"), ondelete="SET NULL"), doc="its own registration; None: the shared one"
    )
    limits: Mapped[dict[str, Any]] = mapped_column(
        Json, default=dict, doc="lower limits than the settings: {model_calls, ...}"
    )
    onboarding: Mapped[dict[str, Any] | None] = mapped_column(
        Json, doc="its first questions (bots.questions.tree); None: it asks none"
    )
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    revision: Mapped[int] = mapped_column(default=0, doc="grows with every change that a reviewer should know of")
    questionnaire: Mapped[dict[str, str] | None] = mapped_column(Json, doc="what its owner told the reviewers")
    submitted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    approved_by: Mapped[str | None] = mapped_column(String(190), doc="the uid; None: the operator, or nobody")
    approved_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    rejection_reason: Mapped[str | None] = mapped_column(LongText)
    tester: Mapped[str | None] = mapped_column(
        String(190), doc="the uid of the one reviewer who may try what is pending"
    )
    pending: Mapped[dict[str, Any] | None] = mapped_column(
        Json, doc="what differs from the live version and waits for review, tools too; None: nothing"
    )

    @property
    def is_live(self) -> bool:
        """Whether those whom its scope names may use it: approved, or approved before what is pending now."""
        return self.state == "approved" or (self.state == "pending" and self.pending is not None)


class BotTool(Base):
    """A tool assigned to a bot, by name: a provider that is gone leaves an inert row."""

    __tablename__ = prefixed("bot_tools")
    __table_args__ = (UniqueConstraint("bot_id", "tool"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    bot_id: Mapped[int] = mapped_column(ForeignKey(prefixed("bots.id"), ondelete="CASCADE"))
    tool: Mapped[str] = mapped_column(String(128))


class DeniedNotice(Base):
    """That a person was told today that a bot is not for them (K5: at most once a day per person and bot)."""

    __tablename__ = prefixed("denied_notices")
    __table_args__ = (UniqueConstraint("bot_id", "actor", "day"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    bot_id: Mapped[int] = mapped_column(ForeignKey(prefixed("bots.id"), ondelete="CASCADE"))
    actor: Mapped[str] = mapped_column(String(255))
    day: Mapped[str] = mapped_column(String(10))
