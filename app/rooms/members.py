"""Who is in a room and who spoke there, as far as it is known."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, select

from app.accounts import directory, instances, people, serviceuser
from app.accounts.audience import Audience, Principal
from app.accounts.serviceuser import Untold
from app.bots.models import Bot
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.caches.bounded import Bounded
from app.infra.db import reading
from app.infra.errors import BadInput
from app.platforms import registrations, registry, rooms
from app.platforms.base import Actor, BadPayload, Reader
from app.platforms.models import Room, RoomBinding
from app.rooms.models import Part
from app.rooms.neutral import digest

log = logging.getLogger(__name__)

RECENT = 5
MEMBER_SECONDS = 60.0
EXPAND_SECONDS = 15.0
MOST_SETS = 50
# Why a group or team may not be looked into by this service user, whatever else it may.
CLOSED = ("forbidden", "missing", "unknown_route", "too_large")
MembersKey = tuple[int, str, str, str]
MEMBERS: Bounded[MembersKey, frozenset[Principal]] = Bounded(
    entries=500, weight=100_000, seconds=MEMBER_SECONDS, weigh=lambda members: len(members) + 1
)
STOOD = ("sent", "sending", "unknown")


def audience(room: Room, actor: Actor) -> Audience:
    """Everyone who will read an answer in the room: its members now, and the actor (product.md K3).

    Not complete, and then the actor alone, where nobody tells who is in it. Sets of people are expanded where the server
    lets us; one that it does not open stays in as itself, beside those of its people whom the room lists. The service
    user is no reader: it is us. Talks to the network: never inside a block.
    """
    speaker = Principal(room.instance_id, actor.kind, actor.id)
    try:
        members = _members(room)
    except Untold as error:
        log.info("who is in room %s is unknown: %s", room.id, error.reason)
        return Audience(frozenset({speaker}), complete=False)
    return Audience(members | {speaker}, complete=True)


def confirm(bots: Sequence[Bot], actor: Actor, instance_id: int) -> None:
    """Asks for the actor's groups and teams, where a bot is for some and they are older than a minute.

    What the server does not tell stays unknown. Talks to the network: never inside a block.
    """
    if actor.kind != "users" or not any(bot.scope in (directory.GROUPS, directory.TEAMS) for bot in bots):
        return
    try:
        person = people.ensure(instance_id, actor.id, actor.name)
    except BadInput:
        return
    directory.refresh(person.id)


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
        rooms.bind(room.id, delivery.registration_id, at=delivery.received_at)
    return True


def moderates(room: Room, actor_key: str) -> bool:
    """True when this person's last message in the room was a moderator's, and no role has changed since.

    The server tells the role with each message that it sends and in no other way, so that recovered messages say nothing
    here; `actor_key` is as in users/ada.
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


def _members(room: Room) -> frozenset[Principal]:
    """The members, asked for at most once a minute, and again as soon as one came or went. Raises Untold."""
    instance, now = instances.get(room.instance_id), rooms.get(room.instance_id, room.token)
    reader = _reader(room.instance_id)
    if instance is None or now is None or reader is None or not serviceuser.exists(instance):
        raise Untold("no_service_user")
    # The changes of the room and of the service user are part of the key: what they made stale is never found again.
    changed = now.members_changed_at.isoformat() if now.members_changed_at else ""
    key = (now.id, now.created_at.isoformat(), changed, f"{instance.url} {instance.service_secret}")
    kept = MEMBERS.get(key)
    if kept is not None:
        return kept
    asked_at = clock.monotonic()
    found = _expanded(reader, room.instance_id, reader.participants(room.instance_id, room.token))
    members = frozenset(
        Principal(room.instance_id, each.kind, each.id)
        for each in found
        if (each.kind, each.id) != ("users", instance.service_uid)
    )
    MEMBERS.put(key, members, asked_at=asked_at)
    return members


def _expanded(reader: Reader, instance_id: int, participants: Sequence[Actor]) -> list[Actor]:
    """Everyone in the list, and who is in its groups and teams; a set that nobody opens stays as itself. Raises Untold."""
    found: dict[tuple[str, str], Actor] = {}
    seen: set[tuple[str, str]] = set()
    waiting, asked = list(participants), 0
    end = clock.monotonic() + EXPAND_SECONDS
    while waiting:
        each = waiting.pop()
        if (each.kind, each.id) in seen or each.kind == "bots":
            continue
        seen.add((each.kind, each.id))
        found[each.kind, each.id] = each
        if each.kind not in (directory.GROUPS, directory.TEAMS) or asked >= MOST_SETS or clock.monotonic() > end:
            continue
        asked += 1
        try:
            waiting += reader.members(instance_id, each.kind, each.id)
        except Untold as error:
            if error.reason not in CLOSED:
                raise
            continue
        del found[each.kind, each.id]
    return list(found.values())


def _reader(instance_id: int) -> Reader | None:
    kinds = dict.fromkeys(each.platform for each in registrations.of_instance(instance_id))
    return next(filter(None, map(registry.reader, kinds)), None)


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
