"""What is kept of a message whoever it is for: nothing, unless a moderator switched the room's transcript on."""

from __future__ import annotations

from app.conversations import transcript
from app.inbox.models import Delivery
from app.platforms.base import IncomingEvent
from app.rooms.parts import Place
from app.rooms.thinking.question import Question


def note(event: IncomingEvent, place: Place, delivery: Delivery) -> None:
    """Keeps a person's message in the transcript, where it is on."""
    room = place.room
    if transcript.since(room.instance_id, room.token) is None:
        return
    transcript.note(
        room.instance_id,
        room.token,
        delivery_id=delivery.id,
        actor=event.actor.key,
        speaker=event.actor.name.strip() or event.actor.id,
        text=event.text,
        thread=event.thread or 0,
        message_id=event.message_id,
    )


def note_answer(question: Question, text: str, *, sources: list[tuple[str, str]]) -> None:
    """Keeps a bot's answer in the transcript, where it is on; joins the transaction in which its parts are written."""
    room = question.place.room
    transcript.note(
        room.instance_id,
        room.token,
        delivery_id=question.delivery.id,
        actor=f"bots/{question.bot.mention_name}",
        speaker=question.bot.name,
        text=text,
        thread=question.thread,
        sources=sources,
    )
