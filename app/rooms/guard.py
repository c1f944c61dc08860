"""What is decided before a model is asked: who is not answered at all, and what is said instead of an answer.

Every guard gives a reason, so that a silence can always be explained.
"""

from __future__ import annotations

import unicodedata
from datetime import timedelta

from sqlalchemy import ColumnElement, select

from app.bots.access import Access
from app.bots.models import Bot
from app.bots.resolve import Addressed
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import reading
from app.infra.i18n import Sentence, say
from app.platforms.base import IncomingEvent
from app.rooms import members
from app.rooms.models import Answer
from app.rooms.parts import Place, Said
from app.settings import store
from app.traces.models import TurnTrace

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
# Nobody's accounts: what the server itself writes under these names.
NOBODIES = frozenset({"guests/cli", "guests/changelog", "guests/system", "guests/sample"})
OUTSIDERS = frozenset({"guests", "emails", "federated_users"})


def silence(event: IncomingEvent, place: Place, delivery: Delivery) -> Reason | None:
    """Why a message is not answered, whoever it mentions; None when it may be."""
    author = event.actor
    if author.key == f"bots/bot-{place.registration.actor_hash}":
        return Reason.OWN_MESSAGE
    service_uid = unicodedata.normalize("NFC", place.instance.service_uid or "")
    if author.kind == "users" and author.id == service_uid:
        return Reason.SERVICE_USER
    if author.kind in ("bots", "bridged", "deleted_users", "unknown") or author.key in NOBODIES:
        return Reason.BOT_MESSAGE
    if not event.text.strip() and not event.files:
        return Reason.EMPTY
    if place.room.cleared_at is not None and delivery.received_at < place.room.cleared_at:
        return Reason.CLEARED
    return None if members.stays(delivery, place.room) else Reason.ROOM_LEFT


def nobody(addressed: Addressed) -> Reason:
    """Why no bot is to answer."""
    if addressed.elsewhere:
        return Reason.NOT_HERE
    return Reason.UNKNOWN_NAME if addressed.unknown else Reason.UNMENTIONED


def prefix(bot: Bot, place: Place, *, alone: bool) -> str:
    """The bot's name, where another of the registration's bots is addressed too or spoke within the hour (K5)."""
    registration = place.registration
    if not registration.shared:
        return ""
    since = clock.now() - HOUR
    if alone and not members.others_spoke(place.room, registration.id, bot_id=bot.id, since=since):
        return ""
    return f"**{' '.join(bot.name.split())}:** "


def refused(rights: Access, event: IncomingEvent, place: Place, *, first: bool) -> Said:
    """What somebody is told who may not use the bot, unless they were told today already (K5)."""
    if not first:
        return Said("", Reason.OUTSIDER if event.actor.kind in OUTSIDERS else Reason.DENIED)
    reason = Reason.TOLD_UNSURE if rights.kind == "unknown" else Reason.TOLD_DENIED
    return Said(rights.sentence.text(place.language), reason)


def empty(bot: Bot, text: str, event: IncomingEvent, place: Place) -> Said | None:
    """A mention and nothing but punctuation gets one line of help; a quoted message or a file is something to answer."""
    if event.files or event.parent is not None or any(unicodedata.category(char)[0] not in "PZC" for char in text):
        return None
    name = f'"{bot.mention_name}"' if " " in bot.mention_name else bot.mention_name
    line = say("I am {bot}. Write your question in the same message as my name: @{name} ...", bot=bot.name, name=name)
    return Said(line.text(place.language), Reason.ANSWERED)


def limited(delivery: Delivery, answer: Answer, place: Place) -> Said | None:
    """Too many turns in this minute, in the room or of this person: told once a minute, with the waiting time."""
    limits = store.several("turns_per_room_minute", "turns_per_person_minute")
    here = (TurnTrace.instance_id == delivery.instance_id, TurnTrace.delivery_id != delivery.id)
    room = _seconds_left(*here, TurnTrace.room == delivery.room, most=limits["turns_per_room_minute"])
    person = _seconds_left(*here, TurnTrace.actor == delivery.actor, most=limits["turns_per_person_minute"])
    if not room and not person:
        return None
    if _told_lately(delivery, answer):
        return Said("", Reason.TOLD_LIMIT)
    sentence = (
        _room_waits(limits["turns_per_room_minute"], room)
        if room >= person
        else _person_waits(limits["turns_per_person_minute"], person)
    )
    return Said(sentence.text(place.language), Reason.TOLD_LIMIT)


def _room_waits(most: int, seconds: int) -> Sentence:
    return say(
        "This room has used its {most} answers a minute. Please ask again in {seconds} seconds.",
        most=most,
        seconds=seconds,
    )


def _person_waits(most: int, seconds: int) -> Sentence:
    return say(
        "You have used your {most} answers a minute. Please ask again in {seconds} seconds.", most=most, seconds=seconds
    )


def _seconds_left(*where: ColumnElement[bool], most: int) -> int:
    """Seconds until one of the last `most` turns is a minute old; 0 when there were fewer."""
    now = clock.now()
    recent = select(TurnTrace.started_at).where(*where, TurnTrace.started_at > now - MINUTE)
    with reading() as session:
        starts = session.scalars(recent.order_by(TurnTrace.started_at.desc()).limit(most)).all()
    if len(starts) < most:
        return 0
    return max(1, round((starts[-1] + MINUTE - now).total_seconds()))


def _told_lately(delivery: Delivery, answer: Answer) -> bool:
    query = (
        select(Answer.id)
        .join(Delivery, Delivery.id == Answer.delivery_id)
        .where(Delivery.instance_id == delivery.instance_id, Delivery.room == delivery.room)
        .where(Delivery.actor == delivery.actor, Answer.id != answer.id)
        .where(Answer.reason == Reason.TOLD_LIMIT.value, Answer.created_at > clock.now() - MINUTE)
    )
    with reading() as session:
        return session.scalar(query.limit(1)) is not None
