"""Sending the parts of an answer, in order, so that each stands in the room once, or is told apart.

A part goes written -> sending -> sent, refused or unknown. `sending` is committed right before the post. Whoever finds it
so later, or got no reply, asks the room whether the message stands there: if not, it is written again under the same
reference. Where nobody can ever tell it ends as unknown, and is not sent again. The model has no part in any of this.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import func, select, update

from app.inbox.again import again
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import changed, reading, transaction
from app.platforms import registrations, rooms
from app.platforms.base import Address, Outcome
from app.rooms.models import Answer, Part
from app.rooms.parts import Place
from app.rooms.sending import lookup, pieces

PACE = timedelta(seconds=1)
TRIES = 4
RETRY_SECONDS = (2.0, 60.0, 900.0)
GIVEN_UP_AFTER = timedelta(days=1)
# A worker that slept so long between its claim and its post may have been taken for dead: it does not post any more.
STALE = timedelta(seconds=5)
# A post is waited for 40 seconds at most (platforms: connect and read); Talk holds back a valid one for up to 25 seconds,
# and then it stands. What is not there by now never will be.
SURE_AFTER = timedelta(seconds=45)
# For so long the room is asked where nobody can tell: a server that throttles us is not asked for up to an hour.
SOUGHT_FOR = timedelta(minutes=65)
SOONEST, LATEST = 5.0, 300.0
# Notices without which the answer is as good. A first question is none of them: somebody must be able to answer it.
BESIDE = ("thinking", "waits")
UNAUTHORISED = 401
GONE = 404
BAD_REQUEST = 400
TOO_LONG = 413
THROTTLED = 429
UNCLEAR = (500, 502, 504)


@dataclass(frozen=True)
class Sent:
    """What became of an answer: over (done, failed, unknown), to be given `later` or when something has happened
    (waiting), or in another worker's hands (lost). Without `hold` the room's later messages don't wait for it."""

    state: Literal["done", "failed", "unknown", "later", "waiting", "lost"]
    reason: Reason
    delay: float = 0.0
    detail: str = ""
    hold: bool = True


def send(answer_id: int, place: Place, *, renew: Callable[[], bool]) -> Sent:
    """Sends the parts that are written, in order, and tells how the answer ended."""
    return flush(answer_id, place, renew=renew) or over(answer_id)


def flush(answer_id: int, place: Place, *, renew: Callable[[], bool]) -> Sent | None:
    """Sends what is written and stays silent about the rest, at most one message a second; None when all of it is out.

    `renew` keeps the lane; False stops at once. Talks to the network: never inside a block.
    """
    while (part := _next(answer_id)) is not None:
        if not renew():
            return Sent("lost", Reason.INTERRUPTED)
        stopped = _seek(part, place) if part.state == "sending" else _send(part, place)
        if stopped is not None:
            return stopped
    return None


def over(answer_id: int) -> Sent:
    """How an answer ended whose parts are all sent, given up or lost; closes it."""
    with transaction() as session:
        said = select(Part.state).where(Part.answer_id == answer_id, Part.kind == "answer")
        answer = session.get(Answer, answer_id)
        if answer is None:
            # Removed with its bot while it was given.
            return Sent("failed", Reason.BOT_GONE)
        if "unknown" in session.scalars(said).all():
            answer.state, answer.reason = "unknown", Reason.REPLY_LOST.value
        elif answer.state == "written":
            answer.state = "done"
        state, reason = answer.state, next(reason for reason in Reason if reason == answer.reason)
    return Sent("unknown" if state == "unknown" else "failed" if state == "failed" else "done", reason)


def paused(place: Place) -> Sent | None:
    """That nothing may be sent now, because the server refused our signature lately."""
    until = registrations.blocked_until(place.registration.id)
    return None if until is None else Sent("later", Reason.BREAKER_OPEN, delay=_until(until))


def _send(part: Part, place: Place) -> Sent | None:
    """Posts one part; gives an end where that stops the sending."""
    if clock.now() - place.received_at > GIVEN_UP_AFTER:
        return _refuse(part.answer_id, Reason.WAITED_TOO_LONG)
    waiting = paused(place)
    if waiting is not None:
        return waiting
    if part.claimed_at is not None:
        # A proxy said that it failed, or an operator wants it sent again: it may have come through.
        now, found = clock.now(), lookup.look(part, place)
        if found == "stands":
            again(lambda: _close(part, "sent", sent_at=now))
            return None
        if found == "missing" and now - part.claimed_at < SURE_AFTER:
            return _not_yet(now - part.claimed_at)
    # Whatever can fail before the post does so before the claim: afterwards nobody knows what stands.
    address = registrations.address(place.registration)
    clock.sleep(_pause(part))
    claimed = _claim(part)
    if claimed is None:
        return Sent("lost", Reason.INTERRUPTED)
    if clock.now() - (claimed.claimed_at or clock.now()) > STALE:
        again(lambda: _close(claimed, "written", claimed_at=None, attempts=claimed.attempts - 1))
        return Sent("lost", Reason.INTERRUPTED)
    return _settle(claimed, place, _post(claimed, place, address))


def _seek(part: Part, place: Place) -> Sent | None:
    """Finds out whether a part stands whose reply was lost; gives an end while that can't be told."""
    # Before the look: what was seen is not true of any later moment.
    now = clock.now()
    found = lookup.look(part, place)
    age = now - (part.claimed_at or part.created_at)
    sought = now - (part.sought_at or now)
    if found == "missing" and age < SURE_AFTER:
        return _not_yet(age)
    if found == "untold" and sought < SOUGHT_FOR:
        again(lambda: _close(part, "sending", sought_at=part.sought_at or now))
        return Sent("later", Reason.REPLY_SOUGHT, delay=_backoff(sought))
    if found == "stands":
        again(lambda: _close(part, "sent", sent_at=now))
    elif found != "missing":
        again(lambda: _close(part, "unknown"))
    else:
        ours = again(lambda: _close(part, "written", claimed_at=None))
        if ours and part.attempts >= TRIES:
            return _refuse(part.answer_id, Reason.REFUSED, detail="no reply came, and nothing stood in the room")
    return None


def _not_yet(age: timedelta) -> Sent:
    """That a message is not there, and may still come."""
    return Sent("later", Reason.REPLY_SOUGHT, delay=min(_backoff(age), (SURE_AFTER - age).total_seconds()))


def _post(part: Part, place: Place, address: Address) -> Outcome:
    room, reference_id = place.room.token, part.reference_id
    return place.platform.post(address, room, part.text, reply_to=part.reply_to, reference_id=reference_id)


def _settle(part: Part, place: Place, outcome: Outcome) -> Sent | None:
    """Notes what became of a post; what it gives ends this round of sending."""
    # What we know of a message must not get lost in a moment in which the database is busy.
    stopped = again(lambda: _noted(part, outcome))
    again(lambda: registrations.posted(part.registration_id, outcome))
    if stopped is None:
        return None
    if stopped.reason == Reason.ROOM_GONE:
        rooms.unbind(place.room.id, part.registration_id)
    waiting = paused(place) if stopped.state == "later" else None
    return replace(waiting or stopped, detail=outcome.reason)


def _noted(part: Part, outcome: Outcome) -> Sent | None:
    status = outcome.status
    if outcome.kind == "success":
        _close(part, "sent", status=status, sent_at=clock.now())
        return None
    if outcome.kind == "ambiguous":
        # It stays as it is, for whoever looks whether it stands.
        return None
    if status == BAD_REQUEST and part.reply_to is not None:
        # The message that we reply to may have expired meanwhile; the answer is still wanted.
        _close(part, "written", status=status, claimed_at=None, reply_to=None)
        return None
    if status == TOO_LONG and pieces.divide(part):
        return None
    return _put_back(part, outcome) if _may_be_taken(part, outcome) else _refused(part, outcome)


def _may_be_taken(part: Part, outcome: Outcome) -> bool:
    """True when another try may work. A server that throttles is waited for; anything else is tried a few times."""
    if outcome.status == THROTTLED:
        return True
    return (outcome.kind == "retryable" or outcome.status == UNAUTHORISED) and part.attempts < TRIES


def _put_back(part: Part, outcome: Outcome) -> Sent | None:
    tries = part.attempts - (1 if outcome.status == THROTTLED else 0)
    # A failure within the server, or between us, may come before or after the message is stored: it is looked for first.
    claimed_at = part.claimed_at if outcome.status in UNCLEAR else None
    if not _close(part, "written", status=outcome.status, claimed_at=claimed_at, attempts=tries):
        return None
    delay = RETRY_SECONDS[min(max(tries, 1), len(RETRY_SECONDS)) - 1] * random.uniform(0.8, 1.2)
    return Sent("later", Reason.SEND_LATER, delay=max(delay, outcome.retry_after or 0.0))


def _refused(part: Part, outcome: Outcome) -> Sent | None:
    reason = {UNAUTHORISED: Reason.UNAUTHORISED, GONE: Reason.ROOM_GONE}.get(outcome.status or 0, Reason.REFUSED)
    ours = _close(part, "refused", status=outcome.status)
    if not ours or (part.kind in BESIDE and reason == Reason.REFUSED):
        # It was said beside the answer, which may yet be taken; or somebody else sends this part by now.
        return None
    return _refuse(part.answer_id, reason)


def _refuse(answer_id: int, reason: Reason, *, detail: str = "") -> Sent:
    """Gives up what was not sent of an answer."""
    left = update(Part).where(Part.answer_id == answer_id, Part.state == "written")
    with transaction() as session:
        session.execute(left.values(state="refused"))
        session.execute(update(Answer).where(Answer.id == answer_id).values(state="failed", reason=reason.value))
    return Sent("failed", reason, detail=detail)


def _next(answer_id: int) -> Part | None:
    """The first part that is not over."""
    open_parts = select(Part).where(Part.answer_id == answer_id, Part.state.in_(("written", "sending")))
    with reading() as session:
        return session.scalars(open_parts.order_by(Part.sequence).limit(1)).first()


def _pause(part: Part) -> float:
    """Seconds until the next message of what this delivery is answered with."""
    delivery_id = select(Answer.delivery_id).where(Answer.id == part.answer_id).scalar_subquery()
    posts = select(func.max(Part.claimed_at)).join(Answer, Answer.id == Part.answer_id)
    with reading() as session:
        last = session.scalar(posts.where(Answer.delivery_id == delivery_id))
    left = timedelta() if last is None else last + PACE - clock.now()
    return min(max(left, timedelta()), PACE).total_seconds()


def _claim(part: Part) -> Part | None:
    """Says that this part is being sent, and gives it as it stands then; None when somebody else does."""
    written = update(Part).where(Part.id == part.id, Part.state == "written")
    values = {"state": "sending", "attempts": Part.attempts + 1, "claimed_at": clock.now(), "sought_at": None}
    with transaction() as session:
        if changed(session.execute(written.values(values))) != 1:
            return None
        return session.get_one(Part, part.id)


def _close(part: Part, state: str, **values: Any) -> bool:
    """Writes how a claimed part stands; False where the claim is no longer the one that the caller knows."""
    ours = (Part.state == "sending", Part.claimed_at == part.claimed_at)
    # That a message stands is true whoever has taken its part over, or given it up as unknown, meanwhile.
    where = (Part.state != "sent",) if state == "sent" else ours
    with transaction() as session:
        return (
            changed(session.execute(update(Part).where(Part.id == part.id, *where).values(state=state, **values))) == 1
        )


def _backoff(elapsed: timedelta) -> float:
    return min(max(elapsed.total_seconds() / 2, SOONEST), LATEST)


def _until(moment: datetime) -> float:
    return max(1.0, (moment - clock.now()).total_seconds() + random.uniform(0.0, 3.0))
