"""The sums of tokens, by day, bot, endpoint and model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import select

from app.infra import clock
from app.infra.db import reading
from app.infra.errors import BadInput
from app.infra.i18n import say
from app.usage.models import UsageDay

DAYS = 7
MOST_DAYS = 3660
FIGURES = ("calls", "prompt_tokens", "completion_tokens")


def sums(instance_id: int | None = None, *, days: int = DAYS) -> dict[str, Any]:
    """{days: [{day, instance_id, bot_id, endpoint, model, calls, prompt_tokens, completion_tokens}], total: {...}} of the
    last `days` days, today included (UTC); of every instance where none is given. Raises BadInput."""
    if not 1 <= days <= MOST_DAYS:
        sentence = say("The days must be from 1 to {most}.", most=MOST_DAYS)
        raise BadInput(sentence, fields={"days": str(sentence)})
    first = clock.now().date() - timedelta(days=days - 1)
    rows = select(UsageDay).where(UsageDay.day >= first).order_by(UsageDay.day.desc(), UsageDay.id)
    if instance_id is not None:
        rows = rows.where(UsageDay.instance_id == instance_id)
    with reading() as session:
        found = [_row(row) for row in session.scalars(rows)]
    total = {name: sum(row[name] for row in found) for name in FIGURES}
    return {"days": found, "total": total | {"total_tokens": total["prompt_tokens"] + total["completion_tokens"]}}


def _row(row: UsageDay) -> dict[str, Any]:
    return {
        "day": row.day.isoformat(),
        "instance_id": row.instance_id,
        "bot_id": row.bot_id or None,
        "endpoint": row.endpoint,
        "model": row.model,
        "calls": row.calls,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
    }
