"""Periodic work of rooms."""

from __future__ import annotations

from app.infra import jobs
from app.rooms import parts
from app.rooms.onboarding import rounds, silence
from app.settings import store


@jobs.periodic("rooms.forget", every=3600)
def forget() -> None:
    """Deletes answers and their parts when their days are over, and what people answered where messages expire."""
    parts.forget(store.get("parts_days"))
    rounds.purge()


# In the queue of turns: indexing may fill the other one for hours.
@jobs.periodic("rooms.answer_unasked", every=15, queue=jobs.TURNS)
def answer_unasked() -> None:
    """Answers what waits for first questions to which nobody replies."""
    silence.go_on()
