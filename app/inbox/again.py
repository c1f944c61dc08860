"""Trying a whole transaction again when the server broke a deadlock by choosing it, or was away for a moment."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import OperationalError

from app.infra import clock

log = logging.getLogger(__name__)

TRIES = 5
PAUSE = 0.02

Result = TypeVar("Result")


def again(transaction: Callable[[], Result]) -> Result:
    """Runs `transaction`, which must be safe to repeat, at most TRIES times; raises the last OperationalError."""
    for attempt in range(1, TRIES):
        try:
            return transaction()
        except OperationalError as error:
            log.info("a transaction is tried again (%s): %s", attempt, type(error.orig).__name__)
            clock.sleep(PAUSE * attempt)
    return transaction()
