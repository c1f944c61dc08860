"""Upkeep that runs by itself."""

from __future__ import annotations

from app.infra import jobs
from app.operate import cleanup

DAY = 86_400


@jobs.periodic(cleanup.OURS, every=DAY)
def clean() -> None:
    """Deletes what is too old and nobody else forgets."""
    cleanup.forget()
