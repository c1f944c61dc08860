"""Facts about what changed, recorded inside the transaction and told to subscribers after the commit, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.infra.db import after_commit

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Change:
    """One fact: `kind` is created, updated or deleted; `before` and `after` are the JSON forms, None where absent."""

    kind: str
    instance_id: int
    doctype: str
    id: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


Subscriber = Callable[[Change], None]
_subscribers: list[Subscriber] = []


def subscribe(subscriber: Subscriber) -> None:
    """Adds a listener; app/__init__ alone decides who listens, and in which order."""
    if subscriber not in _subscribers:
        _subscribers.append(subscriber)


def record(
    kind: str,
    instance_id: int,
    *,
    doctype: str,
    id: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Records a fact; delivered after the surrounding commit, never after a rollback."""
    change = Change(kind, instance_id, doctype, id, before, after)
    after_commit(lambda: _deliver(change))


def _deliver(change: Change) -> None:
    for subscriber in _subscribers:
        try:
            subscriber(change)
        except Exception:
            # A subscriber never raises into the writer: the change has happened.
            log.exception("a subscriber failed on %s %s", change.doctype, change.id)
