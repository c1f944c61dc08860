"""The time, in one place, so that a test can stop it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The current moment, aware, in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds that never run backwards; for durations and deadlines inside one process."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    time.sleep(seconds)
