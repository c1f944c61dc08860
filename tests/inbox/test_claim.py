from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import select, text, update

from app.inbox import claim
from app.inbox.accept import accept
from app.inbox.models import Delivery, Lane
from app.inbox.reasons import Reason
from app.infra import clock, jobs
from app.infra.db import insert_once, reading, transaction
from app.traces import record
from app.traces.models import TurnTrace
from tests.fakes import events


def row(delivery_id):
    with reading() as session:
        return session.get(Delivery, delivery_id)


def take(registration, room="room", holder="one"):
    return claim.take_lane(registration.instance_id, room, holder)


def test_one_worker_at_a_time_holds_a_room(app, registration, time):
    lane = take(registration)
    assert lane is not None
    assert take(registration, holder="two") is None
    assert take(registration, "another room", "two") is not None
    claim.release(lane)
    assert take(registration, holder="two") is not None


def test_of_sixteen_workers_at_one_moment_one_gets_a_room_that_nobody_had_before(any_app):
    barrier = threading.Barrier(16)

    def one(number):
        with any_app.app_context():
            barrier.wait()
            return claim.take_lane(1, "room", f"holder {number}")

    with ThreadPoolExecutor(16) as pool:
        lanes = [lane for lane in pool.map(one, range(16)) if lane]
    assert len(lanes) == 1
    with reading() as session:
        assert session.scalars(select(Lane.holder)).all() == [lanes[0].holder]


def test_a_lease_is_over_after_a_minute_and_not_before(app, registration, time):
    first = take(registration)
    time.pass_(59)
    assert take(registration, holder="two") is None
    assert claim.renew(first)
    time.pass_(59)
    assert take(registration, holder="two") is None
    time.pass_(2)
    assert take(registration, holder="two") is not None
    assert not claim.renew(first)


def test_who_lost_a_lane_does_not_release_it_for_another(app, registration, time):
    first = take(registration)
    time.pass_(61)
    take(registration, holder="two")
    claim.release(first)
    assert take(registration, holder="three") is None


def test_deliveries_of_a_room_are_claimed_in_order_and_each_once(any_app):
    registration = events.registration()
    ids = [accept(registration, random=f"{n}", body=b"{}", event=events.message()) for n in range(5)]
    lane = take(registration)
    claimed = [claim.next_delivery(lane) for _ in range(6)]
    assert [found.id for found in claimed[:5]] == ids
    assert claimed[5] is None
    assert {found.state for found in claimed[:5]} == {"claimed"}
    assert all(claim.finish(found, "done", Reason.ANSWERED) for found in claimed[:5])
    assert {row(delivery_id).state for delivery_id in ids} == {"done"}


def test_a_delivery_goes_from_claimed_to_running_to_done(app, registration, accepted):
    delivery_id = accepted()
    delivery = claim.next_delivery(take(registration))
    assert row(delivery_id).state == "claimed"
    assert claim.running(delivery)
    assert row(delivery_id).state == "running"
    assert claim.finish(delivery, "done", Reason.ANSWERED, "two parts", turn_id=7)
    done = row(delivery_id)
    assert (done.state, done.reason, done.detail, done.turn_id) == ("done", "answered", "two parts", 7)
    assert done.finished_at is not None
    assert not claim.finish(delivery, "dead", Reason.REFUSED)


def test_who_lost_a_lane_claims_finishes_and_runs_nothing_any_more(app, registration, accepted, time):
    accepted()
    last = accepted()
    old = take(registration)
    zombie = claim.next_delivery(old)
    time.pass_(61)
    new = take(registration, holder="two")
    assert not claim.running(zombie)
    assert not claim.finish(zombie, "done", Reason.ANSWERED)
    assert not claim.give_back(zombie, Reason.RETRY, delay=0)
    assert claim.next_delivery(old) is None
    again = claim.next_delivery(new)
    assert (again.id, again.attempts) == (zombie.id, 1)
    assert not claim.finish(zombie, "done", Reason.ANSWERED)
    assert claim.finish(again, "done", Reason.ANSWERED)
    assert claim.next_delivery(new).id == last


def test_a_takeover_marks_the_turn_of_the_dead_worker_as_interrupted(app, registration, accepted, time):
    delivery_id = accepted()
    claim.next_delivery(take(registration))
    turn = record.start(registration.instance_id, delivery_id)
    done = record.start(registration.instance_id, delivery_id)
    record.finish(done, "success")
    time.pass_(61)
    claim.next_delivery(take(registration, holder="two"))
    with reading() as session:
        assert session.get(TurnTrace, turn).status == "interrupted"
        assert session.get(TurnTrace, done).status == "success"
    assert not record.finish(turn, "success")


def test_a_row_that_waits_for_another_try_keeps_its_place_for_a_minute_and_no_longer(app, registration, accepted, time):
    first, second = accepted(), accepted()
    lane = take(registration)
    assert claim.give_back(claim.next_delivery(lane), Reason.RETRY, delay=20)
    assert claim.next_delivery(lane) is None
    assert not claim.ready(registration.instance_id, "room")
    time.pass_(20)
    assert claim.ready(registration.instance_id, "room")
    again = claim.next_delivery(lane)
    assert (again.id, again.attempts) == (first, 1)
    assert claim.give_back(again, Reason.RETRY, delay=100)
    time.pass_(39)
    assert claim.next_delivery(lane) is None
    time.pass_(2)
    passed = claim.next_delivery(lane)
    assert passed.id == second
    claim.finish(passed, "done", Reason.ANSWERED)
    time.pass_(60)
    assert claim.next_delivery(lane).id == first


def test_a_row_that_waits_long_does_not_hold_its_room_a_second_time(app, registration, accepted, time):
    first, second = accepted(), accepted()
    lane = take(registration)
    claim.give_back(claim.next_delivery(lane), Reason.LIMIT_WAIT, delay=3600, failed=False)
    time.pass_(61)
    claim.finish(claim.next_delivery(lane), "done", Reason.ANSWERED)
    time.pass_(3600)
    again = claim.next_delivery(lane)
    assert (again.id, again.attempts) == (first, 0)
    claim.give_back(again, Reason.LIMIT_WAIT, delay=3600, failed=False)
    third = accepted()
    assert claim.next_delivery(lane).id == third
    assert second != third


def test_a_row_that_held_its_room_for_a_try_does_not_when_it_waits_for_a_limit(app, registration, accepted, time):
    first, second = accepted(), accepted()
    lane = take(registration)
    claim.give_back(claim.next_delivery(lane), Reason.RETRY, delay=2)
    time.pass_(2)
    claim.give_back(claim.next_delivery(lane), Reason.LIMIT_WAIT, delay=20, failed=False, hold=False)
    assert claim.ready(registration.instance_id, "room")
    assert claim.next_delivery(lane).id == second
    assert not claim.ready(registration.instance_id, "room")
    time.pass_(20)
    assert claim.next_delivery(lane).id == first


def test_only_rows_that_wait_for_a_limit_are_hurried(any_app):
    registration = events.registration()
    ids = [accept(registration, random=f"{n}", body=b"{}", event=events.message(f"room {n % 2}")) for n in range(5)]
    lanes = [take(registration, room) for room in ("room 0", "room 1")]
    for lane, reason in ((lanes[0], Reason.LIMIT_WAIT), (lanes[1], Reason.SEND_LATER), (lanes[0], Reason.LIMIT_WAIT)):
        claim.give_back(claim.next_delivery(lane), reason, delay=3600, failed=False, hold=False)
    due = [row(delivery_id).due_at for delivery_id in ids]
    assert claim.hurry_limited(ids) == [(registration.instance_id, "room 0")]
    hurried = [row(delivery_id).due_at != before for delivery_id, before in zip(ids, due, strict=True)]
    assert hurried == [True, False, True, False, False]
    assert claim.hurry_limited(ids) == []
    assert claim.next_delivery(lanes[0]).id == ids[0]


def test_a_row_of_a_machine_whose_clock_is_ahead_keeps_its_order(app, registration, accepted, time):
    first, second = accepted(), accepted()
    with transaction() as session:
        ahead = update(Delivery).where(Delivery.id == first)
        session.execute(ahead.values(due_at=time.moment + timedelta(seconds=5)))
    lane = take(registration)
    assert [claim.next_delivery(lane).id, claim.next_delivery(lane).id] == [first, second]


def test_rooms_with_due_rows_that_nobody_works_on_are_found(app, registration, accepted, time):
    accepted("idle")
    accepted("held")
    take(registration, "held")
    assert claim.due() == []  # their wake-ups are on their way
    time.pass_(3)
    assert claim.due() == [(registration.instance_id, "idle")]
    time.pass_(58)
    assert sorted(claim.due()) == [(registration.instance_id, "held"), (registration.instance_id, "idle")]


def test_rows_of_dead_workers_are_found_and_those_of_live_ones_are_not(app, registration, accepted, time):
    for room in ("live", "dead", "released"):
        accepted(room)
        lane = take(registration, room)
        claim.next_delivery(lane)
        if room == "released":
            claim.release(lane)
    assert claim.orphaned() == [(registration.instance_id, "released")]
    time.pass_(61)
    assert len(claim.orphaned()) == 3


def test_the_start_of_an_embedded_process_frees_everything_at_once(app, registration, accepted, time, sent):
    first, second = accepted("a"), accepted("b")
    lane = take(registration, "a")
    claim.running(claim.next_delivery(lane))
    jobs.enqueue(claim.WAKE, registration.instance_id, "b", key="lost with the memory of the last process")
    assert claim.release_all() == 1
    assert jobs.queued() == 0
    assert (row(first).state, row(first).attempts, row(first).reason) == ("queued", 1, "interrupted")
    assert (row(second).state, row(second).attempts) == ("queued", 0)
    assert take(registration, "a", "two") is not None


def test_a_dead_row_can_be_tried_again_with_all_its_attempts(app, registration, accepted, time):
    delivery_id = accepted()
    assert not claim.retry(delivery_id)
    delivery = claim.next_delivery(take(registration))
    assert not claim.retry(delivery_id)
    claim.finish(delivery, "dead", Reason.ATTEMPTS)
    assert claim.retry(delivery_id)
    again = row(delivery_id)
    assert (again.state, again.reason, again.attempts, again.finished_at) == ("queued", "asked_again", 0, None)


@pytest.mark.parametrize("failed", [1, 2, 3, 9])
def test_the_pause_between_tries_is_bounded(failed):
    assert 0 < claim.backoff(failed) <= 60


def test_the_queries_of_a_wake_up_use_an_index_whatever_the_number_of_rows(app, registration):
    instance_id = registration.instance_id
    with transaction() as session:
        for number in range(300):
            values = {"room": f"room{number % 10}", "state": "queued" if number % 3 else "done"}
            fixed = {"kind": "message", "due_at": clock.now(), "received_at": clock.now(), "attempts": 0}
            names = {"registration_id": 1, "instance_id": instance_id, "random_digest": str(number), "actor": ""}
            insert_once(session, jobs.table(Delivery), values | fixed | names | {"name": "", "reason": ""})
    plans = []
    wheres = {
        "next": claim._next(instance_id, "room1", clock.now()),
        "unfinished": [Delivery.instance_id == instance_id, Delivery.room == "room1", Delivery.state.in_(("claimed",))],
    }
    with reading() as session:
        for where in wheres.values():
            query = select(Delivery.id).where(*where).order_by(Delivery.id).limit(1)
            sql = str(query.compile(session.connection(), compile_kwargs={"literal_binds": True}))
            plans.append(" ".join(str(step[3]) for step in session.execute(text(f"EXPLAIN QUERY PLAN {sql}"))))
    assert all("USING" in plan and "INDEX" in plan and "instance_id=? AND room=? AND state=?" in plan for plan in plans)
    assert not any("SCAN" in plan or "TEMP B-TREE" in plan for plan in plans)
