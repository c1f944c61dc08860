"""The rules of the small Talk server: what a bot may post and react to, and with which status it is refused.

As strict as the measured server (spec: nextcloud.md 2 and 13.2, 13.3), so that what works here works there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from app.accounts import instances
from app.infra import clock, signing
from app.infra.db import clean_text, reading, transaction
from app.platforms import registrations, rooms
from app.platforms.models import Registration, SandboxMessage

MAX_MESSAGE = 32_000
LONGEST_REFERENCE = 64
LONGEST_EMOJI = 12
LARGEST_ID = 2**63 - 1
CREATED, OK, BAD, REFUSED, MISSING, TOO_LONG = 201, 200, 400, 401, 404, 413


def post(room: str, data: Mapping[str, Any], *, random: str, signature: str) -> int:
    """A bot's message; the status that Talk answers."""
    text = data.get("message")
    if not isinstance(text, str) or not text.strip():
        return BAD
    status, bot = _bot(room, text, random=random, signature=signature)
    if bot is None:
        return status
    reply_to = _id(data.get("replyTo", 0))
    if reply_to is None or (reply_to and message(room, reply_to) is None):
        return BAD
    if len(text) > MAX_MESSAGE:
        return TOO_LONG
    reference = clean_text(str(data.get("referenceId") or ""))[:LONGEST_REFERENCE]
    store(
        room,
        registrations.actor_id(bot),
        f"{bot.name} (Bot)",
        text=clean_text(text),
        reply_to=reply_to or None,
        reference_id=reference or None,
    )
    return CREATED


def react(room: str, message_id: int, emoji: object, *, random: str, signature: str, remove: bool = False) -> int:
    """A bot's reaction, or its removal; the status that Talk answers."""
    if not isinstance(emoji, str) or not emoji:
        return BAD
    status, bot = _bot(room, emoji, random=random, signature=signature)
    if bot is None:
        return status
    if message_id > LARGEST_ID or message(room, message_id) is None:
        return MISSING
    if not is_emoji(emoji):
        return BAD
    return _toggled(message_id, emoji, registrations.actor_id(bot), remove=remove)


def message(room: str, message_id: int) -> SandboxMessage | None:
    """The message of that id, when it stands in that room."""
    with reading() as session:
        found = session.get(SandboxMessage, message_id)
    return found if found is not None and found.room == room else None


def store(
    room: str, actor: str, name: str, *, text: str, reply_to: int | None = None, reference_id: str | None = None
) -> SandboxMessage:
    """Writes a message into a room."""
    made = SandboxMessage(
        room=room,
        actor=actor,
        actor_name=name,
        text=text,
        reply_to=reply_to,
        reference_id=reference_id,
        reactions={},
        created_at=clock.now(),
    )
    with transaction() as session:
        session.add(made)
        session.flush()
    return made


def is_emoji(text: str) -> bool:
    """True for one emoji, as far as its characters tell: a symbol first, or a keycap."""
    if not 0 < len(text) <= LONGEST_EMOJI:
        return False
    return unicodedata.category(text[0]) in ("So", "Sk") or text.endswith("\u20e3")


def _bot(room: str, value: str, *, random: str, signature: str) -> tuple[int, Registration | None]:
    """The bot that signed it, or the status that refuses: an unknown room is refused like a bad signature."""
    if len(random) < signing.MIN_RANDOM or not signature:
        return BAD, None
    sandbox = instances.by_name(instances.SANDBOX)
    if sandbox is None or rooms.get(sandbox.id, room) is None:
        return REFUSED, None
    payload = value.encode("utf-8", "surrogatepass")
    for bot in registrations.of_instance(sandbox.id):
        if any(signing.valid(secret, random, payload, signature) for secret in registrations.known_secrets(bot)):
            return OK, bot
    return REFUSED, None


def _toggled(message_id: int, emoji: str, actor: str, *, remove: bool) -> int:
    with transaction() as session:
        query = select(SandboxMessage).where(SandboxMessage.id == message_id).with_for_update()
        found = session.scalars(query).one()
        actors = list(found.reactions.get(emoji, ()))
        if remove and actor not in actors:
            return MISSING
        if not remove and actor in actors:
            return OK
        changed = [known for known in actors if known != actor] if remove else [*actors, actor]
        rest = {key: value for key, value in found.reactions.items() if key != emoji}
        found.reactions = {**rest, emoji: changed} if changed else rest
    return OK if remove else CREATED


def _id(value: object) -> int | None:
    """A message id as an integer; Talk also reads digits in a text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_ID:
        return None
    return value
