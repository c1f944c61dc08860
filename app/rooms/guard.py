"""What is decided before a model is asked: who is not answered at all, and what is said instead of an answer.

Every guard gives a reason, so that a silence can always be explained.
"""

from __future__ import annotations

import unicodedata
from datetime import timedelta

from app.bots.access import Access
from app.bots.models import Bot
from app.bots.resolve import Addressed
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.i18n import say
from app.platforms.base import IncomingEvent
from app.rooms import members
from app.rooms.parts import Place, Said
from app.rooms.thinking.question import Question

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
# Nobody's accounts: what the server itself writes under these names.
NOBODIES = frozenset({"guests/cli", "guests/changelog", "guests/system", "guests/sample"})
OUTSIDERS = frozenset({"guests", "emails", "federated_users"})


def silence(event: IncomingEvent, place: Place, delivery: Delivery) -> Reason | None:
    """Why a message is not answered, whoever it mentions; None when it may be."""
    reason = unanswerable(event, place)
    if reason is not None:
        return reason
    if not event.text.strip() and not event.files:
        return Reason.EMPTY
    if place.room.cleared_at is not None and delivery.received_at < place.room.cleared_at:
        return Reason.CLEARED
    return None if members.stays(delivery, place.room) else Reason.ROOM_LEFT


def unanswerable(event: IncomingEvent, place: Place) -> Reason | None:
    """Why whoever wrote a message is never answered; None for a person."""
    author = event.actor
    if author.key == f"bots/bot-{place.registration.actor_hash}":
        return Reason.OWN_MESSAGE
    service_uid = unicodedata.normalize("NFC", place.instance.service_uid or "")
    if author.kind == "users" and author.id == service_uid:
        return Reason.SERVICE_USER
    if author.kind in ("bots", "bridged", "deleted_users", "unknown") or author.key in NOBODIES:
        return Reason.BOT_MESSAGE
    return None


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


def empty(question: Question) -> Said | None:
    """A mention and nothing but punctuation gets one line of help; a quoted message or a file is something to answer."""
    bot, event, text = question.bot, question.event, question.text
    if event.files or event.parent is not None or any(unicodedata.category(char)[0] not in "PZC" for char in text):
        return None
    name = f'"{bot.mention_name}"' if " " in bot.mention_name else bot.mention_name
    line = say(
        "I am {bot}. Write your question in the same message as my name: `@{name} ...`; `@{name} help` tells more.",
        bot=bot.name,
        name=name,
    )
    return Said(line.text(question.place.language), Reason.ANSWERED)
