"""What the service user sees of a Talk conversation it is a member of: who is in it, and what was said (nextcloud.md 3).

For a conversation that it is no member of Talk answers 404, as for one that does not exist: reason `missing`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from app.accounts.serviceuser import Untold
from app.infra.db import clean_text
from app.platforms.base import Actor, Page, StoredMessage
from app.platforms.nextcloud_talk import ocs, payload

ROOMS = "/apps/spreed/api/v4/room"
CHAT = "/apps/spreed/api/v1/chat"
MOST_MESSAGES = 200
MODERATORS = frozenset({1, 2, 6})
LONGEST_ID = 255
SKEW = timedelta(minutes=5)
MOST_PAGES = 20
# Reading on somebody's behalf leaves no trace: not seen, not read, not online.
UNSEEN = {"noStatusUpdate": 1, "setReadMarker": 0, "markNotificationsAsRead": 0}
KINDS = {"circles": "teams"}


@dataclass(frozen=True)
class RoomFacts:
    """A conversation: `kind` is Talk's type (1 one to one, 2 group, 3 public, 4 changelog, 5 former one to one, 6 note).

    `expiration` is in seconds, 0 where messages stay; it and `last_message_id` are None where they are untold.
    """

    token: str
    kind: int
    name: str
    read_only: bool
    last_message_id: int | None
    expiration: int | None


def room(instance_id: int, token: str) -> RoomFacts:
    """Raises Untold."""
    return _facts(ocs.get(instance_id, f"{ROOMS}/{_token(token)}").data)


def rooms(instance_id: int) -> tuple[RoomFacts, ...]:
    """Every conversation that the service user is a member of. Raises Untold."""
    reply = ocs.get(instance_id, ROOMS, noStatusUpdate=1)
    return tuple(_facts(each) for each in ocs.rows(reply.data))


def participants(instance_id: int, token: str) -> tuple[Actor, ...]:
    """Everyone in it: Talk lists the people of groups and teams beside these, which are kinds groups and teams.

    Raises Untold, also when somebody in the list can't be told apart: a list with a hole is no list.
    """
    reply = ocs.get(instance_id, f"{ROOMS}/{_token(token)}/participants")
    return tuple(_participant(each) for each in ocs.rows(reply.data))


def page(instance_id: int, token: str, *, before: int | None = None, limit: int = 100) -> Page:
    """The newest messages, or those before a message. Raises Untold."""
    rows, following = history(instance_id, token, before=before, limit=limit)
    return Page(tuple(stored(each) for each in rows), following)


def history(instance_id: int, token: str, *, before: int | None, limit: int) -> tuple[list[dict[str, Any]], int | None]:
    """The same as Talk writes it, and the `before` of the next older page; None: there is none. Raises Untold."""
    asked = min(max(limit, 1), MOST_MESSAGES)
    older = {} if before is None else {"lastKnownMessageId": before}
    path = f"{CHAT}/{_token(token)}"
    reply = ocs.get(instance_id, path, empty_status=ocs.NOTHING_NEW, lookIntoFuture=0, limit=asked, **older, **UNSEEN)
    found = [] if reply.data is None else ocs.rows(reply.data)
    if not found:
        return [], None
    last = ocs.whole(_header(reply, "X-Chat-Last-Given"))
    oldest = min(_id(each) for each in found)
    following = oldest if last is None else min(last, oldest)
    # A server that repeats itself must not keep us here.
    return found, following if before is None or following < before else None


def newer(instance_id: int, token: str, *, after: int, limit: int = 100) -> tuple[StoredMessage, ...]:
    """What was said after a message, oldest first, without waiting for more. Raises Untold."""
    reply = ocs.get(
        instance_id,
        f"{CHAT}/{_token(token)}",
        empty_status=ocs.NOTHING_NEW,
        lookIntoFuture=1,
        timeout=0,
        limit=min(max(limit, 1), MOST_MESSAGES),
        lastKnownMessageId=after,
        **UNSEEN,
    )
    found = () if reply.data is None else tuple(stored(each) for each in ocs.rows(reply.data))
    return tuple(sorted((each for each in found if each.id > after), key=lambda message: message.id))


def context(instance_id: int, token: str, message_id: int, *, limit: int = 10) -> tuple[StoredMessage, ...]:
    """A message and those around it, oldest first. Raises Untold."""
    reply = ocs.get(
        instance_id,
        f"{CHAT}/{_token(token)}/{int(message_id)}/context",
        empty_status=ocs.NOTHING_NEW,
        limit=min(max(limit, 1), MOST_MESSAGES // 2),
    )
    found = () if reply.data is None else tuple(stored(each) for each in ocs.rows(reply.data))
    return tuple(sorted(found, key=lambda message: message.id))


def find(
    instance_id: int, token: str, reference_id: str, *, after: int | None = None, since: datetime | None = None
) -> StoredMessage | None:
    """The message with this reference. None only when everything since then was seen and it was not among it.

    Clocks differ, so a time is taken with five minutes to spare; a message id is exact. Raises Untold.
    """
    end = None if since is None else since - SKEW
    before: int | None = None
    for _ in range(MOST_PAGES):
        found = page(instance_id, token, before=before, limit=MOST_MESSAGES)
        for message in found.messages:
            if message.reference_id == reference_id:
                return message
        if found.before is None or _reached(found.messages, after, end):
            return None
        before = found.before
    raise Untold("too_far")


def stored(data: dict[str, Any]) -> StoredMessage:
    """A message of the chat API; ids are numbers there. Raises Untold where it has no id or time."""
    id, seconds = _id(data), ocs.whole(data.get("timestamp"))
    if seconds is None:
        raise Untold("not_nextcloud", detail="a message without a time")
    name = _text(data.get("systemMessage"))
    shown = payload.rendered({"message": data.get("message"), "parameters": data.get("messageParameters")})
    parent = data.get("parent")
    return StoredMessage(
        id=id,
        actor=_actor(data.get("actorType"), data.get("actorId"), name=data.get("actorDisplayName")),
        at=_moment(seconds),
        text=shown.text,
        kind=_kind(data, name),
        name=name,
        reference_id=_text(data.get("referenceId")),
        thread=ocs.whole(data.get("threadId")) or None,
        parent_id=ocs.whole(parent.get("id")) if isinstance(parent, dict) else None,
        expires_at=_moment(ocs.whole(data.get("expirationTimestamp")) or 0)
        if data.get("expirationTimestamp")
        else None,
    )


def _id(data: dict[str, Any]) -> int:
    id = ocs.whole(data.get("id"))
    if id is None:
        raise Untold("not_nextcloud", detail="a message without an id")
    return id


def _kind(data: dict[str, Any], name: str) -> Literal["message", "system", "deleted"]:
    kind = data.get("messageType")
    if kind == "comment_deleted" or data.get("deleted") is True:
        return "deleted"
    return "system" if name or kind == "system" else "message"


def _reached(messages: Iterable[StoredMessage], after: int | None, end: datetime | None) -> bool:
    found = list(messages)
    past_id = after is not None and min(message.id for message in found) <= after
    return past_id or (end is not None and min(message.at for message in found) < end)


def _participant(data: dict[str, Any]) -> Actor:
    kind = data.get("actorType")
    found = _actor(kind, data.get("actorId"), name=data.get("displayName"))
    if found.kind == "unknown":
        raise Untold("not_nextcloud", detail="a participant without a name")
    role = ocs.whole(data.get("participantType"))
    return Actor(found.kind, found.id, found.name, None if role is None else role in MODERATORS)


def _actor(kind: Any, id: Any, *, name: Any) -> Actor:
    """An actor; a kind that is new to us stays what it is called, so that nobody in a room is overlooked."""
    exact = isinstance(id, str) and 0 < len(id) <= LONGEST_ID and clean_text(id) == id
    shown = _text(name)[:LONGEST_ID]
    if not exact or not isinstance(kind, str) or not kind:
        return Actor("unknown", _text(id)[:LONGEST_ID], shown)
    return Actor(KINDS.get(kind, kind), unicodedata.normalize("NFC", id), shown)


def _facts(data: Any) -> RoomFacts:
    if not isinstance(data, dict) or not isinstance(data.get("token"), str):
        raise Untold("not_nextcloud", detail="no conversation")
    last = data.get("lastMessage")
    return RoomFacts(
        token=data["token"],
        kind=ocs.whole(data.get("type")) or 0,
        name=_text(data.get("displayName")) or _text(data.get("name")),
        read_only=ocs.whole(data.get("readOnly")) == 1,
        last_message_id=ocs.whole(last.get("id")) if isinstance(last, dict) else None,
        expiration=ocs.whole(data.get("messageExpiration")),
    )


def _token(token: str) -> str:
    if not payload.ROOM_FORM.fullmatch(token):
        raise Untold("missing", detail="no token of a conversation")
    return token


def _header(reply: ocs.Reply, name: str) -> str | None:
    return next((value for key, value in reply.headers.items() if key.lower() == name.lower()), None)


def _moment(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise Untold("not_nextcloud", detail="a time that no calendar has") from None


def _text(value: Any) -> str:
    return clean_text(value) if isinstance(value, str) else ""
