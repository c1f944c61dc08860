"""Sending the parts of an answer, so that each stands in the room once, or is told apart.

A part goes written -> sending -> sent, refused or unknown. `sending` is committed right before the post: whoever finds it
later can't know whether the message stands in the room, so that part ends as unknown and is never sent again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import select, update

from app.inbox.again import again
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import changed, reading, transaction
from app.platforms import registrations, rooms
from app.platforms.base import Outcome
from app.rooms.models import Answer, Part
from app.rooms.parts import Place

PACE_SECONDS = 1.0
TRIES = 4
RETRY_SECONDS = (2.0, 60.0, 900.0)
GIVEN_UP_AFTER = timedelta(days=1)
UNAUTHORISED = 401
GONE = 404
BAD_REQUEST = 400


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

    `renew` keeps the lane; False stops at once.
    """
    last_post = 0.0
    for part in _parts(answer_id):
        if part.state == "sending":
            _close(part, "unknown")
        if part.state != "written":
            continue
        if clock.now() - place.received_at > GIVEN_UP_AFTER:
            return _refuse(answer_id, Reason.WAITED_TOO_LONG)
        waiting = paused(place)
        if waiting is not None:
            return waiting
        clock.sleep(max(0.0, last_post + PACE_SECONDS - clock.monotonic()))
        if not renew() or not _claim(part):
            return Sent("lost", Reason.INTERRUPTED)
        last_post = clock.monotonic()
        stopped = _settle(part, place, _post(part, place))
        if stopped is not None:
            return stopped
    return None


def over(answer_id: int) -> Sent:
    """How an answer ended whose parts are all sent, given up or lost; closes it."""
    with transaction() as session:
        states = session.scalars(select(Part.state).where(Part.answer_id == answer_id)).all()
        answer = session.get_one(Answer, answer_id)
        if "unknown" in states:
            answer.state, answer.reason = "unknown", Reason.REPLY_LOST.value
        elif answer.state == "written":
            answer.state = "done"
        state, reason = answer.state, next(reason for reason in Reason if reason == answer.reason)
    return Sent("unknown" if state == "unknown" else "failed" if state == "failed" else "done", reason)


def paused(place: Place) -> Sent | None:
    """That nothing may be sent now, because the server refused our signature lately."""
    until = registrations.blocked_until(place.registration.id)
    return None if until is None else Sent("later", Reason.BREAKER_OPEN, delay=_until(until))


def _post(part: Part, place: Place) -> Outcome:
    address = registrations.address(place.registration)

    def post(reply_to: int | None) -> Outcome:
        room, reference_id = place.room.token, part.reference_id
        return place.platform.post(address, room, part.text, reply_to=reply_to, reference_id=reference_id)

    outcome = post(part.reply_to)
    if part.reply_to is not None and outcome.kind == "permanent" and outcome.status == BAD_REQUEST:
        # The message that we reply to may have expired meanwhile; the answer is still wanted.
        return post(None)
    return outcome


def _settle(part: Part, place: Place, outcome: Outcome) -> Sent | None:
    """Notes what became of a post; what it gives ends this round of sending."""
    tries = part.attempts + 1
    again_later = (outcome.kind == "retryable" or outcome.status == UNAUTHORISED) and tries < TRIES
    state = {"success": "sent", "ambiguous": "unknown"}.get(outcome.kind, "written" if again_later else "refused")
    # What we know of a message must not get lost in a moment in which the database is busy.
    again(lambda: _close(part, state, outcome.status))
    again(lambda: registrations.posted(part.registration_id, outcome))
    if state in ("sent", "unknown"):
        return None
    if again_later:
        waiting = paused(place)
        delay = max(RETRY_SECONDS[tries - 1] * random.uniform(0.8, 1.2), outcome.retry_after or 0.0)
        return replace(waiting or Sent("later", Reason.SEND_LATER, delay=delay), detail=outcome.reason)
    if outcome.status == GONE:
        rooms.unbind(place.room.id, part.registration_id)
    reason = {UNAUTHORISED: Reason.UNAUTHORISED, GONE: Reason.ROOM_GONE}.get(outcome.status or 0, Reason.REFUSED)
    return _refuse(part.answer_id, reason, detail=outcome.reason)


def _refuse(answer_id: int, reason: Reason, *, detail: str = "") -> Sent:
    """Gives up what was not sent of an answer."""
    left = update(Part).where(Part.answer_id == answer_id, Part.state == "written")
    with transaction() as session:
        session.execute(left.values(state="refused"))
        session.execute(update(Answer).where(Answer.id == answer_id).values(state="failed", reason=reason.value))
    return Sent("failed", reason, detail=detail)


def _claim(part: Part) -> bool:
    """Says that this part is being sent; False when somebody else does."""
    written = update(Part).where(Part.id == part.id, Part.state == "written")
    with transaction() as session:
        return (
            changed(
                session.execute(written.values(state="sending", attempts=Part.attempts + 1, claimed_at=clock.now()))
            )
            == 1
        )


def _close(part: Part, state: str, status: int | None = None) -> None:
    now = clock.now()
    # Who posted knows best: its success is noted also where another worker has given this part up as unknown.
    ours = update(Part).where(Part.id == part.id, Part.state.in_(("sending", "unknown")))
    with transaction() as session:
        session.execute(ours.values(state=state, status=status, sent_at=now if state == "sent" else None))


def _until(moment: datetime) -> float:
    return max(1.0, (moment - clock.now()).total_seconds() + random.uniform(0.0, 3.0))


def _parts(answer_id: int) -> Sequence[Part]:
    with reading() as session:
        return session.scalars(select(Part).where(Part.answer_id == answer_id).order_by(Part.sequence)).all()
