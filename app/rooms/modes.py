"""How a bot responds in a room: when it is mentioned, in threads in which it answered, or always.

At most one bot a room responds always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select, update

from app.bots.models import Bot
from app.conversations.models import RoomMessage
from app.infra import clock
from app.infra.db import insert_once, reading, transaction
from app.infra.errors import BadInput
from app.infra.i18n import say
from app.infra.jobs import table
from app.platforms.base import IncomingEvent
from app.rooms.models import RoomBot
from app.rooms.parts import Place

Mode = Literal["mention", "thread", "always"]
MODES: tuple[Mode, ...] = ("mention", "thread", "always")


@dataclass(frozen=True)
class RoomMode:
    """The mode of one bot in one room, as programs see it."""

    room: str
    bot_id: int
    mode: Mode
    instead_of: str | None = None
    """The mention name of the bot that responded always before."""


def read(text: object) -> Mode:
    """The mode that somebody typed or sent. Raises BadInput."""
    if isinstance(text, str) and text in MODES:
        return text
    sentence = say("The mode is {modes}.", modes=" | ".join(MODES))
    raise BadInput(sentence, fields={"mode": str(sentence)})


def choose(instance_id: int, room: str, *, bot_id: int, mode: Mode) -> RoomMode:
    """Sets the mode; a bot that begins to respond always takes that place from any other in the room."""
    now = clock.now()
    here = (RoomBot.instance_id == instance_id, RoomBot.room == room)
    row = {"instance_id": instance_id, "room": room, "bot_id": bot_id, "response_mode": mode, "updated_at": now}
    lost = loser(instance_id, room, bot_id=bot_id, mode=mode)
    with transaction() as session:
        if mode == "always":
            others = update(RoomBot).where(*here, RoomBot.bot_id != bot_id, RoomBot.response_mode == "always")
            session.execute(others.values(response_mode="mention", updated_at=now))
        if insert_once(session, table(RoomBot), row) is None:
            mine = update(RoomBot).where(*here, RoomBot.bot_id == bot_id)
            session.execute(mine.values(response_mode=mode, updated_at=now))
    return RoomMode(room, bot_id, mode, lost)


def always(instance_id: int, room: str) -> int | None:
    """The bot that responds always in this room; the last chosen one, should two have been chosen in one moment."""
    query = (
        select(RoomBot.bot_id)
        .where(RoomBot.instance_id == instance_id, RoomBot.room == room, RoomBot.response_mode == "always")
        .order_by(RoomBot.updated_at.desc(), RoomBot.id.desc())
        .limit(1)
    )
    with reading() as session:
        return session.scalar(query)


def of(instance_id: int, room: str, bot_id: int) -> Mode:
    """How this bot responds there."""
    here = (RoomBot.instance_id == instance_id, RoomBot.room == room, RoomBot.bot_id == bot_id)
    with reading() as session:
        found = session.scalar(select(RoomBot.response_mode).where(*here))
    return next((mode for mode in MODES if mode == found), "mention")


def loser(instance_id: int, room: str, *, bot_id: int, mode: Mode) -> str | None:
    """The mention name of the bot that no longer responds always when this one begins to; None where there is none."""
    other = always(instance_id, room) if mode == "always" else None
    if other is None or other == bot_id:
        return None
    with reading() as session:
        return session.scalar(select(Bot.mention_name).where(Bot.id == other))


def unmentioned(event: IncomingEvent, place: Place) -> int | None:
    """The bot that a message is for which mentions none and replies to none."""
    room = place.room
    if event.thread:
        follows = _following(room.instance_id, room.token, event.thread)
        if follows is not None:
            return follows
    return always(room.instance_id, room.token)


def _following(instance_id: int, room: str, thread: int) -> int | None:
    """The bot that answered last in this thread, among those that follow threads here."""
    here = (RoomBot.instance_id == instance_id, RoomBot.room == room, RoomBot.response_mode == "thread")
    spoke = (RoomMessage.instance_id == instance_id, RoomMessage.room == room, RoomMessage.thread == thread)
    last = (
        select(RoomMessage.bot_id)
        .join(RoomBot, RoomBot.bot_id == RoomMessage.bot_id)
        .where(*here, *spoke, RoomMessage.role == "assistant")
        .order_by(RoomMessage.id.desc())
        .limit(1)
    )
    with reading() as session:
        return session.scalar(last)
