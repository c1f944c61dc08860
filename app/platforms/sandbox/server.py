"""The sandbox room: made once, with a welcome exchange, and the place where a person's words become a signed webhook.

`WELCOME` is also what the guide bot remembers of this room; whoever may write conversations stores it there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from app.accounts import instances
from app.accounts.models import Instance
from app.infra import clock, signing
from app.infra.db import clean_text, reading, transaction
from app.infra.i18n import Sentence, say
from app.platforms import registrations, rooms
from app.platforms.models import Registration, SandboxMessage

ROOM = "sandbox"
ROOM_NAME = "Sandbox"
BOT_NAME = "Guide"
GUIDE = "bots/guide"
NAMES: Mapping[str, str] = {"users/ada": "Ada", "users/bob": "Bob"}
ROLES: Mapping[str, str] = {"users/ada": "1", "users": "3", "guests": "4"}
MEDIA_TYPE = "text/markdown"


@dataclass(frozen=True)
class Said:
    """A message of the welcome exchange; `actor` is a person's id, or GUIDE."""

    actor: str
    name: str
    text: Sentence


@dataclass(frozen=True)
class SharedHere:
    """A file that a person shares in a room; `size` in bytes."""

    name: str
    mimetype: str
    size: int


@dataclass(frozen=True)
class Request:
    """A webhook ready to be sent: `message_id` is the message that it tells."""

    message_id: int
    headers: Mapping[str, str]
    body: bytes


WELCOME = (
    Said("users/ada", "Ada", say("@guide hello! Bob and I have just started Parley. What is it?")),
    Said(
        GUIDE,
        BOT_NAME,
        say(
            "Parley puts AI bots into chat rooms, on your own server. You mention a bot in a room, it thinks and uses its "
            "tools, and its answer stands in the room, with the sources that it used."
        ),
    ),
    Said("users/bob", "Bob", say("@guide which chat does it work with?")),
    Said(
        GUIDE,
        BOT_NAME,
        say(
            "With Nextcloud Talk: each message comes to Parley as a signed webhook, and the answer goes back signed. This "
            "room is the sandbox, a small Talk server inside Parley, so that you can try it without a Nextcloud."
        ),
    ),
    Said("users/ada", "Ada", say("@guide and which model writes the answers?")),
    Said(
        GUIDE,
        BOT_NAME,
        say(
            "Any model server that speaks the OpenAI protocol, on your own machine or elsewhere; an administrator connects "
            "it with one command. Until then I answer by quoting what I find in this room, and say so."
        ),
    ),
    Said("users/bob", "Bob", say("@guide who can read what we write here?")),
    Said(
        GUIDE,
        BOT_NAME,
        say(
            "The people in this room. I keep only the messages that were meant for me and my answers, on your server and "
            "for thirty days, and I never repeat them in another room."
        ),
    ),
)


def ensure(base_url: str) -> Registration:
    """The sandbox's instance, registration and room, made when they are missing.

    `base_url` is the address at which the running server answers on this machine, because only this machine may use the
    sandbox's API. Writes tables of platforms and accounts only.
    """
    instance = instances.ensure_sandbox(base_url)
    found = registrations.shared_of(instance.id)
    registration = found or registrations.create(instance.id, BOT_NAME, base_url=base_url)
    room = rooms.seen(instance.id, ROOM, ROOM_NAME)
    rooms.bind(room.id, registration.id)
    _welcome(registration)
    return registration


def messages(room: str, *, after: int = 0) -> list[SandboxMessage]:
    """What was said in a room after the message `after`, oldest first."""
    query = select(SandboxMessage).where(SandboxMessage.room == room, SandboxMessage.id > after)
    with reading() as session:
        return list(session.scalars(query.order_by(SandboxMessage.id)).all())


def person_name(actor: str) -> str:
    """How a person is shown who was only named by an id such as users/ada or guests/7d0c."""
    kind, _, uid = actor.partition("/")
    if kind == "guests":
        return f"Guest {uid[:4]}".strip()
    return NAMES.get(actor) or uid.replace(".", " ").replace("_", " ").title()


def request(
    instance: Instance,
    registration: Registration,
    *,
    room: str,
    room_name: str,
    message_id: int,
    actor: str,
    name: str,
    text: str,
    shared: SharedHere | None = None,
    quoted: Mapping[str, Any] | None = None,
) -> Request:
    """A person's message as the webhook that Talk would send, signed; `actor` is users/ada, `name` how Ada is shown.

    `quoted` is what `quotation` makes; a shared file has none, as in Talk.
    """
    text = clean_text(text)
    if shared is None:
        event = _message(actor, name, message_id=message_id, text=text)
        if quoted is not None:
            event["object"]["inReplyTo"] = quoted
    else:
        event = _share(actor, name, message_id=message_id, text=text, shared=shared)
    body = php_json({**event, "target": {"type": "Collection", "id": room, "name": room_name}})
    random = signing.fresh_random()
    headers = {
        "Content-Type": "application/json",
        "X-Nextcloud-Talk-Random": random,
        "X-Nextcloud-Talk-Signature": signing.sign(registrations.secret(registration), random, body),
        "X-Nextcloud-Talk-Backend": instance.url.rstrip("/") + "/",
        "OCS-APIRequest": "true",
    }
    return Request(message_id, headers, body)


def quotation(message_id: int, actor: str, name: str, text: str) -> dict[str, Any]:
    """The message that another one replies to, as it stands in a webhook."""
    return {
        "type": "Note",
        "actor": {"type": "Application" if actor.startswith("bots/") else "Person", "id": actor, "name": name},
        "object": _note(message_id, "message", text, {}),
    }


def php_json(value: Any) -> bytes:
    """JSON as PHP writes it: slashes and everything beyond ASCII escaped."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("/", "\\/").encode()


def _message(actor: str, name: str, *, message_id: int, text: str) -> dict[str, Any]:
    role = ROLES.get(actor) or ROLES.get(actor.partition("/")[0])
    who = {"type": "Person", "id": actor, "name": name}
    if role:
        who["talkParticipantType"] = role
    return {"type": "Create", "actor": who, "object": _note(message_id, "message", text, {})}


def _share(actor: str, name: str, *, message_id: int, text: str, shared: SharedHere) -> dict[str, Any]:
    uid = actor.partition("/")[2]
    parameters = {
        "actor": {"type": "user", "id": uid, "name": name, "mention-id": uid},
        "file": {
            "type": "file",
            "id": str(message_id),
            "name": shared.name,
            "size": str(shared.size),
            "path": shared.name,
            "link": "",
            "mimetype": shared.mimetype,
            "preview-available": "no",
            "hide-download": "no",
        },
    }
    return {
        "type": "Activity",
        "actor": {"type": "Person", "id": actor, "name": name},
        "object": _note(message_id, "", text or "{file}", parameters),
    }


def _note(message_id: int, name: str, text: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    content = php_json({"message": text, "parameters": parameters or []}).decode()
    return {"type": "Note", "id": str(message_id), "name": name, "content": content, "mediaType": MEDIA_TYPE}


def _welcome(registration: Registration) -> None:
    """Writes the welcome exchange into a room where nothing was said yet."""
    with transaction() as session:
        if session.scalars(select(SandboxMessage.id).where(SandboxMessage.room == ROOM).limit(1)).first() is not None:
            return
        asked: int | None = None
        for said in WELCOME:
            is_bot = said.actor == GUIDE
            row = SandboxMessage(
                room=ROOM,
                actor=registrations.actor_id(registration) if is_bot else said.actor,
                actor_name=f"{registration.name} (Bot)" if is_bot else said.name,
                text=said.text.text(),
                reply_to=asked if is_bot else None,
                reactions={},
                created_at=clock.now(),
            )
            session.add(row)
            session.flush()
            asked = row.id
