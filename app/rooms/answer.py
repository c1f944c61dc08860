"""A delivery becomes answers in a room: the table of contents of the flow that everything here serves.

Read the event; note what the platform only tells; leave unanswered who is not to be answered; find the bots that are
addressed; for each of them, in order: decide what it says (a notice, or what the loop found), write its parts, send
them; and close.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.accounts import instances
from app.bots import access, notices, resolve, store
from app.bots.models import Bot
from app.bots.resolve import Addressed
from app.bots.review.version import effective
from app.inbox import claim
from app.inbox.base import End, Verdict
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra.db import transaction
from app.infra.errors import NotFound
from app.infra.i18n import say
from app.platforms import registrations, registry, rooms
from app.platforms.base import BadPayload, IncomingEvent
from app.rooms import deliver, events, guard, members, modes, parts, waiting
from app.rooms.deliver import Sent
from app.rooms.heard import heard
from app.rooms.models import Answer
from app.rooms.onboarding import asking as onboarding
from app.rooms.orders import carry_out as orders
from app.rooms.parts import Pause, Place, Said
from app.rooms.thinking import listen
from app.rooms.thinking import run as thinking
from app.rooms.thinking.question import Question

log = logging.getLogger(__name__)

Renew = Callable[[], bool]

APOLOGY = say("I am sorry: this message could not be answered, also after several attempts. Please ask again.")
OVER = ("done", "failed", "unknown")
UNTOLD = frozenset({Reason.DENIED, Reason.OUTSIDER})
# What a delivery is closed with when its bots ended differently: the first of these that one of them has.
TELLING = (Reason.TOLD_ERROR, Reason.TOLD_LIMIT, Reason.ANSWERED_INCOMPLETE, Reason.ANSWERED, Reason.STOPPED)


@dataclass(frozen=True)
class Asked:
    """A message for bots: its delivery, what it says, where it was said, and whom it addresses."""

    delivery: Delivery
    event: IncomingEvent
    place: Place
    addressed: Addressed


def handle(delivery: Delivery, *, renew: Renew) -> Verdict:
    """Works one accepted event to its verdict (inbox.base.Handler). Raises only what another try may mend."""
    owed = _owed(delivery)
    read = _read(delivery)
    if isinstance(read, Verdict):
        return read
    event, place = read
    noted = events.noted(event, place, delivery)
    if noted is not None:
        return noted
    silence = guard.silence(event, place, delivery)
    if silence is not None:
        return Verdict("ignored", silence)
    listen.note(event, place, delivery)
    addressed = orders.for_all(event, place) or _addressed(event, place)
    bots = [*addressed.bots, *(bot for bot, _ in addressed.denied)]
    answers = owed or parts.owe(delivery.id, [bot.id for bot in bots])
    if not answers:
        return Verdict("ignored", guard.nobody(addressed))
    return _answered(Asked(delivery, event, place, addressed), answers, renew)


def _owed(delivery: Delivery) -> Sequence[Answer]:
    """What stands from an earlier try; all of it is over, and this the first one: an operator wants it answered again."""
    owed = parts.owed(delivery.id)
    if not owed or delivery.attempts or any(answer.state not in OVER for answer in owed):
        return owed
    # Whoever slept since its claim would undo here what another worker has done meanwhile.
    with transaction():
        return parts.reopen(delivery.id) if claim.holds(delivery) else owed


def apologise(delivery: Delivery) -> Verdict | None:
    """Tells the room in one sentence that a message for a bot could not be answered (inbox.base.Apology)."""
    read = _read(delivery)
    if isinstance(read, Verdict) or not _may_be_told(*read, delivery):
        return None
    event, place = read
    ends: list[Sent] = []
    for answer in parts.owed(delivery.id) or parts.owe(delivery.id, [bot.id for bot in _whom(event, place)]):
        parts.write(answer, place, Said(APOLOGY.text(place.language), Reason.APOLOGISED))
        ends.append(deliver.send(answer.id, place, renew=lambda: True))
    verdict = _verdict(ends, parts.turn_of(delivery.id)) if ends else None
    told = any(sent.reason == Reason.APOLOGISED for sent in ends)
    return None if verdict is None or (told and verdict.state != "later") else verdict


def _may_be_told(event: IncomingEvent, place: Place, delivery: Delivery) -> bool:
    """False for what no bot answers anyway; who wrote it is enough where the whole question is what failed."""
    if event.kind != "message":
        return False
    try:
        return guard.silence(event, place, delivery) is None
    except Exception:
        log.exception("whether the delivery %s may be answered could not be told", delivery.id)
        return guard.unanswerable(event, place) is None


def _whom(event: IncomingEvent, place: Place) -> Sequence[Bot]:
    """Who was addressed; by the names in the text alone, where finding that out is what failed."""
    try:
        return (orders.for_all(event, place) or _addressed(event, place)).bots
    except Exception:
        log.exception("whom a message in room %s addresses could not be told", place.room.id)
        return resolve.named(event, place.registration)


def _read(delivery: Delivery) -> tuple[IncomingEvent, Place] | Verdict:
    """The event and where to answer it, or why that can't be."""
    if delivery.body is None:
        return Verdict("ignored", Reason.BLANKED)
    try:
        registration = registrations.get(delivery.registration_id)
    except NotFound:
        return Verdict("ignored", Reason.REGISTRATION_GONE)
    platform = registry.get(registration.platform)
    try:
        event = platform.parse(delivery.body)
    except BadPayload as error:
        return Verdict("ignored", Reason.UNREADABLE, str(error))
    instance = instances.get(registration.instance_id)
    if instance is None or not delivery.room:
        return Verdict("ignored", Reason.UNKNOWN_EVENT, event.name)
    room = rooms.seen(instance.id, delivery.room, event.room_name, event.one_to_one)
    place = Place(platform, registration, instance, room, event.message_id, delivery.received_at, event.thread)
    return event, place


def _addressed(event: IncomingEvent, place: Place) -> Addressed:
    registration, room = place.registration, place.room
    return resolve.addressed(
        event,
        registration,
        sent_by=lambda text: members.sent_by(room, text),
        last_spoke=lambda: members.last_spoke(room, registration.id),
        always=lambda: onboarding.awaits(event, place) or modes.unmentioned(event, place),
        confirm=lambda bots: members.confirm(bots, event.actor, room.instance_id),
    )


def _answered(asked: Asked, answers: Sequence[Answer], renew: Renew) -> Verdict:
    """Each bot in order; one whose answer can't be sent now holds back those after it."""
    ends: list[Sent] = []
    with heard(asked.place, wanted=bool(asked.addressed.bots)) as sign:
        for answer in answers:
            ends.append(_one(asked, answer, len(answers), renew))
            if ends[-1].state in ("later", "lost"):
                sign.stays = True
                break
            sign.stays = sign.stays or ends[-1].state == "waiting"
    return _verdict(ends, parts.turn_of(asked.delivery.id))


def _one(asked: Asked, answer: Answer, count: int, renew: Renew) -> Sent:
    """What one bot says is written, then sent; what an earlier try wrote is only sent."""
    if answer.state in OVER:
        return deliver.over(answer.id)
    if answer.state != "written":
        bot = store.get(answer.bot_id)
        if bot is None:
            parts.give_up(answer, Reason.BOT_GONE)
            return Sent("failed", Reason.BOT_GONE)
        ended = _write(asked, answer, bot, count=count, renew=renew)
        if ended is not None:
            return ended
    return deliver.send(answer.id, asked.place, renew=renew)


def _write(asked: Asked, answer: Answer, bot: Bot, *, count: int, renew: Renew) -> Sent | None:
    """Decides what the bot says, and writes it; gives an end when that can't be now."""
    event, place = asked.event, asked.place
    version = effective(bot, event.actor)
    prefix = guard.prefix(version.bot, place, alone=count == 1)
    members.confirm([bot], event.actor, place.instance.id)
    rights = access.may_use(bot, event.actor, place.instance.id)
    if not rights.allowed:
        # Told and noted together or not at all.
        with transaction():
            first = notices.first_today(bot.id, event.actor.key)
            parts.write(answer, place, guard.refused(rights, event, place, first=first).after(prefix))
        return None
    text = asked.addressed.text_for(version.bot)
    question = Question(asked.delivery, event, place, version.bot, answer, text, version.tools)
    said = _decided(question, renew, prefix)
    if said is None:
        return Sent("lost", Reason.INTERRUPTED)
    if isinstance(said, Sent):
        return said
    if isinstance(said, Pause):
        return _paused(said, answer, place, prefix=prefix, renew=renew)
    parts.write(answer, place, said.after(prefix))
    return Sent("later", Reason.SEND_LATER, said.wait) if said.wait > 0 else None


def _decided(question: Question, renew: Renew, prefix: str) -> Said | Pause | Sent | None:
    """What the bot says: that it was interrupted, to an order, as its first question, as a notice, or its model's answer."""
    said = (
        thinking.interrupted(question)
        or orders.carried_out(question)
        or onboarding.next_step(question)
        or guard.empty(question)
        or deliver.paused(question.place)
        or waiting.limited(question)
    )
    return said or thinking.run(question, renew=renew, prefix=prefix)


def _paused(pause: Pause, answer: Answer, place: Place, *, prefix: str, renew: Renew) -> Sent:
    """What is said meanwhile is sent, once. Who waits for somebody's answer must have asked; else that changes nothing."""
    if pause.notice is not None:
        kind, text = pause.notice
        parts.notify(answer, place, kind, Said(text, pause.reason).after(prefix).text)
        stopped = deliver.flush(answer.id, place, renew=renew)
        if stopped is not None and (stopped.state in ("lost", "failed") or pause.state == "waiting"):
            return stopped
    return Sent(pause.state, pause.reason, pause.delay, pause.detail, pause.hold)


def _verdict(ends: Sequence[Sent], turn_id: int | None) -> Verdict:
    """How the delivery ends, from how its answers did."""
    states: tuple[tuple[str, End], ...] = (
        *(("lost", "later"), ("later", "later"), ("waiting", "waiting"), ("unknown", "unknown")),
    )
    for state, end in states:
        for sent in ends:
            if sent.state == state:
                return Verdict(end, sent.reason, sent.detail, turn_id, sent.delay, sent.hold)
    failed = [sent for sent in ends if sent.state == "failed"]
    if failed:
        end = "ignored" if failed[0].reason == Reason.BOT_GONE else "dead"
        return Verdict(end, failed[0].reason, failed[0].detail, turn_id)
    reasons = [sent.reason for sent in ends]
    if UNTOLD.issuperset(reasons):
        return Verdict("ignored", reasons[0], turn_id=turn_id)
    reason = next((telling for telling in TELLING if telling in reasons), reasons[0])
    return Verdict("done", reason, turn_id=turn_id)
