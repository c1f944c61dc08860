"""The wish to stop the answers to a delivery: a row, so that whichever process works on it sees it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import delete, select

from app.conversations.models import Cancellation
from app.infra import clock
from app.infra.db import changed, insert_once, reading, transaction
from app.infra.jobs import table

# The loop asks at every event; the database is asked this often at most, in seconds.
ASK_EVERY = 0.2
KEPT = timedelta(days=1)


def request(delivery_id: int) -> bool:
    """Asks to stop; False when somebody has before."""
    row = {"delivery_id": delivery_id, "created_at": clock.now()}
    with transaction() as session:
        return insert_once(session, table(Cancellation), row) is not None


def requested(delivery_id: int) -> bool:
    """True when somebody wants this delivery to stop."""
    with reading() as session:
        return session.scalar(select(Cancellation.id).where(Cancellation.delivery_id == delivery_id)) is not None


def watch(delivery_id: int) -> Callable[[], bool]:
    """A question for the loop (Turn.cancelled) that is cheap to ask often; once True it stays True."""
    cancelled = False
    next_look = clock.monotonic()

    def ask() -> bool:
        nonlocal cancelled, next_look
        if not cancelled and clock.monotonic() >= next_look:
            cancelled = requested(delivery_id)
            next_look = clock.monotonic() + ASK_EVERY
        return cancelled

    return ask


def withdraw(delivery_id: int) -> None:
    """Forgets the wish, so that a delivery can be tried again."""
    with transaction() as session:
        session.execute(delete(Cancellation).where(Cancellation.delivery_id == delivery_id))


def forget_old() -> int:
    """Deletes wishes that nobody can be waiting for; gives their number."""
    with transaction() as session:
        return changed(session.execute(delete(Cancellation).where(Cancellation.created_at < clock.now() - KEPT)))
