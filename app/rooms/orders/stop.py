"""Stopping an answer that is being made, or that waits.

A room's messages are worked one after the other, so the order to stop would come too late: `overtake` looks for it while
another worker has the room. Only whoever asked may stop an answer, and a moderator, told with the signed message itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from app.bots import mentions
from app.bots.models import Bot
from app.conversations import cancel
from app.inbox import claim
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra.db import reading
from app.infra.i18n import Sentence, say
from app.platforms import registrations, registry
from app.platforms.base import BadPayload, IncomingEvent
from app.rooms.models import Answer
from app.rooms.orders import words
from app.rooms.thinking.question import Question

UNFINISHED = ("claimed", "running")
# More than these are no order to stop, and a room that is flooded must not cost more than its messages.
LOOKED_AT = 20
LONGEST_BODY = 16 * 1024
STOPPED = say("Stopped.")
NOTHING = say("There is nothing that I could stop.")
NOT_YOURS = say("Only whoever asked, or a moderator, can stop that.")


def overtake(instance_id: int, room: str) -> None:
    """Looks at the messages that wait behind the one that is worked, and stops it where one of them says so."""
    running, queued = _rows(instance_id, room)
    if running is None:
        return
    for delivery in queued:
        event = _event(delivery)
        if event is not None and _stops(event, delivery, running):
            cancel.request(running.id)
            return


def stopped(question: Question, *, moderates: bool) -> Sentence:
    """What the order itself is answered with: whatever it stopped has ended by now; what waits is stopped here."""
    delivery, bot = question.delivery, question.bot
    waiting = [each for each in _waiting(delivery) if bot.id in _asked(each)]
    mine = [each for each in waiting if moderates or each.actor == delivery.actor]
    for each in mine:
        cancel.request(each.id)
        claim.give_up(each.id, Reason.STOPPED)
    if mine or _was_stopped(delivery):
        return STOPPED
    return NOT_YOURS if waiting else NOTHING


def _stops(event: IncomingEvent, delivery: Delivery, running: Delivery) -> bool:
    if event.kind != "message" or event.files or delivery.registration_id != running.registration_id:
        return False
    if delivery.actor != running.actor and event.actor.moderator is not True:
        return False
    bots = _bots(_asked(running))
    found = mentions.find(event, [bot.mention_name for bot in bots])
    named = [bot for bot in bots if bot.mention_name in found.names]
    return any(words.read(found.text_for(bot.mention_name)) == words.Order("stop") for bot in named)


def _rows(instance_id: int, room: str) -> tuple[Delivery | None, Sequence[Delivery]]:
    here = (Delivery.instance_id == instance_id, Delivery.room == room)
    with reading() as session:
        running = session.scalars(select(Delivery).where(*here, Delivery.state.in_(UNFINISHED))).first()
        if running is None:
            return None, ()
        behind = (Delivery.state == "queued", Delivery.id > running.id, Delivery.kind == "message")
        newest = select(Delivery).where(*here, *behind).order_by(Delivery.id.desc()).limit(LOOKED_AT)
        return running, session.scalars(newest).all()


def _event(delivery: Delivery) -> IncomingEvent | None:
    if delivery.body is None or len(delivery.body) > LONGEST_BODY:
        return None
    try:
        return registry.get(registrations.get(delivery.registration_id).platform).parse(delivery.body)
    except (BadPayload, LookupError):
        return None


def _asked(delivery: Delivery) -> list[int]:
    """The bots that owe this delivery an answer."""
    with reading() as session:
        return list(session.scalars(select(Answer.bot_id).where(Answer.delivery_id == delivery.id)))


def _bots(ids: Sequence[int]) -> list[Bot]:
    with reading() as session:
        return list(session.scalars(select(Bot).where(Bot.id.in_(ids))))


def _waiting(delivery: Delivery) -> Sequence[Delivery]:
    """What was asked in this room before and waits for a limit or for somebody."""
    here = (Delivery.instance_id == delivery.instance_id, Delivery.room == delivery.room, Delivery.id < delivery.id)
    waits = (Delivery.state == "waiting") | (
        (Delivery.state == "queued") & (Delivery.reason == Reason.LIMIT_WAIT.value)
    )
    with reading() as session:
        return session.scalars(select(Delivery).where(*here, waits)).all()


def _was_stopped(delivery: Delivery) -> bool:
    """Whether the message before this one ended because somebody stopped it."""
    here = (Delivery.instance_id == delivery.instance_id, Delivery.room == delivery.room, Delivery.id < delivery.id)
    newest = select(Delivery.id, Delivery.reason).where(*here, Delivery.kind == "message")
    with reading() as session:
        rows = session.execute(newest.order_by(Delivery.id.desc()).limit(LOOKED_AT)).all()
    return any(reason == Reason.STOPPED.value and cancel.requested(id) for id, reason in rows)
