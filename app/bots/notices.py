"""Told once a day: that a bot is not for somebody who mentioned it (product.md K5)."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete

from app.bots.models import DeniedNotice
from app.infra import clock
from app.infra.db import changed, insert_once, transaction
from app.infra.jobs import table

KEPT = timedelta(days=2)
LONGEST_ACTOR = 255


def first_today(bot_id: int, actor: str) -> bool:
    """True once a day (UTC) for each bot and actor ("users/ada"). Ask it right before the line is written."""
    row = {"bot_id": bot_id, "actor": actor[:LONGEST_ACTOR], "day": clock.now().date().isoformat()}
    with transaction() as session:
        return insert_once(session, table(DeniedNotice), row) is not None


def forget_old() -> int:
    """Deletes the notices of past days; gives their number."""
    before = (clock.now() - KEPT).date().isoformat()
    with transaction() as session:
        return changed(session.execute(delete(DeniedNotice).where(DeniedNotice.day < before)))
