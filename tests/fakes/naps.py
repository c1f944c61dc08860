"""Sleeping that takes no time: it is recorded, and the clocks go on by it.

Import `record_naps` and ask for the fixture `slept`.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.infra import clock


@pytest.fixture(name="slept")
def record_naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was slept, in seconds."""
    naps: list[float] = []
    monotonic, now = clock.monotonic, clock.now
    monkeypatch.setattr(clock, "sleep", naps.append)
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + sum(naps))
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=sum(naps)))
    return naps
