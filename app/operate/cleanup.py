"""What is kept only for a while. Each package forgets its own in an hourly job; here is what nobody else forgets."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import InstrumentedAttribute

from app.inbox.gaps.models import Gap
from app.inbox.models import Delivery
from app.infra import clock, jobs
from app.infra.db import changed, transaction
from app.settings import store
from app.traces.models import TurnTrace
from app.usage.models import UsageCall

log = logging.getLogger(__name__)

BITE = 1000
"""Rows of one transaction: nobody waits for a cleanup."""

# A row of the inbox guards against the replay of its request for as long as it stands; without its body it is small.
INBOX_DAYS = 365
USAGE_CALL_DAYS = 90
GAP_DAYS = 30
FINISHED = ("done", "ignored", "dead", "unknown")

# Periodic jobs that come this seldom are upkeep; the others drive the work.
UPKEEP_SECONDS = 600
OURS = "operate.cleanup"


@dataclass(frozen=True)
class Done:
    """One job of upkeep: its name, and how it failed ("" when it did not)."""

    job: str
    error: str = ""


def run_all() -> list[Done]:
    """Runs every job of upkeep of every package now; one that fails does not stop the others."""
    return [_run(task) for name, task in sorted(jobs.jobs.tasks.items()) if (task.every or 0) >= UPKEEP_SECONDS]


def forget() -> dict[str, int]:
    """Deletes old events, traces and single model calls; gives the number of rows by table."""
    now = clock.now()
    old: list[tuple[InstrumentedAttribute[Any], int, tuple[Any, ...]]] = [
        (Delivery.received_at, INBOX_DAYS, (Delivery.state.in_(FINISHED),)),
        (TurnTrace.started_at, store.get("trace_days"), ()),
        (UsageCall.at, USAGE_CALL_DAYS, ()),
        (Gap.ended_at, GAP_DAYS, (Gap.finished_at.is_not(None),)),
    ]
    return {
        str(column.class_.__tablename__): _delete(column, now - timedelta(days=days), where)
        for column, days, where in old
    }


def _run(task: jobs.Task) -> Done:
    try:
        task.run()
    except Exception as error:  # whatever a package's upkeep raises
        log.exception("the upkeep %s failed", task.name)
        return Done(task.name, error=type(error).__name__)
    return Done(task.name)


def _delete(column: InstrumentedAttribute[Any], before: datetime, where: tuple[Any, ...]) -> int:
    model, total = column.class_, 0
    while True:
        with transaction() as session:
            ids = session.scalars(select(model.id).where(column < before, *where).limit(BITE)).all()
            if ids:
                total += changed(session.execute(delete(model).where(model.id.in_(ids))))
        if len(ids) < BITE:
            return total
