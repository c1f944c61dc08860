"""Adding a model call and its tokens to the sums of its day. Best effort: what fails is logged, the turn goes on."""

from __future__ import annotations

import logging
from datetime import date
from typing import Any, Protocol

from sqlalchemy import insert, select, update
from sqlalchemy.exc import OperationalError

from app.infra import clock, jobs
from app.infra.db import clean_text, insert_once, reading, transaction
from app.usage.days import day_of
from app.usage.models import UsageCall, UsageDay

log = logging.getLogger(__name__)

MOST = 2**31 - 1
TRIES = 5
PAUSE = 0.02


class Tokens(Protocol):
    """What a server told of one call, in tokens: llm.base.Usage."""

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def completion_tokens(self) -> int: ...


def add(
    turn_id: int | None,
    bot_id: int | None,
    *,
    instance_id: int,
    endpoint: str,
    model: str,
    usage: Tokens,
    actor: str = "",
    timezone: str = "UTC",
) -> None:
    """Counts one model call that `endpoint` answered, on its day in `timezone`. `actor` is as in users/ada. Never raises."""
    now = clock.now()
    call = {
        "instance_id": instance_id,
        "turn_id": turn_id,
        "bot_id": bot_id,
        "actor": clean_text(actor)[:255],
        "endpoint": clean_text(endpoint)[:32],
        "model": clean_text(model)[:255],
        "prompt_tokens": _count(usage.prompt_tokens),
        "completion_tokens": _count(usage.completion_tokens),
        "at": now,
    }
    try:
        _again(call, day_of(now, timezone))
    except Exception:
        log.exception("the tokens of a model call were not counted")


def _again(call: dict[str, Any], day: date) -> None:
    for attempt in range(1, TRIES + 1):
        try:
            _add(call, day)
        except OperationalError:
            if attempt == TRIES:
                raise
            clock.sleep(PAUSE * attempt)
        else:
            return


def _add(call: dict[str, Any], day: date) -> None:
    key = {
        "day": day,
        "instance_id": call["instance_id"],
        "bot_id": call["bot_id"] or 0,
        "endpoint": call["endpoint"],
        "model": call["model"],
    }
    that_day = [getattr(UsageDay, name) == value for name, value in key.items()]
    with reading() as session:
        known = session.scalar(select(UsageDay.id).where(*that_day))
    if known is None:
        # In a transaction of its own: two that insert the same day and then add would wait for each other.
        with transaction() as session:
            none_yet = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0}
            insert_once(session, jobs.table(UsageDay), key | none_yet)
    sums = {
        "calls": UsageDay.calls + 1,
        "prompt_tokens": UsageDay.prompt_tokens + call["prompt_tokens"],
        "completion_tokens": UsageDay.completion_tokens + call["completion_tokens"],
    }
    with transaction() as session:
        session.execute(insert(UsageCall).values(call))
        session.execute(update(UsageDay).where(*that_day).values(sums).execution_options(synchronize_session=False))


def _count(number: float) -> int:
    return max(0, min(int(number), MOST))
