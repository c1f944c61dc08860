"""What a bot knows of a room: its own conversation there, as history for the model and as the room that a tool searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.agent import prompt
from app.conversations import store
from app.conversations.models import RoomMessage
from app.infra.i18n import Sentence, say
from app.llm.base import Message
from app.rooms.thinking.question import Question
from app.tools.base import FoundMessage

SCOPE = say("Only what people said to this bot in this room, and its answers, can be searched; nothing else is kept.")


def messages(question: Question) -> list[Message]:
    """The bot's conversation in this room and thread, oldest first, each message of a person with who said it and when."""
    place = question.place
    rows = store.history(
        question.bot.id,
        place.instance.id,
        place.room.token,
        question.thread,
        since=place.room.cleared_at,
        without_delivery=question.delivery.id,
    )
    return [_message(question, row) for row in rows]


def remember(question: Question) -> None:
    """Stores what was asked, before the model is: a question that failed can be referred to."""
    quoted = question.quoted
    store.say_user(
        question.bot.id,
        question.place.instance.id,
        question.place.room.token,
        question.thread,
        actor=question.event.actor.key,
        speaker=question.speaker,
        text=question.words,
        quoted=None if quoted is None else f"{quoted[0]}: {quoted[1]}",
        message_id=question.event.message_id,
        delivery_id=question.delivery.id,
    )


def remember_answer(question: Question, text: str, *, sources: Sequence[tuple[str, str]], incomplete: bool) -> None:
    """Stores the answer; joins the transaction in which its parts are written."""
    store.say_bot(
        question.bot.id,
        question.place.instance.id,
        question.place.room.token,
        question.thread,
        mention_name=question.bot.mention_name,
        speaker=question.bot.name,
        text=text,
        sources=sources,
        incomplete=incomplete,
        delivery_id=question.delivery.id,
    )


@dataclass
class RoomMemory:
    """The bot's own conversations in one room (tools.base.RoomHistory); the message that is being answered is not found."""

    question: Question
    scope: Sentence = SCOPE

    def search(
        self, query: str, *, limit: int, from_name: str | None, since: datetime | None, until: datetime | None
    ) -> list[FoundMessage]:
        """The messages that fit, best first; what was said before the room was cleared is never among them."""
        place = self.question.place
        rows = store.search(
            self.question.bot.id,
            place.instance.id,
            place.room.token,
            query,
            limit=limit,
            from_name=from_name,
            since=max(filter(None, (since, place.room.cleared_at)), default=None),
            until=until,
            without_delivery=self.question.delivery.id,
        )
        return [FoundMessage(row.speaker, row.created_at, row.text) for row in rows]


def _message(question: Question, row: RoomMessage) -> Message:
    if row.role == "assistant":
        return prompt.answered(row.text)
    name, _, text = (row.quoted or "").partition(": ")
    return prompt.said(
        row.speaker, row.text, at=question.local(row.created_at), quoted=(name, text) if row.quoted else None
    )
