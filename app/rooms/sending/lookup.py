"""Whether a message stands in its room: asked of the room itself, by the reference that the message bears."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Literal

from app.accounts.serviceuser import Untold
from app.platforms.base import Reader, StoredMessage
from app.rooms.models import Part
from app.rooms.parts import Place
from app.rooms.thinking import live

log = logging.getLogger(__name__)

Found = Literal["stands", "missing", "untold", "never"]
# What only an administrator ends. Everything else is over some time: also a proxy that answers in the server's place.
LASTING = frozenset({"no_service_user", "sealed", "refused", "forbidden", "missing", "unknown_route", "too_far"})
PAGE = 200
MOST_PAGES = 20
# The server's clock is not ours.
SPARE = timedelta(hours=1)


def look(part: Part, place: Place) -> Found:
    """Looks for a message among all that came after the one that it answers. Talks to the network: never inside a block.

    missing: all of that was read, and it was not there. untold: nobody can tell now. never: nobody will be able to tell.
    """
    reader = live.reader(place)
    if reader is None:
        return "never"
    try:
        found = _find(reader, part, place)
    except Untold as error:
        log.info("whether part %s stands in its room is unknown: %s", part.id, error.reason)
        return "never" if error.reason in LASTING else "untold"
    return "missing" if found is None else "stands"


def _find(reader: Reader, part: Part, place: Place) -> StoredMessage | None:
    """Raises Untold."""
    instance_id, room, reference_id = place.instance.id, part.room, part.reference_id
    if place.reply_to is None:
        since = (part.claimed_at or part.created_at) - SPARE
        return reader.find(instance_id, room, reference_id, since=since)
    try:
        # The id of a message is exact, and a time is not.
        return reader.find(instance_id, room, reference_id, after=place.reply_to)
    except Untold as error:
        if error.reason != "too_far":
            raise
    return _onwards(reader, part, place, after=place.reply_to)


def _onwards(reader: Reader, part: Part, place: Place, *, after: int) -> StoredMessage | None:
    """The same from the other end, where very much was said since: on to when the message was posted. Raises Untold."""
    until = (part.claimed_at or part.created_at) + SPARE
    for _ in range(MOST_PAGES):
        page = reader.newer(place.instance.id, part.room, after=after, limit=PAGE)
        for message in page:
            if message.reference_id == part.reference_id:
                return message
        if not page or page[-1].at > until:
            return None
        after = page[-1].id
    raise Untold("too_far")
