"""The room as it is on the server now, read by the service user for one question, and stored nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.accounts import serviceuser
from app.accounts.models import Instance
from app.accounts.serviceuser import Untold
from app.conversations import words
from app.infra import clock
from app.platforms import registry
from app.platforms.base import Page, Reader, StoredMessage
from app.rooms.parts import Place

PAGE = 200
MOST_PAGES = 15
READING_SECONDS = 15.0
# The server's clock is not ours: what its clock says of a moment of ours is taken with this to spare.
SKEW = timedelta(minutes=5)


@dataclass
class Found:
    """What a search of the room found, best first; `back_to` is how far it looked where that was not to the end."""

    messages: list[StoredMessage] = field(default_factory=list)
    back_to: datetime | None = None


def reader(place: Place) -> Reader | None:
    """Whoever can read this room; None without a service user."""
    return registry.reader(place.platform.kind) if _may_ask(place.instance) else None


def search(
    place: Place,
    query: str,
    *,
    limit: int,
    from_name: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    without: int | None = None,
) -> Found:
    """What people and bots said that has most words of the query, then the newest. Raises Untold.

    Deleted and expired messages and those of the system are not there; `without` is the id of the message that is being
    answered. At most MOST_PAGES pages are read.
    """
    wanted = words.wanted(query)
    found = Found()
    ranked: list[tuple[int, int, StoredMessage]] = []
    for page in _pages(place, found, since=since):
        for message in page.messages:
            if message.id == without or not _counts(message, since, until):
                continue
            count = words.matches(wanted, words.fold(message.text))
            if (count or not wanted) and words.is_of(from_name, message.actor.name, message.actor.key):
                ranked.append((-count, -message.id, message))
        ranked = sorted(ranked, key=lambda each: each[:2])[:limit]
        if not wanted and len(ranked) == limit:
            found.back_to = None
            break
    found.messages = [message for _, _, message in ranked]
    return found


@dataclass(frozen=True)
class Standing:
    """The ids of the messages that stand in a room, complete from the message `first` on (0: from the beginning)."""

    ids: frozenset[int]
    first: int

    def lacks(self, message_id: int | None) -> bool:
        """True when the message stood there once and no longer does."""
        return message_id is not None and message_id >= self.first and message_id not in self.ids


def standing(place: Place, *, since: datetime) -> Standing:
    """What stands in the room since then. Raises Untold, also where it could not be read so far."""
    read = Found()
    first, ids = 0, set()
    for page in _pages(place, read, since=since - SKEW):
        ids |= {message.id for message in page.messages if message.kind == "message"}
        first = 0 if page.before is None else min(message.id for message in page.messages)
    if read.back_to is not None:
        raise Untold("too_far")
    return Standing(frozenset(ids), first)


def _pages(place: Place, found: Found, *, since: datetime | None) -> Iterator[Page]:
    """The room's pages, newest first, down to `since`; `found` notes where the reading ended before that."""
    asked = reader(place)
    if asked is None:
        raise Untold("no_service_user")
    end = clock.monotonic() + READING_SECONDS
    before: int | None = None
    for _ in range(MOST_PAGES):
        page = asked.page(place.instance.id, place.room.token, before=before, limit=PAGE)
        oldest = min((message.at for message in page.messages), default=None)
        over = page.before is None or (since is not None and oldest is not None and oldest < since)
        found.back_to = None if over else oldest
        yield page
        if over or clock.monotonic() > end:
            return
        before = page.before


def _counts(message: StoredMessage, since: datetime | None, until: datetime | None) -> bool:
    if message.kind != "message" or not message.text.strip():
        return False
    if message.expires_at is not None and message.expires_at <= clock.now():
        return False
    return (since is None or message.at >= since) and (until is None or message.at <= until)


def _may_ask(instance: Instance) -> bool:
    return serviceuser.exists(instance)
