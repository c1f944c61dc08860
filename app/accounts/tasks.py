"""Periodic work of accounts."""

from __future__ import annotations

from datetime import timedelta

from app.accounts import attempts, tokens
from app.infra import clock, jobs

# An expired token stays a while, so that its owner can see why it stopped.
KEEP_EXPIRED = timedelta(days=30)


@jobs.periodic("accounts.forget", every=3600)
def forget() -> None:
    """Forgets old failed sign-ins and tokens that ended long ago."""
    now = clock.now()
    attempts.forget(before=now - attempts.FORGET_AFTER)
    tokens.forget_expired(before=now - KEEP_EXPIRED)
