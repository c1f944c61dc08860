"""The questions that a bot asks in a room before it answers there for the first time."""

from __future__ import annotations

from app.platforms.base import IncomingEvent
from app.rooms.parts import Pause, Place, Said
from app.rooms.thinking.question import Question


def awaits(event: IncomingEvent, place: Place) -> int | None:
    """The bot that waits for this person's answer in this room and thread."""
    return None


def restart(question: Question) -> Said | Pause | None:
    """Begins the questions again; None where the bot has none."""
    return None


def forget(instance_id: int, room: str, bot_id: int) -> None:
    """Forgets what was asked and answered in a room, and whatever is being asked."""


def next_step(question: Question) -> Said | Pause | None:
    """The first or the next question, or what is said at the end; None where the bot has nothing (more) to ask."""
    return None
