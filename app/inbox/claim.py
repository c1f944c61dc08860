"""Lanes and claims: one worker at a time works a room's deliveries in order, under a lease; every step is one
conditional UPDATE.

Order: a room's rows are worked by ascending id. A row that waits for another try (`due_at` in the future) keeps its
place, and the room waits for it, for at most HOLD after it was first put back; then later rows pass it. So a short
trouble keeps the order, and a long one never blocks the room.
Fence: whoever takes a lane puts back the rows that its last holder left unfinished, each with one attempt more; what a
holder that lost its lane still writes is refused, because its row's number of attempts is no longer the one it claimed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from app.inbox.models import Delivery, Lane
from app.inbox.reasons import Reason
from app.infra import clock, jobs
from app.infra.db import changed, clean_text, insert_once, reading, transaction
from app.traces import record

LEASE = timedelta(seconds=60)
HOLD = timedelta(seconds=60)
ATTEMPTS = 3
BACKOFF = (2.0, 10.0)
UNFINISHED = ("claimed", "running")
# A wake-up of a fresh row is on its way; the sweep looks for those that lost it.
FRESH = timedelta(seconds=2)
SWEEP_ROOMS = 1000
HURRIED = 200
DETAIL_CHARS = 4000
DRAIN = "inbox.drain"
WAKE = "inbox.wake"


@dataclass(frozen=True)
class HeldLane:
    """A room's lane in the hands of one worker."""

    id: int
    instance_id: int
    room: str
    holder: str


def new_holder() -> str:
    """A name that no other run of a worker has."""
    return uuid.uuid4().hex


def take_lane(instance_id: int, room: str, holder: str) -> HeldLane | None:
    """Takes the room's lane for LEASE, or gives None while another holds it; puts back what its last holder left."""
    now = clock.now()
    with transaction() as session:
        lane_id = _win_lane(session, instance_id, room, holder=holder, now=now)
        if lane_id is None:
            return None
        _put_back_unfinished(session, _in_room(instance_id, room), now)
    return HeldLane(lane_id, instance_id, room, holder)


def renew(lane: HeldLane) -> bool:
    """Extends the lease; False when another worker has taken the lane."""
    with transaction() as session:
        mine = update(Lane).where(Lane.id == lane.id, Lane.holder == lane.holder)
        return changed(session.execute(mine.values(lease_until=clock.now() + LEASE))) == 1


def release(lane: HeldLane) -> None:
    """Frees the lane when it is still ours. Look once more for rows afterwards: one may have come meanwhile."""
    with transaction() as session:
        mine = update(Lane).where(Lane.id == lane.id, Lane.holder == lane.holder)
        session.execute(mine.values(holder=None, lease_until=None))


def ready(instance_id: int, room: str) -> bool:
    """True when the room's next delivery may be claimed now."""
    now = clock.now()
    columns = select(Delivery.due_at, Delivery.held_until).where(*_next(instance_id, room, now))
    with reading() as session:
        found = session.execute(columns.order_by(Delivery.id).limit(1)).first()
    return found is not None and _is_due(found[0], found[1], now)


def next_delivery(lane: HeldLane) -> Delivery | None:
    """Claims the room's next delivery; None when there is none, when it waits, or when the lane is lost."""
    now = clock.now()
    with transaction() as session:
        rows = select(Delivery).where(*_next(lane.instance_id, lane.room, now)).order_by(Delivery.id).limit(1)
        found = session.scalars(rows).first()
        if found is None or not _is_due(found.due_at, found.held_until, now) or not _holds(session, lane):
            return None
        claimed = update(Delivery).where(Delivery.id == found.id, Delivery.state == "queued")
        if changed(session.execute(claimed.values(state="claimed", reason=""))) != 1:
            return None
        if found.attempts:
            record.interrupt(found.id)
    return found


def running(delivery: Delivery | int) -> bool:
    """Marks that the first model call is made; False when the delivery is no longer this worker's.

    Give the Delivery that the handler got: its number of attempts is the fence. An id alone is not fenced.
    """
    with transaction() as session:
        mine = update(Delivery).where(*_claimed(delivery))
        return changed(session.execute(mine.values(state="running"))) == 1


def holds(delivery: Delivery) -> bool:
    """True while the delivery is this worker's; inside a transaction nobody takes it over before that ends."""
    with transaction() as session:
        mine = update(Delivery).where(*_claimed(delivery))
        return changed(session.execute(mine.values(attempts=delivery.attempts))) == 1


def finish(
    delivery: Delivery | int, state: str, reason: Reason, detail: str = "", *, turn_id: int | None = None
) -> bool:
    """Closes a claimed delivery as `state`; False when another worker has taken it over."""
    now = clock.now()
    values: dict[str, Any] = {"state": state, "reason": reason.value, "detail": _detail(detail)}
    if state != "waiting":
        values["finished_at"] = now
    if turn_id is not None:
        values["turn_id"] = turn_id
    with transaction() as session:
        done = changed(session.execute(update(Delivery).where(*_claimed(delivery)).values(values))) == 1
        if done and state == "dead":
            record.interrupt(delivery if isinstance(delivery, int) else delivery.id)
    return done


def give_back(
    delivery: Delivery, reason: Reason, *, delay: float, detail: str = "", failed: bool = True, hold: bool = True
) -> bool:
    """Queues a claimed delivery again for `delay` seconds; `failed` counts an attempt. False when it is lost.

    Without `hold` the later rows of the room pass it at once.
    """
    now = clock.now()
    values = {
        "state": "queued",
        "reason": reason.value,
        "detail": _detail(detail),
        "attempts": delivery.attempts + int(failed),
        "due_at": now + timedelta(seconds=delay),
        "held_until": (delivery.held_until or now + HOLD) if hold else now,
    }
    with transaction() as session:
        return changed(session.execute(update(Delivery).where(*_claimed(delivery)).values(values))) == 1


def retry(delivery_id: int) -> bool:
    """Queues a dead or unknown delivery again with all its attempts; False when it is in neither state or is blanked."""
    ended = (Delivery.id == delivery_id, Delivery.state.in_(("dead", "unknown")), Delivery.body.is_not(None))
    fresh = {
        "state": "queued",
        "reason": Reason.ASKED_AGAIN.value,
        "detail": None,
        "attempts": 0,
        "due_at": clock.now(),
        "held_until": None,
        "finished_at": None,
    }
    with transaction() as session:
        return changed(session.execute(update(Delivery).where(*ended).values(fresh))) == 1


def wake(delivery_id: int, reason: Reason) -> bool:
    """Queues a delivery that waited for somebody, due at once; False when it does not wait (any more).

    The caller wakes a worker, or leaves that to the sweep.
    """
    waits = update(Delivery).where(Delivery.id == delivery_id, Delivery.state == "waiting")
    fresh = {"state": "queued", "reason": reason.value, "detail": None, "due_at": clock.now(), "held_until": None}
    with transaction() as session:
        return changed(session.execute(waits.values(fresh))) == 1


def give_up(delivery_id: int, reason: Reason) -> bool:
    """Closes a delivery that waits, or is queued again, as done; False when somebody works on it by now."""
    waits = update(Delivery).where(Delivery.id == delivery_id, Delivery.state.in_(("waiting", "queued")))
    with transaction() as session:
        done = waits.values(state="done", reason=reason.value, finished_at=clock.now())
        return changed(session.execute(done)) == 1


def drop(delivery_id: int, reason: Reason) -> bool:
    """Closes a delivery that waited for somebody and that nobody is to answer any more; False when it does not wait."""
    waits = update(Delivery).where(Delivery.id == delivery_id, Delivery.state == "waiting")
    ended = {"state": "ignored", "reason": reason.value, "detail": None, "finished_at": clock.now()}
    with transaction() as session:
        return changed(session.execute(waits.values(ended))) == 1


def hurry(registration_id: int, reason: Reason) -> int:
    """Makes due what waits for that reason; gives the number of rows. The sweep wakes their rooms within seconds."""
    waiting = update(Delivery).where(
        Delivery.registration_id == registration_id, Delivery.state == "queued", Delivery.reason == reason.value
    )
    with transaction() as session:
        return changed(session.execute(waiting.values(due_at=clock.now())))


def hurry_limited(delivery_ids: Sequence[int]) -> list[tuple[int, str]]:
    """Makes those of these due that wait for a limit; gives their rooms (instance id, token). The caller wakes them."""
    now = clock.now()
    rooms: set[tuple[int, str]] = set()
    for start in range(0, len(delivery_ids), HURRIED):
        these = and_(Delivery.id.in_(delivery_ids[start : start + HURRIED]), Delivery.due_at > now)
        waiting = (these, Delivery.state == "queued", Delivery.reason == Reason.LIMIT_WAIT.value)
        with transaction() as session:
            found = session.execute(select(Delivery.instance_id, Delivery.room).where(*waiting))
            rooms.update((row[0], row[1]) for row in found)
            session.execute(update(Delivery).where(*waiting).values(due_at=now))
    return sorted(rooms)


def orphaned() -> list[tuple[int, str]]:
    """Rooms (instance id, token) with unfinished rows and no live lease: their worker is gone."""
    return _rooms(Delivery.state.in_(UNFINISHED), clock.now())


def due() -> list[tuple[int, str]]:
    """Rooms (instance id, token) with due rows that nobody works on."""
    now = clock.now()
    return _rooms(and_(Delivery.state == "queued", Delivery.due_at <= now - FRESH), now)


def woken() -> set[str]:
    """The keys of the rooms whose wake-up by the sweep is still queued."""
    with reading() as session:
        return set(session.scalars(select(jobs.QueuedJob.key).where(jobs.QueuedJob.name == WAKE)))


def release_all() -> int:
    """Frees every lane and puts back what was claimed; gives the number of rows put back.

    Only for the start of an embedded process, which is the only worker: whoever held a lane died with the last one,
    and so did the wake-ups in its memory.
    """
    now = clock.now()
    with transaction() as session:
        held = update(Lane).where(Lane.holder.is_not(None))
        session.execute(held.values(holder=None, lease_until=None))
        session.execute(delete(jobs.QueuedJob).where(jobs.QueuedJob.name == WAKE))
        return _put_back_unfinished(session, (), now)


def backoff(attempts: int) -> float:
    """Seconds until the next try, after `attempts` failed ones."""
    return BACKOFF[min(attempts, len(BACKOFF)) - 1] if attempts else 0.0


def _win_lane(session: Session, instance_id: int, room: str, *, holder: str, now: datetime) -> int | None:
    this = (Lane.instance_id == instance_id, Lane.room == room)
    free = or_(Lane.holder.is_(None), Lane.lease_until.is_(None), Lane.lease_until < now)
    taken = {"holder": holder, "lease_until": now + LEASE}
    won = changed(session.execute(update(Lane).where(*this, free).values(taken))) == 1
    lane_id = session.scalar(select(Lane.id).where(*this))
    if lane_id is not None:
        return lane_id if won else None
    return insert_once(session, jobs.table(Lane), {"instance_id": instance_id, "room": room, **taken})


def _holds(session: Session, lane: HeldLane) -> bool:
    """Locks the lane's row for this transaction, so that a claim and a takeover can't cross."""
    mine = update(Lane).where(Lane.id == lane.id, Lane.holder == lane.holder)
    return changed(session.execute(mine.values(lease_until=clock.now() + LEASE))) == 1


def _next(instance_id: int, room: str, now: datetime) -> Iterator[ColumnElement[bool]]:
    """What the room's next row fulfils: it is due, or it waits and keeps its place. The oldest of those is the next."""
    yield from _in_room(instance_id, room)
    yield Delivery.state == "queued"
    yield or_(Delivery.held_until.is_(None), Delivery.due_at <= now, Delivery.held_until > now)


def _is_due(due_at: datetime, held_until: datetime | None, now: datetime) -> bool:
    """A row that was never put back is due whatever the clock of the machine that stored it said."""
    return held_until is None or due_at <= now


def _in_room(instance_id: int, room: str) -> tuple[ColumnElement[bool], ...]:
    return (Delivery.instance_id == instance_id, Delivery.room == room)


def _claimed(delivery: Delivery | int) -> Iterator[ColumnElement[bool]]:
    yield Delivery.state.in_(UNFINISHED)
    if isinstance(delivery, int):
        yield Delivery.id == delivery
        return
    yield Delivery.id == delivery.id
    yield Delivery.attempts == delivery.attempts


def _put_back_unfinished(session: Session, where: tuple[ColumnElement[bool], ...], now: datetime) -> int:
    left = update(Delivery).where(*where, Delivery.state.in_(UNFINISHED))
    back = {
        "state": "queued",
        "reason": Reason.INTERRUPTED.value,
        "attempts": Delivery.attempts + 1,
        "due_at": now,
    }
    return changed(session.execute(left.values(back).execution_options(synchronize_session=False)))


def _rooms(where: ColumnElement[bool], now: datetime) -> list[tuple[int, str]]:
    same = and_(Lane.instance_id == Delivery.instance_id, Lane.room == Delivery.room)
    idle = or_(Lane.id.is_(None), Lane.holder.is_(None), Lane.lease_until.is_(None), Lane.lease_until < now)
    rooms = select(Delivery.instance_id, Delivery.room).outerjoin(Lane, same).where(where, idle).distinct()
    with reading() as session:
        return [(row[0], row[1]) for row in session.execute(rooms.limit(SWEEP_ROOMS))]


def _detail(text: str) -> str | None:
    return clean_text(text)[:DETAIL_CHARS] or None
