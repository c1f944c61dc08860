"""Periodic work of rooms."""

from __future__ import annotations

from app.infra import jobs
from app.rooms import parts
from app.settings import store


@jobs.periodic("rooms.forget", every=3600)
def forget() -> None:
    """Deletes answers and their parts when their days are over."""
    parts.forget(store.get("parts_days"))
