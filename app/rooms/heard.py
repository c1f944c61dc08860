"""The sign that a message was heard: a reaction while its bots work on it (product.md K12).

Best effort, on a thread of its own: it is never retried and delays nothing. Our own reactions that come back are dropped
like all others (events.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.platforms import registrations
from app.rooms.parts import Place
from app.settings import store

log = logging.getLogger(__name__)

LONGEST_SECONDS = 900.0


@dataclass
class Sign:
    """The reaction on one message; `stays` where the message is still to be answered when the block ends."""

    stays: bool = False


@contextmanager
def heard(place: Place, *, wanted: bool) -> Iterator[Sign]:
    """Shows the reaction while the block runs, as the settings heard_reaction and heard_emoji say."""
    sign = Sign()
    chosen = store.several("heard_reaction", "heard_emoji")
    off = chosen["heard_reaction"] == "off" or place.reply_to is None
    if off or not wanted or registrations.blocked(place.registration):
        yield sign
        return
    over = threading.Event()
    address = registrations.address(place.registration)
    remove = chosen["heard_reaction"] == "remove"

    def show() -> None:
        """No database here: the thread has no application context, and needs none."""
        message, emoji, room = place.reply_to or 0, chosen["heard_emoji"], place.room.token
        try:
            outcome = place.platform.react(address, room, message, emoji)
            if outcome.kind not in ("success", "ambiguous"):
                log.info("the reaction was not set: %s", outcome.reason)
                return
            over.wait(LONGEST_SECONDS)
            if remove and not sign.stays:
                place.platform.unreact(address, room, message, emoji)
        except Exception:
            log.exception("the reaction of a heard message failed")

    threading.Thread(target=show, name="heard", daemon=True).start()
    try:
        yield sign
    finally:
        over.set()
