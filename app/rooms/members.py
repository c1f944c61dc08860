"""Who is in a room and who spoke there, as far as it is known."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, select

from app.accounts.audience import Audience, Principal
from app.inbox.models import Delivery
from app.infra.db import reading
from app.platforms import registrations, registry, rooms
from app.platforms.base import Actor, BadPayload
from app.platforms.models import Room, RoomBinding
from app.rooms.models import Part
from app.rooms.neutral import digest

RECENT = 5
STOOD = ("sent", "sending", "unknown")


def audience(room: Room, actor: Actor) -> Audience:
    """Everyone who will read an answer. Nobody tells yet who is in a room, so only the actor is known (K3: unknown)."""
    return Audience(frozenset({Principal(room.instance_id, actor.kind, actor.id)}), complete=False)


def stays(delivery: Delivery, room: Room) -> bool:
    """False when the bot was removed from the room after this message, also where nobody has worked that event yet.

    A bot that is not in a room is refused like one with a wrong secret, and that would close the breaker to every other
    room. A message that came after the removal tells that the bot is back: older servers don't say so.
    """
    queued = (Delivery.instance_id == delivery.instance_id, Delivery.room == delivery.room, Delivery.state == "queued")
    leaves = (Delivery.kind == "leave", Delivery.registration_id == delivery.registration_id)
    binding = (RoomBinding.room_id == room.id, RoomBinding.registration_id == delivery.registration_id)
    with reading() as session:
        if session.scalar(select(Delivery.id).where(*queued, *leaves, Delivery.id > delivery.id).limit(1)) is not None:
            return False
        found = session.scalars(select(RoomBinding).where(*binding)).one_or_none()
    if found is not None and found.left_at is not None and found.left_at > delivery.received_at:
        return False
    if found is None or found.left_at is not None:
        rooms.bind(room.id, delivery.registration_id)
    return True


def moderates(room: Room, actor_key: str) -> bool:
    """True when this person's last message in the room was a moderator's, and no role has changed since.

    The server tells the role with each message and in no other way; `actor_key` is as in users/ada.
    """
    recent = (
        select(Delivery)
        .where(Delivery.instance_id == room.instance_id, Delivery.room == room.token, Delivery.kind == "message")
        .where(Delivery.actor == actor_key, Delivery.body.is_not(None))
        .order_by(Delivery.id.desc())
        .limit(RECENT)
    )
    with reading() as session:
        deliveries = session.scalars(recent).all()
    for delivery in deliveries:
        if room.members_changed_at is not None and delivery.received_at <= room.members_changed_at:
            return False
        role = _role(delivery)
        if role is not None:
            return role
    return False


def sent_by(room: Room, text: str) -> int | None:
    """The bot that said exactly this in the room, as long as its parts are kept."""
    return _last_bot(room, Part.text_digest == digest(text))


def last_spoke(room: Room, registration_id: int) -> int | None:
    """The bot of this registration that spoke last in the room."""
    return _last_bot(room, Part.registration_id == registration_id)


def others_spoke(room: Room, registration_id: int, *, bot_id: int, since: datetime) -> bool:
    """True when another bot of the registration has said something in the room since then."""
    others = (Part.registration_id == registration_id, Part.bot_id != bot_id, Part.created_at >= since)
    return _last_bot(room, *others) is not None


def _last_bot(room: Room, *where: ColumnElement[bool]) -> int | None:
    said = (Part.instance_id == room.instance_id, Part.room == room.token, Part.state.in_(STOOD))
    query = select(Part.bot_id).where(*said, *where).order_by(Part.id.desc()).limit(1)
    with reading() as session:
        return session.scalar(query)


def _role(delivery: Delivery) -> bool | None:
    platform = registry.get(registrations.get(delivery.registration_id).platform)
    try:
        return platform.parse(delivery.body or b"").actor.moderator
    except BadPayload:
        return None
