"""Reading the rooms of an instance after a gap, so that each missed message is worked once, like every other.

One question tells which rooms have news; only those are read, one after another with pauses. What is found goes into the
inbox once for each registration that is active in the room, as the webhook would have told it: the unique key of a
message decides between the two, whichever comes first. What cannot be read now is read later, as long as it helps.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from app.accounts import instances
from app.accounts.models import Instance
from app.accounts.serviceuser import PASSING, Untold
from app.conversations import expiry
from app.inbox.accept import accept
from app.inbox.gaps import reading
from app.inbox.gaps.models import RoomReading
from app.inbox.gaps.reading import OpenGap
from app.inbox.gaps.watch import BACK
from app.infra import clock
from app.platforms import registrations, registry, rooms
from app.platforms.base import IncomingEvent, MissedEvent, Platform, Reader, SeenRoom
from app.platforms.models import Registration, Room, RoomBinding
from app.rooms.events import EVENTS

log = logging.getLogger(__name__)

MESSAGES = 50
# Nobody shall notice in their rooms that we read all of them.
PAUSE_SECONDS = 0.2
RUN_SECONDS = 120.0
TICK = timedelta(seconds=1)
# What fails for one room may fail for that one only; what fails so often fails for all.
MOST_FAILURES = 3
OF_ALL = ("no_service_user", "refused", "sealed")
# The present expiration is told with the room itself, and in no language.
UNREAD = frozenset({"message_expiration_enabled", "message_expiration_disabled"})


@dataclass
class Run:
    """One reading of an instance's rooms: who reads, what the server told of them, and what was put into the inbox."""

    gap: OpenGap
    instance: Instance
    reader: Reader
    platform: Platform
    seen: Mapping[str, SeenRoom] | None = None
    notes: Mapping[int, RoomReading] = field(default_factory=dict)
    recovered: int = 0
    by_id: dict[int, Registration] = field(default_factory=dict)


def run(instance_id: int) -> None:
    """Reads what was missed in the rooms of an instance; nothing where no gap is open, or another worker is at it."""
    gap = reading.claim(instance_id)
    if gap is None:
        return
    begun = _begun(gap)
    if begun is None:
        reading.finish(gap, "no_service_user")
        return
    try:
        complete = _read_all(begun)
    except Untold as error:
        _stopped(begun, error)
        return
    if complete:
        reading.finish(gap, recovered=begun.recovered)
    else:
        reading.put_off(gap, "", recovered=begun.recovered, delay=TICK)


def _begun(gap: OpenGap) -> Run | None:
    instance = instances.get(gap.instance_id)
    found = registrations.of_instance(gap.instance_id)
    kinds = [each.platform for each in found if registry.reader(each.platform) is not None]
    reader = registry.reader(kinds[0]) if kinds else None
    if instance is None or reader is None:
        return None
    return Run(gap, instance, reader, registry.get(kinds[0]), by_id={each.id: each for each in found})


def _read_all(run: Run) -> bool:
    """False where some rooms are left to be read. Raises Untold for what concerns all of them."""
    end = clock.monotonic() + RUN_SECONDS
    active = rooms.active(run.instance.id)
    run.notes = reading.notes(run.instance.id)
    run.seen = _seen(run)
    failures: list[Untold] = []
    for room in sorted(filter(partial(_is_unread, run), active), key=partial(_place, run)):
        if clock.monotonic() > end:
            return False
        error = _noted(run, room, active[room])
        if error is not None and error.reason in (*PASSING, *OF_ALL):
            failures.append(error)
        if error is not None and (error.reason in OF_ALL or len(failures) == MOST_FAILURES):
            raise error
    if failures:
        raise failures[0]
    return True


def _noted(run: Run, room: Room, bindings: Sequence[RoomBinding]) -> Untold | None:
    """Reads a room and notes what came of it; gives why it could not be read."""
    seen = None if run.seen is None else run.seen.get(room.token)
    try:
        left_out = _read(run, room, seen, bindings)
    except Untold as error:
        log.info("room %s can't be read: %s", room.id, error.reason)
        reading.note_room(room.id, error.reason)
        return error
    reading.note_room(room.id, None, left_out=left_out, last_id=None if seen is None else seen.last_message_id)
    return None


def _seen(run: Run) -> Mapping[str, SeenRoom] | None:
    """The rooms as the server lists them; None where the list is too long to be read: then each is asked for."""
    try:
        return {each.token: each for each in run.reader.rooms(run.instance.id)}
    except Untold as error:
        if error.reason != "too_large":
            raise
        return None


def _is_unread(run: Run, room: Room) -> bool:
    note = run.notes.get(room.id)
    return note is None or note.read_at < run.gap.ended or note.reason in PASSING


def _place(run: Run, room: Room) -> tuple[bool, int]:
    """Those with the newest words come first, and those that failed just before last: no room holds up the others."""
    note, seen = run.notes.get(room.id), (run.seen or {}).get(room.token)
    failed = note is not None and note.read_at >= run.gap.ended
    return failed, -((seen and seen.last_message_id) or 0)


def _read(run: Run, room: Room, seen: SeenRoom | None, bindings: Sequence[RoomBinding]) -> bool:
    """Puts what was missed in one room into the inbox; True where not all of it was. Raises Untold."""
    if run.seen is not None and seen is None:
        raise Untold("missing")
    known = [_last_known(run, room, binding) for binding in bindings]
    after = min((id for id in known if id is not None), default=None) if None not in known else None
    if seen is not None and not _has_news(seen, run.notes.get(room.id), after):
        return False
    clock.sleep(PAUSE_SECONDS)
    joined = min(binding.joined_at for binding in bindings) - TICK
    found = run.reader.missed(
        run.instance.id,
        room.token,
        name=room.name if seen is None else seen.name,
        after=after,
        since=max(clock.now() - BACK, joined),
        limit=MESSAGES,
    )
    if seen is not None and seen.expiration is not None:
        expiry.set_expiration(run.instance.id, room.token, seen.expiration)
    told: set[str] = set()
    for event in found.events:
        _take(run, room, event, bindings, told)
    return found.left_out


def _has_news(seen: SeenRoom, note: RoomReading | None, after: int | None) -> bool:
    """Our own answers are not told to us: a room in which we spoke last has news only once."""
    last = seen.last_message_id
    if last is None or (after is not None and last <= after):
        return False
    return note is None or bool(note.reason) or note.last_id != last


def _last_known(run: Run, room: Room, binding: RoomBinding) -> int | None:
    return reading.last_known(binding.registration_id, run.instance.id, room.token, before=run.gap.began)


def _take(run: Run, room: Room, missed: MissedEvent, bindings: Sequence[RoomBinding], told: set[str]) -> None:
    """Into the inbox, once for each registration that was in the room when it was said."""
    event = run.platform.parse(missed.body)
    if not _is_wanted(event, told):
        return
    for binding in bindings:
        registration = run.by_id.get(binding.registration_id)
        if registration is None or missed.at + TICK < binding.joined_at:
            continue
        # Said after the gap began, whatever the clock of the server says.
        said_at = max(missed.at, run.gap.began)
        random = f"recovered {room.token} {event.object_id}"
        stored = accept(registration, random=random, body=missed.body, event=event, recovered_from=said_at)
        run.recovered += stored is not None


def _is_wanted(event: IncomingEvent, told: set[str]) -> bool:
    """Messages; and the first event of each kind that matters: what it stands for is looked at anew, or happened once."""
    if event.kind == "message":
        return True
    wanted = event.kind == "system" and event.name in EVENTS and event.name not in UNREAD | told
    told.add(event.name)
    return wanted


def _stopped(run: Run, error: Untold) -> None:
    """Later, while it helps: what is older than BACK would not be answered any more."""
    if error.reason in PASSING and clock.now() - run.gap.ended < BACK:
        reading.put_off(run.gap, error.reason, recovered=run.recovered)
        return
    log.warning("the rooms of %s can't be read after a gap: %s", run.instance.name, error.reason)
    reading.finish(run.gap, error.reason, recovered=run.recovered)
