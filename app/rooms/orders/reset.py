"""((RESET)): a bot forgets what was said to it in a room. A moderator resets all of it, anybody else their own part."""

from __future__ import annotations

from sqlalchemy import select

from app.bots import access
from app.bots.models import Bot
from app.bots.resolve import Addressed
from app.conversations import store
from app.conversations.models import RoomMessage
from app.inbox.reasons import Reason
from app.infra.db import reading
from app.infra.i18n import say
from app.platforms.base import IncomingEvent
from app.rooms.onboarding import asking
from app.rooms.orders import words
from app.rooms.parts import Place, Said
from app.rooms.thinking.question import Question


def addressed(event: IncomingEvent, place: Place) -> Addressed | None:
    """The one bot that answers a ((RESET)) which names none, for all that have something to forget; None where it names
    one, which is then addressed like by any mention."""
    if words.RESET.sub("", event.text, count=1).strip():
        return None
    bots = remembering(event, place)
    return Addressed((bots[0],), event.text, how="mention") if bots else None


def remembering(event: IncomingEvent, place: Place) -> list[Bot]:
    """The registration's bots that remember something of this room and that the person may use."""
    room, registration = place.room, place.registration
    spoken = select(RoomMessage.bot_id).where(
        RoomMessage.instance_id == room.instance_id, RoomMessage.room == room.token
    )
    mine = {registration.id, None} if registration.shared else {registration.id}
    with reading() as session:
        query = select(Bot).where(Bot.instance_id == room.instance_id, Bot.id.in_(spoken.distinct()))
        found = [bot for bot in session.scalars(query.order_by(Bot.id)) if bot.registration_id in mine]
    rights = access.each(found, event.actor, room.instance_id)
    return [bot for bot, decision in zip(found, rights, strict=True) if decision.allowed]


def done(question: Question, *, everybody: bool) -> Said:
    """What is said, and what is forgotten with it: by every bot where the order named none."""
    room, place = question.place.room, question.place
    named = bool(words.RESET.sub("", question.event.text, count=1).strip())
    bots = [question.bot] if named else remembering(question.event, place) or [question.bot]
    ids = [bot.id for bot in bots]
    actor = None if everybody else question.event.actor.key

    def forget() -> None:
        for id in ids:
            store.erase(room.instance_id, room=room.token, bot_id=id, actor=actor)
            if everybody:
                asking.forget(room.instance_id, room.token, id)

    names = ", ".join(f"@{bot.mention_name}" for bot in bots)
    if not _has_any(question, ids, actor):
        sentence = say("There was nothing to forget ({bots}).", bots=names)
    elif everybody:
        sentence = say("Everything that was said here to {bots}, and their answers, is forgotten.", bots=names)
    else:
        sentence = say(
            "What you said here to {bots}, and the answers to it, is forgotten. A moderator can reset it for everybody.",
            bots=names,
        )
    return Said(sentence.text(place.language), Reason.COMMAND, forget)


def _has_any(question: Question, ids: list[int], actor: str | None) -> bool:
    room = question.place.room
    here = (RoomMessage.instance_id == room.instance_id, RoomMessage.room == room.token, RoomMessage.bot_id.in_(ids))
    mine = () if actor is None else (RoomMessage.actor == actor,)
    with reading() as session:
        return session.scalar(select(RoomMessage.id).where(*here, *mine).limit(1)) is not None
