"""What the chat system tells about a room besides messages: noted where it matters, never answered.

To handle another system event: one line in EVENTS (nextcloud.md 11 lists their names) and the function that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from sqlalchemy import select, update

from app.accounts.serviceuser import Untold
from app.conversations import expiry, store, transcript
from app.inbox import blank
from app.inbox.base import Verdict
from app.inbox.models import MESSAGES, RECOVERED, Delivery
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import reading, transaction
from app.platforms import rooms
from app.platforms.base import IncomingEvent
from app.rooms import parts
from app.rooms.models import Answer
from app.rooms.onboarding import rounds
from app.rooms.parts import Place
from app.rooms.thinking import live
from app.settings import store as settings

DELETED_WITHIN = timedelta(hours=1)
# What the server writes when expiration is set: "... set the message expiration to 4 weeks".
EXPIRATION = re.compile(r"\b(\d{1,5}) (minute|hour|day|week)s?\b")
UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
SHORTEST_SECONDS = 3600


def noted(event: IncomingEvent, place: Place, delivery: Delivery) -> Verdict | None:
    """Notes an event that is no message, and closes it; None for a message.

    What counts is when it was told, not when a worker came to it: messages that came after it belong to the time after it.
    """
    if event.kind == "message":
        return None
    if event.kind == "join":
        rooms.bind(place.room.id, place.registration.id, at=delivery.received_at)
        return Verdict("done", Reason.JOINED)
    if event.kind == "leave":
        rooms.unbind(place.room.id, place.registration.id, at=delivery.received_at)
        rounds.leave(place.room.instance_id, place.room.token, place.registration.id)
        return Verdict("done", Reason.LEFT)
    if event.kind in ("reaction", "unreaction"):
        return Verdict("ignored", Reason.OWN_REACTION if _is_ours(event, place) else Reason.REACTION)
    handler = EVENTS.get(event.name) if event.kind == "system" else None
    if handler is not None:
        handler(event, place, delivery)
        return Verdict("done", Reason.RECORDED, event.name)
    return Verdict("ignored", Reason.SYSTEM if event.kind == "system" else Reason.UNKNOWN_EVENT, event.name)


def _is_ours(event: IncomingEvent, place: Place) -> bool:
    """Talk tells our own reactions as those of whoever wrote the message: known by the emoji and by what we worked on."""
    if event.reaction != settings.get("heard_emoji") or event.object_id is None:
        return False
    heard = (
        select(Answer.id)
        .join(Delivery, Delivery.id == Answer.delivery_id)
        .where(Delivery.instance_id == place.room.instance_id, Delivery.room == place.room.token)
        .where(Delivery.object_id == event.object_id)
    )
    with reading() as session:
        return session.scalar(heard.limit(1)) is not None


def _members_changed(event: IncomingEvent, place: Place, delivery: Delivery) -> None:
    rooms.members_changed(place.room.instance_id, place.room.token)


def _renamed(event: IncomingEvent, place: Place, delivery: Delivery) -> None:
    rooms.seen(place.room.instance_id, place.room.token, event.room_name, event.one_to_one)


def _history_cleared(event: IncomingEvent, place: Place, delivery: Delivery) -> None:
    """Whatever was said before is gone, and so is all that we kept of it.

    A room's events are worked in order, so that all that is kept by now was said before; but one that was recovered
    came late, and what was kept since then stays.
    """
    room = place.room
    before = delivery.received_at if delivery.kind == RECOVERED else clock.now()
    rooms.cleared(room.instance_id, room.token, at=delivery.received_at)
    store.erase(room.instance_id, room=room.token, before=before)
    transcript.erase(room.instance_id, room=room.token, before=before)
    parts.blank(room.instance_id, room.token, before=before)
    rounds.forget(room.instance_id, room.token)
    blank.room(room.instance_id, delivery.room, before_id=delivery.id, before=before)


def _message_deleted(event: IncomingEvent, place: Place, delivery: Delivery) -> None:
    """The event doesn't say which message (product.md K10): the last hour is read again where a service user may.

    Else, and of what the room's list can't tell, whatever the event's actor said in the last hour is blanked.
    """
    room, since = place.room, delivery.received_at - DELETED_WITHIN
    try:
        standing = live.standing(place, since=since)
    except Untold:
        store.blank(room.instance_id, room.token, actor=event.actor.key, since=since)
        transcript.blank(room.instance_id, room.token, actor=event.actor.key, since=since)
        rounds.unsay(room.instance_id, room.token, since=since, gone=lambda actor, _: actor == delivery.actor)
        _blank_bodies(delivery, since, lambda actor, _: actor == delivery.actor)
        return
    store.blank_gone(room.instance_id, room.token, since=since, gone=standing.lacks)
    transcript.blank_gone(room.instance_id, room.token, since=since, gone=standing.lacks)
    rounds.unsay(room.instance_id, room.token, since=since, gone=lambda _, id: standing.lacks(id))
    _blank_bodies(delivery, since, lambda _, id: id.isdecimal() and standing.lacks(int(id)))


def _blank_bodies(delivery: Delivery, since: datetime, wanted: Callable[[str, str], bool]) -> None:
    """Blanks the raw bodies of messages since then; `wanted` is asked with the actor and the message's id."""
    here = (Delivery.instance_id == delivery.instance_id, Delivery.room == delivery.room)
    earlier = (Delivery.received_at >= since, Delivery.id < delivery.id, Delivery.kind.in_(MESSAGES))
    # One that still waits for its answer keeps its text until then.
    over = (Delivery.finished_at.is_not(None), Delivery.body.is_not(None))
    with transaction() as session:
        rows = session.execute(select(Delivery.id, Delivery.actor, Delivery.object_id).where(*here, *earlier, *over))
        ids = [id for id, actor, object_id in rows if wanted(actor, object_id or "")]
        session.execute(update(Delivery).where(Delivery.id.in_(ids)).values(body=None))


def _expiration_set(event: IncomingEvent, place: Place, delivery: Delivery) -> None:
    found = EXPIRATION.search(event.text)
    seconds = int(found[1]) * UNIT_SECONDS[found[2]] if found else SHORTEST_SECONDS
    expiry.set_expiration(place.room.instance_id, place.room.token, max(seconds, 1))


def _expiration_ended(event: IncomingEvent, place: Place, delivery: Delivery) -> None:
    expiry.set_expiration(place.room.instance_id, place.room.token, None)


MEMBERSHIP = (
    *("user_added", "user_removed", "group_added", "group_removed", "circle_added", "circle_removed"),
    *("federated_user_added", "federated_user_removed", "phone_added", "phone_removed"),
    *("guests_allowed", "guests_disallowed", "moderator_promoted", "moderator_demoted"),
    *("guest_moderator_promoted", "guest_moderator_demoted"),
)
EVENTS: Mapping[str, Callable[[IncomingEvent, Place, Delivery], None]] = {
    **dict.fromkeys(MEMBERSHIP, _members_changed),
    "conversation_renamed": _renamed,
    "history_cleared": _history_cleared,
    "message_deleted": _message_deleted,
    "message_expiration_enabled": _expiration_set,
    "message_expiration_disabled": _expiration_ended,
}
