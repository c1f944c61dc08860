"""The sums of tokens, by day, bot, endpoint and model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select

from app.accounts import instances
from app.infra import clock
from app.infra.db import reading
from app.infra.errors import BadInput
from app.infra.i18n import say
from app.usage.days import day_of
from app.usage.models import UsageDay

DAYS = 7
MOST_DAYS = 3660
FIGURES = ("calls", "prompt_tokens", "completion_tokens")


def sums(instance_id: int | None = None, *, days: int = DAYS) -> dict[str, Any]:
    """{days: [{day, instance_id, bot_id, endpoint, model, calls, prompt_tokens, completion_tokens}], total: {...}} of the
    last `days` days, today included; of every instance where none is given. Each instance has the days of its own time
    zone. Raises BadInput."""
    if not 1 <= days <= MOST_DAYS:
        sentence = say("The days must be from 1 to {most}.", most=MOST_DAYS)
        raise BadInput(sentence, fields={"days": str(sentence)})
    rows = select(UsageDay).where(_since(days)).order_by(UsageDay.day.desc(), UsageDay.id)
    if instance_id is not None:
        rows = rows.where(UsageDay.instance_id == instance_id)
    with reading() as session:
        found = [_row(row) for row in session.scalars(rows)]
    total = {name: sum(row[name] for row in found) for name in FIGURES}
    return {"days": found, "total": total | {"total_tokens": total["prompt_tokens"] + total["completion_tokens"]}}


def _since(days: int) -> ColumnElement[bool]:
    """The sums of the last days of each instance; what an instance that is gone has used, by the days of UTC."""
    now, back = clock.now(), timedelta(days=days - 1)
    homes = {home.id: day_of(now, home.timezone) - back for home in instances.all()}
    gone = and_(UsageDay.instance_id.not_in(homes), UsageDay.day >= day_of(now, "UTC") - back)
    return or_(gone, *(and_(UsageDay.instance_id == id, UsageDay.day >= first) for id, first in homes.items()))


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
