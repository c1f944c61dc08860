"""Working off a room: take its lane, claim, hand over, close, release, and look once more.

A delivery whose attempts are used up is not handed over again: the room gets one apology, written once, and the row is
dead. Whatever a handler raises counts as an attempt and is logged; it never reaches another room.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from app.inbox import claim
from app.inbox.again import again
from app.inbox.base import Apology, Handler, Overtake, Verdict
from app.inbox.claim import HeldLane
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock, jobs
from app.infra.db import transaction

log = logging.getLogger(__name__)

# A busy room gives its slot back after so many seconds and queues up behind the other rooms.
TURN_SECONDS = 30.0
RENEW_SECONDS = 10.0
WAKE_BATCH = 100
# Shorter than rooms.deliver sends anything: the room is still told that this is given up.
LONGEST_WAIT = timedelta(hours=23)
WAKE_KEY = "inbox.wake:{0}:{1}"


@dataclass
class Lease:
    """Keeps one lane while its holder works; `renew` is cheap enough to be called at every event."""

    lane: HeldLane
    kept: bool = True
    renewed: float = field(default_factory=clock.monotonic)

    def renew(self) -> bool:
        """False when another worker has taken the lane. Asks the database every RENEW_SECONDS only."""
        if self.kept and clock.monotonic() - self.renewed >= RENEW_SECONDS:
            self.kept = again(lambda: claim.renew(self.lane))
            self.renewed = clock.monotonic()
        return self.kept


def run(
    instance_id: int, room: str, *, handle: Handler, apologise: Apology, overtake: Overtake = lambda *_: None
) -> None:
    """Works the room's due deliveries in order, until none is due or another worker has the room.

    Then `overtake` looks at what waits behind the message that is worked.
    """
    until = clock.monotonic() + TURN_SECONDS
    # Asked before, so that the many wake-ups of a busy room write nothing; and after each release, so that none is lost.
    while claim.ready(instance_id, room):
        lane = again(lambda: claim.take_lane(instance_id, room, claim.new_holder()))
        if lane is None:
            overtake(instance_id, room)
            return
        try:
            rest = _work_off(lane, until, handle=handle, apologise=apologise)
        finally:
            again(lambda lane=lane: claim.release(lane))  # type: ignore[misc]
        if rest:
            jobs.enqueue(claim.DRAIN, instance_id, room)
            return


def recover() -> int:
    """Puts back what dead workers left and wakes the rooms with due rows; gives the number of rooms woken."""
    for instance_id, room in claim.orphaned():
        # Taking a lane puts back what its last holder left.
        lane = again(lambda i=instance_id, r=room: claim.take_lane(i, r, claim.new_holder()))  # type: ignore[misc]
        if lane is not None:
            claim.release(lane)
    woken = claim.woken()
    rooms = [room for room in claim.due() if wake_key(*room) not in woken]
    return sum(_wake(rooms[start : start + WAKE_BATCH]) for start in range(0, len(rooms), WAKE_BATCH))


def wake_key(instance_id: int, room: str) -> str:
    """The key under which the sweep wakes a room, so that an overloaded worker is woken once a room."""
    return WAKE_KEY.format(instance_id, room)


def _wake(rooms: list[tuple[int, str]]) -> int:
    # One commit for all of them; short enough that an event which arrives now does not wait for it.
    with transaction():
        return sum(jobs.enqueue(claim.WAKE, *room, key=wake_key(*room)) for room in rooms)


def _work_off(lane: HeldLane, until: float, *, handle: Handler, apologise: Apology) -> bool:
    """True when the time of this run is over and the room may have more."""
    lease = Lease(lane)
    while lease.kept:
        if clock.monotonic() >= until:
            return True
        delivery = again(lambda: claim.next_delivery(lane))
        if delivery is None:
            return False
        lease.renewed = clock.monotonic()
        if not _work(delivery, lease, handle=handle, apologise=apologise):
            return False
    return False


def _work(delivery: Delivery, lease: Lease, *, handle: Handler, apologise: Apology) -> bool:
    """Works one claimed delivery; False when it was lost to another worker."""
    if delivery.attempts >= claim.ATTEMPTS:
        return _give_up(delivery, apologise)
    try:
        verdict = handle(delivery, renew=lease.renew)
    except Exception as error:
        log.exception("the delivery %s failed", delivery.id)
        return _failed(delivery, type(error).__name__)
    if verdict.state == "later":
        return _later(delivery, verdict, apologise)
    return again(lambda: _finish(delivery, verdict))


def _give_up(delivery: Delivery, apologise: Apology) -> bool:
    verdict = None
    # Beyond the last attempt even the apology ended the worker: it is not tried again.
    if delivery.attempts == claim.ATTEMPTS:
        verdict = _apologised(delivery, apologise)
    if verdict is not None and verdict.state == "later":
        return _later(delivery, verdict, apologise)
    end = verdict or Verdict("dead", Reason.ATTEMPTS, delivery.detail or "")
    return again(lambda: _finish(delivery, end))


def _apologised(delivery: Delivery, apologise: Apology) -> Verdict | None:
    try:
        return apologise(delivery)
    except Exception:
        log.exception("the apology for the delivery %s failed", delivery.id)
        return None


def _failed(delivery: Delivery, detail: str) -> bool:
    failed = delivery.attempts + 1
    delay = claim.backoff(failed) if failed < claim.ATTEMPTS else 0.0
    return _put_back(delivery, Reason.RETRY, delay, detail=detail, failed=True)


def _later(delivery: Delivery, verdict: Verdict, apologise: Apology) -> bool:
    if clock.now() - delivery.received_at > LONGEST_WAIT:
        gave_up = Verdict("dead", Reason.WAITED_TOO_LONG, f"{verdict.reason}: {verdict.detail}", verdict.turn_id)
        # First closed, then told: whoever lost the room to another worker says nothing.
        if not again(lambda: _finish(delivery, gave_up)):
            return False
        _apologised(delivery, apologise)
        return True
    delay = max(verdict.delay, 1.0)
    return _put_back(delivery, verdict.reason, delay, detail=verdict.detail, failed=False, hold=verdict.hold)


def _put_back(
    delivery: Delivery, reason: Reason, delay: float, *, detail: str, failed: bool, hold: bool = True
) -> bool:
    back = partial(claim.give_back, delivery, reason, delay=delay, detail=detail, failed=failed, hold=hold)
    if not again(back):
        return False
    if delay:
        jobs.enqueue(claim.DRAIN, delivery.instance_id, delivery.room, delay=delay)
    return True


def _finish(delivery: Delivery, verdict: Verdict) -> bool:
    return claim.finish(delivery, verdict.state, verdict.reason, verdict.detail, turn_id=verdict.turn_id)
