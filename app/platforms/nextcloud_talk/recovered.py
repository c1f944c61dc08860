"""Messages of a room's history in the form in which Talk would have sent them to the webhook (nextcloud.md 1.3, 13.5).

So what was missed is stored, read and answered like everything else. What the history does not tell is left out: the
role of whoever wrote it. A thread is named where the server says that it is one; a share tells of no reply, because the
webhook does not either.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from app.accounts import serviceuser
from app.infra import clock
from app.platforms.base import MissedEvent, MissedEvents, StoredMessage
from app.platforms.nextcloud_talk import conversation

PAGE = 100
MOST_PAGES = 3
SHARES = frozenset({"file_shared", "object_shared"})
SHARED = frozenset({"file", "object"})

Json = dict[str, Any]


def missed(instance_id: int, token: str, *, name: str, after: int | None, since: datetime, limit: int) -> MissedEvents:
    """See platforms.base.Reader. Reads at most MOST_PAGES pages, newest first. Raises Untold.

    What people said is too late at some time; that the history was cleared is not.
    """
    own = f"users/{unicodedata.normalize('NFC', serviceuser.login(instance_id).uid)}"
    found: list[MissedEvent] = []
    messages, left_out = 0, False
    for data in _newest_first(instance_id, token):
        if data is None:
            left_out = True
            break
        seen = conversation.stored(data)
        late = seen.at < since
        # Without a last known message, what is older may have been told long ago.
        if seen.id <= (after or 0) or (late and after is None):
            break
        spoken = _is_message(data, seen)
        if not _was_told(seen) or (spoken and seen.actor.key == own):
            continue
        if spoken and (late or messages == limit):
            left_out = True
            continue
        messages += spoken
        found.append(MissedEvent(body(data, token=token, name=name), seen.at))
    return MissedEvents(tuple(reversed(found)), left_out)


def body(data: Json, *, token: str, name: str) -> bytes:
    """The request that Talk 21 would have made for a message of the chat API. Raises Untold where it has no id."""
    seen = conversation.stored(data)
    shared = _is_share(data, seen)
    thing = _note(data, "" if shared else seen.name or "message")
    if isinstance(data.get("parent"), dict) and not shared:
        thing |= _in_reply_to(data["parent"])
    if data.get("isThread") is True and seen.thread:
        thing["threadId"] = str(seen.thread)
    event = {
        "type": "Activity" if shared or seen.name else "Create",
        "actor": _actor(data),
        "object": thing,
        "target": {"type": "Collection", "id": token, "name": name},
    }
    return json.dumps(event, separators=(",", ":")).encode()


def _newest_first(instance_id: int, token: str) -> Iterator[Json | None]:
    """The messages down to the first one; None where there are more than are read."""
    before: int | None = None
    for _ in range(MOST_PAGES):
        rows, before = conversation.history(instance_id, token, before=before, limit=PAGE)
        yield from sorted(rows, key=lambda data: -conversation.stored(data).id)
        if before is None:
            return
    yield None


def _is_share(data: Json, seen: StoredMessage) -> bool:
    """What the server writes when it closes a poll or ends a recording may name an object, too."""
    parameters = data.get("messageParameters")
    holds_one = isinstance(parameters, dict) and not SHARED.isdisjoint(parameters)
    return seen.name in SHARES or (not seen.name and holds_one)


def _is_message(data: Json, seen: StoredMessage) -> bool:
    return seen.kind == "message" or (seen.kind == "system" and _is_share(data, seen))


def _was_told(seen: StoredMessage) -> bool:
    """False for what no webhook tells: bots among themselves; and for what is gone."""
    gone = seen.kind == "deleted" or (seen.expires_at is not None and seen.expires_at <= clock.now())
    return not gone and seen.actor.kind not in ("bots", "unknown")


def _note(data: Mapping[str, Any], name: str) -> Json:
    text = data.get("message")
    content = {"message": text if isinstance(text, str) else "", "parameters": data.get("messageParameters") or []}
    return {
        "type": "Note",
        "id": str(data["id"]),
        "name": name,
        "content": json.dumps(content, separators=(",", ":")),
        "mediaType": "text/plain" if data.get("markdown") is False else "text/markdown",
    }


def _in_reply_to(parent: Json) -> Json:
    """The message that it replies to; of one that was deleted nothing is left but its id."""
    if parent.get("deleted") is True or parent.get("messageType") == "comment_deleted" or "id" not in parent:
        return {}
    return {"inReplyTo": {"type": "Note", "actor": _actor(parent), "object": _note(parent, "message")}}


def _actor(data: Mapping[str, Any]) -> Json:
    return {
        "type": "Person",
        "id": f"{data.get('actorType')}/{data.get('actorId')}",
        "name": data.get("actorDisplayName") or "",
    }
