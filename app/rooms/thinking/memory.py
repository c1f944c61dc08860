"""What a bot knows of a room: its own conversation there, as history for the model and as the room that a tool searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.accounts.serviceuser import SENTENCES, Untold
from app.agent import prompt
from app.conversations import store, transcript
from app.conversations.models import RoomMessage
from app.infra.i18n import Sentence, say
from app.llm.base import Message
from app.rooms.thinking import listen, live
from app.rooms.thinking.question import Question
from app.tools.base import FoundMessage

SCOPE = say("Only what people said to this bot in this room, and its answers, can be searched; nothing else is kept.")
LIVE = say("Everything that stands in this room now was searched.")


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
    listen.note_answer(question, text, sources=list(sources))
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
    """What may be searched of one room (tools.base.RoomHistory); the message that is being answered is not found.

    The live history where a service user can read it, else the transcript where it is on, else the bot's own
    conversations there. `scope` is of the last search.
    """

    question: Question
    scope: Sentence = SCOPE

    def search(
        self, query: str, *, limit: int, from_name: str | None, since: datetime | None, until: datetime | None
    ) -> list[FoundMessage]:
        """The messages that fit, best first; what was said before the room was cleared is never among them."""
        place = self.question.place
        since = max(filter(None, (since, place.room.cleared_at)), default=None)
        asked = Wish(query, limit, from_name, since, until)
        problem: Untold | None = None
        if live.reader(place) is not None:
            try:
                return self._live(asked)
            except Untold as error:
                problem = error
        kept_since = transcript.since(place.instance.id, place.room.token)
        found = self._own(asked) if kept_since is None else self._transcript(asked, kept_since)
        if problem is not None:
            why = SENTENCES[problem.reason]
            self.scope = say("The room's history can't be read now: {why}. {scope}", why=why, scope=self.scope)
        return found

    def _live(self, asked: Wish) -> list[FoundMessage]:
        found = live.search(
            self.question.place,
            asked.query,
            limit=asked.limit,
            from_name=asked.from_name,
            since=asked.since,
            until=asked.until,
            without=self.question.event.message_id,
        )
        self.scope = LIVE
        if found.back_to is not None:
            day = self.question.local(found.back_to).strftime("%Y-%m-%d")
            self.scope = say("What was said in this room back to {day} was searched; older messages were not.", day=day)
        return [FoundMessage(each.actor.name or each.actor.id, each.at, each.text) for each in found.messages]

    def _transcript(self, asked: Wish, kept_since: datetime) -> list[FoundMessage]:
        place = self.question.place
        rows = transcript.search(
            place.instance.id,
            place.room.token,
            asked.query,
            limit=asked.limit,
            from_name=asked.from_name,
            since=asked.since,
            until=asked.until,
            without_delivery=self.question.delivery.id,
        )
        day = self.question.local(kept_since).strftime("%Y-%m-%d")
        self.scope = say("What was said here while the room's memory was on, now since {day}, was searched.", day=day)
        return [FoundMessage(row.speaker, row.created_at, row.text) for row in rows]

    def _own(self, asked: Wish) -> list[FoundMessage]:
        place = self.question.place
        rows = store.search(
            self.question.bot.id,
            place.instance.id,
            place.room.token,
            asked.query,
            limit=asked.limit,
            from_name=asked.from_name,
            since=asked.since,
            until=asked.until,
            without_delivery=self.question.delivery.id,
        )
        self.scope = SCOPE
        return [FoundMessage(row.speaker, row.created_at, row.text) for row in rows]


@dataclass(frozen=True)
class Wish:
    """What is searched for; see RoomMemory.search."""

    query: str
    limit: int
    from_name: str | None
    since: datetime | None
    until: datetime | None


def _message(question: Question, row: RoomMessage) -> Message:
    if row.role == "assistant":
        return prompt.answered(row.text)
    name, _, text = (row.quoted or "").partition(": ")
    return prompt.said(
        row.speaker, row.text, at=question.local(row.created_at), quoted=(name, text) if row.quoted else None
    )
