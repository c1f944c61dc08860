"""The table of what bots ask first, and of what they were answered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, Json, UtcDateTime, prefixed


class Round(Base):
    """A bot's first questions in one thread of a room, once. `state`: asking, done, skipped or expired.

    Each message that the round takes makes one step; whoever makes it names the number that it saw.
    """

    __tablename__ = prefixed("onboarding")
    __table_args__ = (
        UniqueConstraint("instance_id", "room", "thread", "bot_id"),
        Index(None, "state", "asked_at"),
        Base.__table_args__,
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(Id)
    room: Mapped[str] = mapped_column(String(64))
    thread: Mapped[int] = mapped_column(Id, default=0, doc="message id of the thread's root; 0 is the room itself")
    bot_id: Mapped[int] = mapped_column(ForeignKey(prefixed("bots.id"), ondelete="CASCADE"))
    actor: Mapped[str] = mapped_column(String(255), doc="who is asked, as users/ada")
    delivery_id: Mapped[int | None] = mapped_column(
        Id,
        index=True,
        doc="the message that is answered when the round is over; None where somebody asked for the round",
    )
    state: Mapped[str] = mapped_column(String(16), default="asking")
    question_id: Mapped[str] = mapped_column(String(64), doc="the question that was asked last")
    misses: Mapped[int] = mapped_column(default=0, doc="how often this question was asked again")
    steps: Mapped[int] = mapped_column(default=0)
    answers: Mapped[list[dict[str, Any]]] = mapped_column(
        Json, default=list, doc="[{question_id, question, answer_id, answer, own_words, actor, message_id}, ...]"
    )
    heard_until: Mapped[datetime] = mapped_column(
        UtcDateTime, doc="what came in up to then was written before the question was asked, and is no answer to it"
    )
    asked_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(
        UtcDateTime, index=True, doc="when the answers go, in a room whose messages expire"
    )
