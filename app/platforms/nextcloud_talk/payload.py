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
    Envelope,
    EventKind,
    IncomingEvent,
    Named,
    QuotedParent,
    SharedFile,
)

ACTOR_KINDS = frozenset(("users", "guests", "emails", "federated_users", "bots", "bridged", "phones", "deleted_users"))
MODERATORS = frozenset(("1", "2", "6"))
MESSAGE_NAMES = frozenset(("", "message"))
MEMBERSHIP: Mapping[str, EventKind] = {"Join": "join", "Leave": "leave"}
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
NOTHING: Json = {}


@dataclass(frozen=True)
class Rendered:
    """A text with its placeholders filled, where they stood, and the files that came with it."""

    text: str
    named: tuple[Named, ...] = ()
    files: tuple[SharedFile, ...] = ()


def parse(body: bytes) -> IncomingEvent:
    """The event that a request body tells. Raises BadPayload when it is no JSON object."""
    data = _load(body)
    told = _envelope(data)
    title, one_to_one = room_title(_text(_place(data).get("name")))
    event = IncomingEvent(
        kind=told.kind,
        room=told.room,
        room_name=title[:LONGEST_LABEL],
        actor=told.actor,
        object_id=told.object_id,
        name=told.name,
        one_to_one=one_to_one,
    )
    if told.kind in ("message", "system"):
        return _with_text(event, _object(data.get("object")))
    if told.kind == "reaction":
        return replace(event, reaction=_emoji(data))
    if told.kind == "unreaction":
        return replace(event, reaction=_emoji(_object(data.get("object"))) or _emoji(data))
    return event


def envelope(body: bytes) -> Envelope:
    """What `parse` would tell of the event's kind, room, actor, object and name, without reading its text."""
    return _envelope(_load(body))


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


def _envelope(data: Json) -> Envelope:
    thing = _object(data.get("object"))
    room = _token(_place(data).get("id"))
    kind, name, told_of = _kind(data, thing, room)
    return Envelope(kind, room, _actor(data.get("actor")), _object_id(told_of.get("id")), name)


def _kind(data: Json, thing: Json, room: str) -> tuple[EventKind, str, Json]:
    """Which kind of event it is, what Talk calls it, and the object that it is about."""
    given = _text(data.get("type"))
    if given in ("Create", "Activity"):
        name = _text(thing.get("name"))[:LONGEST_EVENT_NAME]
        if not room:
            return "unknown", given, thing
        return "message" if given == "Create" or name in MESSAGE_NAMES else "system", name, thing
    if given in MEMBERSHIP:
        # The room itself is the object here, and its id is no message's.
        return MEMBERSHIP[given] if room else "unknown", given, NOTHING
    if given == "Like":
        return "reaction", "", thing
    if given == "Undo" and thing.get("type") == "Like":
        return "unreaction", "", _object(thing.get("object"))
    return "unknown", given[:LONGEST_EVENT_NAME], thing


def _with_text(event: IncomingEvent, thing: Json) -> IncomingEvent:
    shown = rendered(thing.get("content"))
    spoken = event.kind == "message"
    return replace(
        event,
        text=shown.text,
        named=shown.named,
        files=shown.files if spoken else (),
        parent=_parent(thing.get("inReplyTo")) if spoken else None,
        thread=_message_id(thing.get("threadId")),
    )


def _place(data: Json) -> Json:
    """The room: of who came or went it is the object, of everything else the target."""
    return _object(data.get("object" if _text(data.get("type")) in MEMBERSHIP else "target"))


def _parent(value: Any) -> QuotedParent | None:
    if not isinstance(value, dict):
        return None
    quoted = _object(value.get("object"))
    return QuotedParent(
        message_id=_message_id(quoted.get("id")),
        actor=_actor(value.get("actor")),
        text=rendered(quoted.get("content")).text,
    )


def _token(token: Any) -> str:
    # As it stands: cleaned, it could become another room's. A room that can't be one makes an event of no room.
    return token if isinstance(token, str) and ROOM_FORM.fullmatch(token) is not None else ""


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
