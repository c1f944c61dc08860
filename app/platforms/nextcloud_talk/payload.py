"""Bytes of a Talk webhook become one typed IncomingEvent.

The form is ActivityStreams with JSON inside JSON (spec: nextcloud.md 1.3): the object's content is the text of another
JSON value, {"message": str, "parameters": {} or []}. Only a body that is no JSON object is refused; every other oddity
becomes an event that nobody answers.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.infra.db import clean_text
from app.platforms.base import (
    LARGEST_ID,
    LONGEST_ID,
    Actor,
    BadPayload,
    IncomingEvent,
    Named,
    QuotedParent,
    SharedFile,
)

ACTOR_KINDS = frozenset(("users", "guests", "emails", "federated_users", "bots", "bridged", "phones", "deleted_users"))
MODERATORS = frozenset(("1", "2", "6"))
MESSAGE_NAMES = frozenset(("", "message"))
ROOM_FORM = re.compile(r"[A-Za-z0-9]{1,64}")
PLACEHOLDER = re.compile(r"\{([^{}]{1,255})\}")
# A text of a hundred thousand placeholders is nobody's message; the rest stays as it is written.
MOST_PLACEHOLDERS = 5_000
LONGEST_UID = 190
LONGEST_LABEL = 255
LONGEST_INSERT = 1_000
LONGEST_OBJECT_ID = 64
LONGEST_EVENT_NAME = 64
LONGEST_EMOJI = 64
KINDS_BY_MIMETYPE = {"image": "image", "audio": "audio", "video": "video"}

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Rendered:
    """A text with its placeholders filled, where they stood, and the files that came with it."""

    text: str
    named: tuple[Named, ...] = ()
    files: tuple[SharedFile, ...] = ()


def parse(body: bytes) -> IncomingEvent:
    """The event that a request body tells. Raises BadPayload when it is no JSON object."""
    data = _load(body)
    kind = _text(data.get("type"))
    if kind in ("Join", "Leave"):
        return _membership(data, kind)
    if kind == "Like":
        return replace(_base(data), kind="reaction", reaction=_emoji(data))
    if kind == "Undo":
        return _undo(data)
    if kind in ("Create", "Activity"):
        return _message(data, kind)
    return replace(_base(data), name=kind[:LONGEST_EVENT_NAME])


def room_title(name: str) -> tuple[str, bool]:
    """A room's name for people, and whether it is a one-to-one room, whose name is a JSON list of two user ids."""
    if name.startswith("["):
        try:
            members = json.loads(name)
        except (ValueError, RecursionError):
            return name, False
        if isinstance(members, list) and members and all(isinstance(uid, str) and uid for uid in members):
            return clean_text(", ".join(members)), len(members) <= 2
    return name, False


def _load(body: bytes) -> Json:
    try:
        data = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadPayload(f"the body is not JSON: {type(error).__name__}") from None
    if not isinstance(data, dict):
        raise BadPayload("the body is not a JSON object")
    return data


def _base(data: Json) -> IncomingEvent:
    """What every event that stands in a room has; a room that can't be one makes it an event of no room."""
    room = _object(data.get("target"))
    thing = _object(data.get("object"))
    token, title, one_to_one = _room(room)
    return IncomingEvent(
        kind="unknown",
        room=token,
        room_name=title,
        actor=_actor(data.get("actor")),
        object_id=_object_id(thing.get("id")),
        one_to_one=one_to_one,
    )


def _membership(data: Json, kind: str) -> IncomingEvent:
    token, title, one_to_one = _room(_object(data.get("object")))
    actor = _actor(data.get("actor"))
    event = IncomingEvent(kind="unknown", room=token, room_name=title, actor=actor, name=kind, one_to_one=one_to_one)
    if not token:
        return event
    return replace(event, kind="join" if kind == "Join" else "leave")


def _undo(data: Json) -> IncomingEvent:
    event = _base(data)
    like = _object(data.get("object"))
    if like.get("type") != "Like":
        return replace(event, name="Undo")
    reacted = _object(like.get("object"))
    return replace(
        event,
        kind="unreaction",
        object_id=_object_id(reacted.get("id")),
        reaction=_emoji(like) or _emoji(data),
    )


def _message(data: Json, kind: str) -> IncomingEvent:
    event = _base(data)
    thing = _object(data.get("object"))
    name = _text(thing.get("name"))[:LONGEST_EVENT_NAME]
    if not event.room:
        return replace(event, name=kind)
    shown = rendered(thing.get("content"))
    spoken = kind == "Create" or name in MESSAGE_NAMES
    return replace(
        event,
        kind="message" if spoken else "system",
        name=name,
        text=shown.text,
        named=shown.named,
        files=shown.files if spoken else (),
        parent=_parent(thing.get("inReplyTo")) if spoken else None,
        thread=_message_id(thing.get("threadId")),
    )


def _parent(value: Any) -> QuotedParent | None:
    if not isinstance(value, dict):
        return None
    quoted = _object(value.get("object"))
    return QuotedParent(
        message_id=_message_id(quoted.get("id")),
        actor=_actor(value.get("actor")),
        text=rendered(quoted.get("content")).text,
    )


def _room(thing: Json) -> tuple[str, str, bool]:
    # As it stands: cleaned, it could become another room's.
    token = thing.get("id")
    title, one_to_one = room_title(_text(thing.get("name")))
    exact = isinstance(token, str) and ROOM_FORM.fullmatch(token) is not None
    return str(token) if exact else "", title[:LONGEST_LABEL], one_to_one


def _actor(value: Any) -> Actor:
    """Who did it, split at the first "/" only; an id that can't be told apart from another one is nobody's."""
    data = _object(value)
    given = data.get("id")
    kind, _, uid = given.partition("/") if isinstance(given, str) else ("", "", "")
    name = _text(data.get("name"))[:LONGEST_LABEL]
    exact = clean_text(uid) == uid and 0 < len(uid) <= LONGEST_UID
    if kind not in ACTOR_KINDS or not exact:
        return Actor("unknown", clean_text(uid)[:LONGEST_UID], name)
    role = _identifier(data.get("talkParticipantType"))
    moderator = None if role is None else role in MODERATORS
    return Actor(kind, unicodedata.normalize("NFC", uid), name, moderator)


def rendered(content: Any) -> Rendered:
    """A content, usually the text of a JSON object; any other text is a message as it stands."""
    inner = content if isinstance(content, dict) else _inner(content)
    message = inner.get("message")
    if not isinstance(message, str):
        return Rendered(_text(content))
    parameters = inner.get("parameters")
    known = {key: value for key, value in _object(parameters).items() if isinstance(value, dict)}
    text, named = _filled(clean_text(message), known)
    return Rendered(text, named, tuple(_file(value) for value in known.values() if value.get("type") == "file"))


def _inner(content: Any) -> Json:
    if not isinstance(content, str):
        return {}
    try:
        return _object(json.loads(content))
    except (ValueError, RecursionError):
        return {}


def _filled(message: str, known: Mapping[str, Json]) -> tuple[str, tuple[Named, ...]]:
    """Fills the placeholders that have a parameter, in one pass: what was put in is never looked at again."""
    pieces: list[str] = []
    named: list[Named] = []
    position = length = 0
    for match in PLACEHOLDER.finditer(message):
        parameter = known.get(match[1])
        label = "" if parameter is None else _label(parameter)
        if parameter is None or not label or len(named) == MOST_PLACEHOLDERS:
            continue
        before = message[position : match.start()]
        start = length + len(before)
        named.append(_named(parameter, label, start))
        pieces += [before, label]
        position, length = match.end(), start + len(label)
    return "".join(pieces) + message[position:], tuple(named)


def _named(parameter: Json, label: str, start: int) -> Named:
    kind = _text(parameter.get("type"))[:LONGEST_EVENT_NAME]
    return Named(start, start + len(label), kind, (_identifier(parameter.get("id")) or "")[:LONGEST_LABEL], label)


def _label(parameter: Json) -> str:
    return (_text(parameter.get("name")) or _identifier(parameter.get("id")) or "")[:LONGEST_INSERT]


def _file(parameter: Json) -> SharedFile:
    mimetype = _text(parameter.get("mimetype")).lower()[:LONGEST_LABEL]
    size = _identifier(parameter.get("size"))
    return SharedFile(
        id=(_identifier(parameter.get("id")) or "")[:LONGEST_OBJECT_ID],
        name=_text(parameter.get("name"))[:LONGEST_LABEL],
        mimetype=mimetype,
        size=_number(size),
        kind=KINDS_BY_MIMETYPE.get(mimetype.partition("/")[0], "document"),  # type: ignore[arg-type]
        path=_text(parameter.get("path")),
        link=_text(parameter.get("link")),
        etag=_text(parameter.get("etag"))[:LONGEST_LABEL],
        hide_download=parameter.get("hide-download") in ("yes", True),
    )


def _emoji(data: Json) -> str:
    return _text(data.get("content"))[:LONGEST_EMOJI]


def _object(value: Any) -> Json:
    # PHP writes an empty object as [].
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return clean_text(value) if isinstance(value, str) else ""


def _identifier(value: Any) -> str | None:
    """An id as text: Talk sends them as digits in a string, older versions as numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value) if abs(value) <= LARGEST_ID else None
    return _text(value) or None


def _object_id(value: Any) -> str | None:
    text = _identifier(value)
    return text if text is not None and len(text) <= LONGEST_OBJECT_ID else None


def _message_id(value: Any) -> int | None:
    number = _number(_identifier(value))
    return number or None


def _number(text: str | None) -> int | None:
    """A whole number that a database takes, or None."""
    if text is None or len(text) > LONGEST_ID or not (text.isascii() and text.isdigit()):
        return None
    return int(text) if int(text) <= LARGEST_ID else None
