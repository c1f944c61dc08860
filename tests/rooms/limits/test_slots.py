from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from flask import Flask
from sqlalchemy import func, select, update

from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import reading, transaction
from app.rooms.limits import slots
from app.rooms.limits.models import TurnGate, TurnSlot
from app.rooms.limits.slots import Asking, Slot, Wait
from app.rooms.limits.terms import Terms
from tests.rooms.limits.conftest import Time, terms, turn

MARGIN = 0.51


def ask(asking: Asking, limits: Terms) -> Slot:
    return slots.ask(asking, limits)


def begun() -> int:
    with reading() as session:
        return session.scalar(select(func.count()).select_from(TurnSlot).where(TurnSlot.state == "begun")) or 0


def close(asking: Asking, state: str = "done") -> None:
    with transaction() as session:
        session.execute(update(Delivery).where(Delivery.id == asking.delivery_id).values(state=state))


def at_once(app: Flask, jobs: list[Callable[[], Slot]]) -> list[Slot]:
    """Runs all of them in threads of their own, at one moment."""
    barrier = threading.Barrier(len(jobs))

    def one(job: Callable[[], Slot]) -> Slot:
        with app.app_context():
            barrier.wait()
            return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(one, jobs))


def test_two_rooms_of_one_person_can_not_be_abused_to_take_the_last_place_twice(any_app: Flask) -> None:
    limits = terms(room=20, person=3)
    turns = [turn(f"room{number}") for number in range(12)]
    got = at_once(any_app, [lambda one=one: ask(one, limits) for one in turns])
    assert sum(slot.wait is None for slot in got) == 3 == begun()
    with reading() as session:
        starts = session.scalars(select(TurnSlot.at).where(TurnSlot.state == "begun").order_by(TurnSlot.at)).all()
    waits = sorted(slot.wait.until for slot in got if slot.wait is not None)
    assert len(waits) == 9
    for number, until in enumerate(waits):
        minutes = timedelta(minutes=number // 3 + 1)
        assert starts[number % 3] + minutes < until < starts[-1] + minutes + timedelta(seconds=3 * MARGIN)


def test_many_people_in_many_rooms_lock_each_other_out_of_nothing(any_app: Flask) -> None:
    limits = terms(room=4, person=3)
    turns = [turn(f"room{number % 3}", f"users/p{number % 4}") for number in range(24)]
    got = at_once(any_app, [lambda one=one: ask(one, limits) for one in turns])
    assert len(got) == 24
    with reading() as session:
        rows = session.scalars(select(TurnSlot).where(TurnSlot.state == "begun")).all()
    for room in range(3):
        assert sum(row.room == f"room{room}" for row in rows) <= 4
    for person in range(4):
        assert sum(row.actor == f"users/p{person}" for row in rows) <= 3
    assert len(rows) >= 9


def test_the_same_turn_that_asks_twice_at_once_counts_once(any_app: Flask) -> None:
    limits, one = terms(room=5, person=5), turn()
    got = at_once(any_app, [lambda: ask(one, limits) for _ in range(6)])
    assert [slot.wait for slot in got] == [None] * 6
    assert begun() == 1


def test_places_are_handed_out_on_every_database(any_app: Flask, time: Time) -> None:
    limits = terms(room=2, person=10)
    first, second, third = turn(), turn(), turn()
    assert ask(first, limits).wait is None
    time.pass_(10)
    assert ask(second, limits).wait is None
    slot = ask(third, limits)
    assert slot.wait is not None
    assert slot.wait.kind == "room"
    assert 50 < slot.seconds < 50 + MARGIN
    time.pass_(slot.seconds)
    again = ask(third, limits)
    assert (again.wait, again.waited, again.since) == (None, True, slot.since)


def test_a_turn_that_a_crash_makes_ask_again_counts_once_and_never_waits(app: Flask, time: Time) -> None:
    limits = terms(person=2)
    first = turn()
    assert ask(first, limits).wait is None
    time.pass_(30)
    assert ask(turn(), limits).wait is None
    assert ask(first, limits).wait is None
    assert begun() == 2
    time.pass_(31)
    assert ask(turn(), limits).wait is None


def test_a_room_and_a_person_have_limits_of_their_own(app: Flask, time: Time) -> None:
    limits = terms(room=1, person=1)
    ask(turn("a", "users/mira"), limits)
    kinds = []
    for room, actor in (("a", "users/bob"), ("b", "users/mira"), ("b", "users/bob")):
        slot = ask(turn(room, actor), limits)
        kinds.append(None if slot.wait is None else slot.wait.kind)
    assert kinds == ["room", "person", None]
    assert ask(turn("a", "users/mira", instance_id=2), limits).wait is None


def test_nought_is_no_limit(app: Flask, time: Time) -> None:
    assert [ask(turn(), terms()).wait for _ in range(30)] == [None] * 30


def test_somebody_who_waits_for_their_own_limit_holds_up_nobody_in_the_room(app: Flask, time: Time) -> None:
    limits = terms(room=4, person=1)
    ask(turn(), limits)
    for _ in range(8):
        assert ask(turn(), limits).wait is not None
    assert ask(turn(actor="users/bob"), limits).wait is None


def test_first_come_first_served(app: Flask, time: Time) -> None:
    limits = terms(room=1)
    ask(turn(), limits)
    time.pass_(5)
    waiting = [turn() for _ in range(3)]
    dues = [ask(one, limits).seconds for one in waiting]
    assert dues == sorted(dues)
    assert [round(seconds - MARGIN / 2) for seconds in dues] == [55, 115, 175]
    # The place is free, and the one who waits for it has not come yet: a newcomer does not get it.
    time.pass_(56)
    late = ask(turn(), limits)
    assert late.wait is not None
    assert late.seconds > 170
    assert ask(waiting[1], limits).wait is not None
    assert ask(waiting[0], limits).wait is None


def test_whoever_is_stopped_or_does_not_come_keeps_no_place(app: Flask, time: Time) -> None:
    limits = terms(room=1)
    ask(turn(), limits)
    stopped, absent = turn(), turn()
    ask(stopped, limits)
    ask(absent, limits)
    close(stopped)
    newcomer = ask(turn(), limits)
    assert newcomer.wait is not None
    assert 110 < newcomer.seconds < 130
    time.pass_(3600)
    assert ask(turn(), limits).wait is None


def test_a_lowered_limit_counts_what_has_begun_and_a_raised_one_too(app: Flask, time: Time) -> None:
    for _ in range(3):
        ask(turn(), terms(person=5))
    one = turn()
    assert ask(one, terms(person=2)).wait is not None
    assert ask(one, terms(person=4)).wait is None
    assert ask(turn(), terms(person=4)).wait is not None


def test_a_clock_that_was_wrong_closes_no_room_for_long(app: Flask, time: Time) -> None:
    limits = terms(room=1)
    time.pass_(86_400)
    ask(turn(), limits)
    time.pass_(-86_400)
    assert ask(turn(), limits).wait is None
    time.pass_(-20)
    slot = ask(turn(), limits)
    assert slot.wait is not None
    assert slot.seconds < 81


def test_a_turn_that_is_put_off_gives_its_place_back(app: Flask, time: Time) -> None:
    limits = terms(room=1)
    one = turn()
    ask(one, limits)
    wait = Wait("model", clock.now() + timedelta(seconds=90), "primary")
    assert slots.put_off(one, limits, model=wait).wait == wait
    assert begun() == 0
    assert ask(turn(), limits).wait is None
    assert slots.ahead("primary", turn().answer_id) == 1
    assert slots.ahead("primary", one.answer_id) == 0
    assert slots.ahead("secondary", turn().answer_id) == 0


def test_the_longest_of_several_waits_counts(app: Flask, time: Time) -> None:
    limits = terms(room=1)
    for room, seconds, kind in (("a", 30, "room"), ("b", 90, "model")):
        ask(turn(room), limits)
        wait = Wait("model", clock.now() + timedelta(seconds=seconds), "primary")
        slot = slots.ask(turn(room), limits, model=wait)
        assert slot.wait is not None
        assert slot.wait.kind == kind


def test_a_person_is_told_once_a_minute_in_a_room(app: Flask, time: Time) -> None:
    limits = terms(person=1)
    ask(turn(), limits)
    first, second, elsewhere = turn(), turn(), turn("another")
    for one in (first, second, elsewhere):
        ask(one, limits)
    assert [slots.tell(one) for one in (first, second, elsewhere, first)] == [True, False, True, True]
    time.pass_(61)
    assert slots.tell(second)


def test_a_turn_that_was_refused_begins_anew_when_it_is_asked_again(app: Flask, time: Time) -> None:
    limits = terms(person=1)
    ask(turn(), limits)
    one = turn()
    ask(one, limits)
    slots.refuse(one.answer_id)
    time.pass_(7200)
    again = ask(one, limits)
    assert (again.wait, again.since) == (None, clock.now())


def test_what_counts_no_more_is_forgotten(app: Flask, time: Time) -> None:
    limits = terms(person=1)
    ask(turn(), limits)
    ask(turn(), limits)
    time.pass_(86_401)
    fresh = turn("another", "users/bob")
    ask(fresh, limits)
    assert slots.forget() == 1
    with reading() as session:
        assert sorted(session.scalars(select(TurnSlot.state))) == ["begun", "waiting"]
        assert sorted(session.scalars(select(TurnGate.name))) == ["person:users/bob", "room:another"]
    assert ask(turn(), limits).wait is None
