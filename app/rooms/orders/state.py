"""How a room stands, as programs and pages see it: its bots and their modes, its memory, its language."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from app.bots.models import Bot
from app.conversations import transcript
from app.inbox.models import Delivery
from app.infra.db import reading
from app.platforms import registrations, rooms
from app.platforms.models import Room
from app.rooms import modes
from app.rooms.modes import Mode

MOST = 500


@dataclass(frozen=True)
class RoomBotState:
    """A bot in a room, by its mention name."""

    id: int
    mention_name: str
    mode: Mode


@dataclass(frozen=True)
class RoomState:
    """One room. `memory_since`: everything that is written there is kept since then; None: only what bots are asked."""

    token: str
    name: str
    one_to_one: bool
    language: str | None
    memory_since: datetime | None
    last_message_at: datetime | None
    bots: tuple[RoomBotState, ...]


def listed(instance_id: int) -> list[RoomState]:
    """The rooms of an instance, by name."""
    with reading() as session:
        found = select(Room).where(Room.instance_id == instance_id).order_by(Room.name, Room.id).limit(MOST)
        known = session.scalars(found).all()
    return [of(room) for room in known]


def of(room: Room) -> RoomState:
    """One room with its bots."""
    here = (Delivery.instance_id == room.instance_id, Delivery.room == room.token, Delivery.kind == "message")
    with reading() as session:
        last = session.scalar(select(func.max(Delivery.received_at)).where(*here))
    return RoomState(
        room.token,
        room.name,
        room.one_to_one,
        room.language,
        transcript.since(room.instance_id, room.token),
        last,
        tuple(
            RoomBotState(bot.id, bot.mention_name, modes.of(room.instance_id, room.token, bot.id))
            for bot in _bots(room)
        ),
    )


def _bots(room: Room) -> list[Bot]:
    """The bots of the registrations that are in the room."""
    bound = [registrations.get(id) for id in rooms.bound(room.id)]
    shared = any(registration.shared for registration in bound)
    own = {registration.id for registration in bound}
    with reading() as session:
        active = select(Bot).where(Bot.instance_id == room.instance_id, Bot.is_active).order_by(Bot.mention_name)
        found = session.scalars(active).all()
    return [bot for bot in found if bot.registration_id in own or (shared and bot.registration_id is None)]
