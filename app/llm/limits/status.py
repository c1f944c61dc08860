"""How full the buckets of an endpoint are, for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import select

from app.infra import clock
from app.infra.db import reading
from app.llm.limits import buckets
from app.llm.limits.buckets import WINDOWS, Limits
from app.llm.models import ModelRate


@dataclass(frozen=True)
class Bucket:
    """One limit of an endpoint: how many calls are left, and when the next one is let through where none is.

    `source`: an administrator configured it, or the server told so (observed, for one `model`), or there is no limit
    (disabled).
    """

    window: str
    source: Literal["configured", "observed", "disabled"]
    model: str | None = None
    limit: int | None = None
    remaining: int | None = None
    recovers_at: datetime | None = None


def of(endpoint: str, limits: Limits) -> list[Bucket]:
    """The buckets of an endpoint: one a window, and one for each model whose server asked for a pause."""
    with reading() as session:
        rows = session.scalars(select(ModelRate).where(ModelRate.endpoint == endpoint).order_by(ModelRate.model)).all()
    counted = next((row for row in rows if not row.model), None)
    return [*(_window(window, counted, limits) for window in WINDOWS), *_pauses(row for row in rows if row.model)]


def _window(window: str, row: ModelRate | None, limits: Limits) -> Bucket:
    if window not in limits:
        return Bucket(window, "disabled")
    now = clock.now()
    slices = {} if row is None else {window: row.takes.get(window, [])}
    most = limits[window]
    remaining = max(0, most - buckets.used(slices, window, now))
    wait = buckets.waiting(slices, {window: most}, buckets.microseconds(now))
    recovers_at = now + timedelta(microseconds=wait) if wait else None
    return Bucket(window, "configured", None, most, remaining, recovers_at)


def _pauses(rows: Iterator[ModelRate]) -> Iterator[Bucket]:
    now = clock.now()
    for row in rows:
        until = buckets.paused_until(row, now)
        if until is not None:
            yield Bucket("pause", "observed", row.model, None, 0, until)
