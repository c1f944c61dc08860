"""Orders to a bot: found in what is left of a message without the bot's name, and carried out."""

from __future__ import annotations

from app.bots.resolve import Addressed
from app.platforms.base import IncomingEvent
from app.rooms.parts import Place, Said
from app.rooms.thinking.question import Question


def for_all(event: IncomingEvent, place: Place) -> Addressed | None:
    """Whom an order is for that names no bot, such as ((RESET)); None for any other message."""
    return None


def carried_out(question: Question) -> Said | None:
    """Carries out the order that the message is, and gives what is said of it; None for a message that is none."""
    return None
