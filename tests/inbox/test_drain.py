from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from app.inbox import claim, drain
from app.inbox.accept import accept
from app.inbox.base import Verdict
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock, jobs
from app.infra.db import reading
from tests.fakes import events

ANSWERED = Verdict("done", Reason.ANSWERED)


@dataclass
class Room:
    """A handler with a script: what it does for a delivery, the verdict for all others."""

    script: dict = field(default_factory=dict)
    handled: list = field(default_factory=list)
    apologies: list = field(default_factory=list)

    def handle(self, delivery, *, renew):
        self.handled.append(delivery.id)
        step = self.script.get(delivery.id, ANSWERED)
        if isinstance(step, list):
            step = step.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step(delivery, renew) if callable(step) else step

    def apologise(self, delivery):
        self.apologies.append(delivery.id)

    def run(self, registration, room="room"):
        drain.run(registration.instance_id, room, handle=self.handle, apologise=self.apologise)


def row(delivery_id):
    with reading() as session:
        return session.get(Delivery, delivery_id)


def test_a_room_is_worked_off_in_order_and_its_lane_freed(app, registration, accepted):
    ids = [accepted() for _ in range(4)]
    room = Room()
    room.run(registration)
    assert room.handled == ids
    assert {row(delivery_id).state for delivery_id in ids} == {"done"}
    assert claim.take_lane(registration.instance_id, "room", "another") is not None


@pytest.mark.parametrize("state", ["done", "ignored", "waiting", "unknown", "dead"])
def test_a_verdict_becomes_the_row(app, registration, accepted, state):
    delivery_id = accepted()
    Room({delivery_id: Verdict(state, Reason.UNMENTIONED, "why", 5)}).run(registration)
    found = row(delivery_id)
    assert (found.state, found.reason, found.detail, found.turn_id) == (state, "unmentioned", "why", 5)
    assert (found.finished_at is None) == (state == "waiting")


def test_a_wake_up_of_a_room_without_due_rows_writes_nothing(app, registration, accepted, monkeypatch):
    monkeypatch.setattr(claim, "take_lane", lambda *_: pytest.fail("a lane was taken"))
    Room().run(registration)


def test_a_wake_up_of_a_room_that_another_holds_leaves_it_alone(app, registration, accepted):
    accepted()
    claim.take_lane(registration.instance_id, "room", "another")
    room = Room()
    room.run(registration)
    assert room.handled == []


def test_a_row_that_came_while_the_lane_was_being_released_is_not_left_behind(app, registration, accepted, monkeypatch):
    accepted()
    late = []
    release = claim.release

    def slow(lane):
        if not late:
            late.append(accepted())  # and its wake-up finds the lane taken
            assert claim.take_lane(registration.instance_id, "room", "the wake-up") is None
        release(lane)

    monkeypatch.setattr(claim, "release", slow)
    room = Room()
    room.run(registration)
    assert room.handled[-1] == late[0]
    assert row(late[0]).state == "done"


def test_a_handler_that_raises_is_tried_three_times_then_the_room_gets_one_apology(
    app, registration, accepted, time, sent
):
    poison, good = accepted(), accepted()
    room = Room({poison: ValueError("boom")})
    room.run(registration)
    assert row(poison).state == "queued"
    assert (row(poison).reason, row(poison).detail, row(poison).attempts) == ("retry", "ValueError", 1)
    assert room.handled == [poison]
    waited = 0.0
    while row(poison).state == "queued":
        assert waited < 60
        time.pass_(1)
        waited += 1
        room.run(registration)
    assert room.handled == [poison, poison, poison, good]
    assert room.apologies == [poison]
    assert (row(poison).state, row(poison).reason, row(poison).attempts) == ("dead", "attempts", 3)
    assert row(good).state == "done"


def test_a_retry_has_a_wake_up_of_its_own(app, registration, accepted, time, sent):
    poison = accepted()
    sent.clear()
    Room({poison: ValueError("boom")}).run(registration)
    assert sent == [("inbox.drain", [registration.instance_id, "room"], 2.0)]


def test_an_apology_that_fails_leaves_a_dead_row_and_a_working_room(app, registration, accepted, time):
    poison, good = accepted(), accepted()
    room = Room({poison: ValueError("boom")})

    def broken(delivery):
        raise OSError("no network")

    room.apologise = broken
    for _ in range(20):
        room.run(registration)
        time.pass_(5)
    assert row(poison).state == "dead"
    assert row(good).state == "done"


def test_an_apology_that_ends_the_worker_is_not_tried_again(app, registration, accepted, time):
    poison = accepted()
    room = Room({poison: ValueError("boom")})

    def deadly(delivery):
        room.apologies.append(delivery.id)
        raise SystemExit

    room.apologise = deadly
    for _ in range(20):
        try:
            room.run(registration)
        except SystemExit:
            drain.recover()
        time.pass_(5)
    assert room.apologies == [poison]
    assert row(poison).state == "dead"


def test_later_is_no_failed_attempt(app, registration, accepted, time):
    delivery_id = accepted()
    wait = Verdict("later", Reason.LIMIT_WAIT, "in 30 s", delay=30)
    room = Room({delivery_id: [wait, wait, wait, wait, wait, ANSWERED]})
    for _ in range(6):
        room.run(registration)
        time.pass_(30)
    assert row(delivery_id).state == "done"
    assert row(delivery_id).attempts == 0


def test_later_is_over_after_a_day(app, registration, accepted, time):
    delivery_id = accepted()
    room = Room({delivery_id: Verdict("later", Reason.BREAKER_OPEN, "401", delay=3600)})
    for _ in range(30):
        room.run(registration)
        time.pass_(3600)
    found = row(delivery_id)
    assert (found.state, found.reason, found.detail) == ("dead", "waited_too_long", "breaker_open: 401")
    assert room.apologies == [delivery_id]


def test_what_another_worker_took_is_neither_given_up_nor_apologised_for(app, registration, accepted, time):
    delivery_id = accepted()

    def loses(*_):
        time.pass_(3600 * 24)
        claim.take_lane(registration.instance_id, "room", "another")
        return Verdict("later", Reason.INTERRUPTED)

    room = Room({delivery_id: loses})
    room.run(registration)
    assert (row(delivery_id).state, row(delivery_id).attempts, room.apologies) == ("queued", 1, [])


def test_rows_that_wait_for_a_limit_hold_up_nobody_and_are_not_looked_at_all_the_time(
    app, registration, accepted, time, sent, monkeypatch
):
    limited, passing = [accepted() for _ in range(3)], accepted()
    waits = Verdict("later", Reason.LIMIT_WAIT, "person", delay=30, hold=False)
    room = Room({delivery_id: [waits, ANSWERED] for delivery_id in limited})
    room.run(registration)
    assert room.handled == [*limited, passing]
    assert {row(delivery_id).reason for delivery_id in limited} == {"limit_wait"}
    with monkeypatch.context() as patch:
        patch.setattr(claim, "take_lane", lambda *_: pytest.fail("a lane was taken"))
        room.run(registration)
        time.pass_(29)
        room.run(registration)
        assert claim.due() == []
    newcomer = accepted()
    room.run(registration)
    time.pass_(4)
    assert claim.due() == [(registration.instance_id, "room")]
    room.run(registration)
    assert room.handled == [*limited, passing, newcomer, *limited]


def test_a_busy_room_gives_its_slot_back_and_asks_for_another(app, registration, accepted, time, sent):
    ids = [accepted() for _ in range(10)]
    sent.clear()
    room = Room({delivery_id: lambda *_: time.pass_(10) or ANSWERED for delivery_id in ids})
    room.run(registration)
    assert room.handled == ids[:3]
    assert sent == [("inbox.drain", [registration.instance_id, "room"], 0.0)]
    assert claim.take_lane(registration.instance_id, "room", "another") is not None


def test_a_handler_that_takes_long_keeps_its_lane_by_renewing(app, registration, accepted, time):
    delivery_id = accepted()
    kept = []

    def long(_, renew):
        for _ in range(300):
            time.pass_(1)
            kept.append(renew())
        assert claim.take_lane(registration.instance_id, "room", "another") is None
        return ANSWERED

    Room({delivery_id: long}).run(registration)
    assert all(kept)
    assert row(delivery_id).state == "done"


def test_renewing_asks_the_database_every_ten_seconds_only(app, registration, accepted, time, monkeypatch):
    delivery_id = accepted()
    asked = []
    monkeypatch.setattr(claim, "renew", lambda lane: asked.append(lane) or True)

    def long(_, renew):
        for _ in range(1000):
            time.pass_(0.1)
            renew()
        return ANSWERED

    Room({delivery_id: long}).run(registration)
    assert 8 <= len(asked) <= 10


def test_a_handler_that_lost_its_lane_is_told_and_changes_nothing(app, registration, accepted, time):
    delivery_id, behind = accepted(), accepted()
    told = []

    def stuck(_, renew):
        time.pass_(61)
        other = claim.take_lane(registration.instance_id, "room", "another")
        claim.next_delivery(other)
        told.append(renew())
        return ANSWERED

    room = Room({delivery_id: stuck})
    room.run(registration)
    assert told == [False]
    assert room.handled == [delivery_id]
    assert (row(delivery_id).state, row(delivery_id).attempts) == ("claimed", 1)
    assert row(behind).state == "queued"


def test_the_sweep_wakes_rooms_that_lost_their_wake_up_once_each(app, registration, accepted, time, sent):
    for _ in range(3):
        accepted("lost")
    accepted("lost too")
    sent.clear()
    time.pass_(5)
    assert drain.recover() == 2
    assert drain.recover() == 0
    assert sorted(args for _, args, _ in sent) == [
        [registration.instance_id, "lost"],
        [registration.instance_id, "lost too"],
    ]
    assert {name for name, _, _ in sent} == {"inbox.wake"}


def test_the_sweep_brings_what_a_dead_worker_left(app, registration, accepted, time, sent):
    delivery_id = accepted()
    claim.running(claim.next_delivery(claim.take_lane(registration.instance_id, "room", "dead")))
    sent.clear()
    drain.recover()
    assert (row(delivery_id).state, sent) == ("running", [])
    time.pass_(61)
    drain.recover()
    assert (row(delivery_id).state, row(delivery_id).attempts) == ("queued", 1)
    time.pass_(3)
    drain.recover()
    assert sent == [("inbox.wake", [registration.instance_id, "room"], 0.0)]
    room = Room()
    room.run(registration)
    assert room.handled == [delivery_id]


def test_a_worker_that_dies_of_one_message_every_time_goes_on_with_the_next(app, registration, accepted, time):
    deadly, good = accepted(), accepted()
    room = Room({deadly: lambda *_: (_ for _ in ()).throw(SystemExit())})
    for _ in range(12):
        try:
            room.run(registration)
        except SystemExit:
            time.pass_(61)
            drain.recover()
    assert room.handled == [deadly, deadly, deadly, good]
    assert row(deadly).state == "dead"
    assert room.apologies == [deadly]


def test_one_room_in_trouble_does_not_hold_another(app, registration, accepted, time):
    poison, other = accepted("one"), accepted("two")
    room = Room({poison: ValueError("boom")})
    room.run(registration, "one")
    room.run(registration, "two")
    assert row(other).state == "done"


def test_a_thousand_rows_of_one_room_behind_a_waiting_one_are_passed_in_order(app, registration, accepted, time):
    first = accepted()
    rest = [accepted() for _ in range(200)]
    room = Room({first: [Verdict("later", Reason.BREAKER_OPEN, delay=600), ANSWERED]})
    room.run(registration)
    time.pass_(61)
    room.run(registration)
    assert room.handled == [first, *rest]
    time.pass_(600)
    room.run(registration)
    assert row(first).state == "done"


def test_deliveries_are_worked_off_on_every_database(any_app, sent):
    registration = events.registration()
    ids = [accept(registration, random=f"{n}", body=b"{}", event=events.message()) for n in range(5)]
    room = Room({ids[1]: [Verdict("later", Reason.SEND_LATER, delay=1.0)], ids[2]: Verdict("dead", Reason.REFUSED)})
    room.script[ids[1]].append(ANSWERED)
    room.run(registration)
    assert room.handled == ids[:2]
    clock.sleep(1.1)
    room.run(registration)
    assert [row(delivery_id).state for delivery_id in ids] == ["done", "done", "dead", "done", "done"]
    claim.take_lane(registration.instance_id, "room", "dead")
    assert claim.due() == claim.orphaned() == []
    assert claim.release_all() == 0
    assert jobs.queued() == 0
