from __future__ import annotations

from datetime import timedelta
from typing import Any

from flask import Flask
from sqlalchemy import select, update

from app.inbox.models import Delivery
from app.infra import clock, jobs
from app.infra.db import reading, transaction
from app.rooms.limits import line, slots
from app.rooms.limits.models import TurnSlot
from app.rooms.limits.slots import Asking, Wait
from app.rooms.limits.terms import Terms
from app.settings import store
from tests.conftest import Sent
from tests.rooms.limits.conftest import Time, terms, turn


def due_in(one: Asking) -> float:
    with reading() as session:
        due = session.scalars(select(Delivery.due_at).where(Delivery.id == one.delivery_id)).one()
    return (due - clock.now()).total_seconds()


def in_line(number: int, **how: Any) -> list[Asking]:
    """A turn that has begun, and so many that wait for it."""
    slots.ask(turn(**how), terms(person=1))
    waiting = [turn(**how) for _ in range(number)]
    for one in waiting:
        slots.ask(one, terms(person=1))
    return waiting


def end(one: Asking, state: str = "done") -> None:
    with transaction() as session:
        session.execute(update(Delivery).where(Delivery.id == one.delivery_id).values(state=state))


def test_those_whose_time_was_computed_from_other_settings_ask_anew(any_app: Flask, time: Time) -> None:
    first, second = in_line(2)
    assert line.replan("mark") == []
    assert min(due_in(first), due_in(second)) > 3000
    assert line.replan("another") == [(1, "room")]
    assert (due_in(first), due_in(second)) == (0, 0)
    # Whoever asks first finds nobody in front of it who is due later.
    assert slots.ask(second, terms(person=4, mark="another")).wait is None
    assert slots.ask(first, terms(person=4, mark="another")).wait is None
    assert line.replan("another") == []


def test_those_behind_somebody_who_has_left_the_line_move_up(any_app: Flask, time: Time) -> None:
    first, second, third = in_line(3)
    (other,) = in_line(1, actor="users/bob", room="another")
    end(second)
    assert line.replan("mark") == [(1, "room")]
    assert due_in(third) == 0
    assert due_in(other) > 3000
    slot = slots.ask(first, terms(person=1)), slots.ask(third, terms(person=1))
    assert [round(each.seconds) for each in slot] in ([60, 120], [60, 121])
    assert line.replan("mark") == []
    assert line.seen().waiting == 3


def test_those_behind_somebody_who_has_left_the_line_of_a_model_move_up(app: Flask, time: Time) -> None:
    wait = Wait("model", clock.now() + timedelta(seconds=600), "primary")
    first, second, elsewhere = turn(), turn("another", instance_id=2), turn("third")
    for one in (first, second):
        slots.ask(one, terms(), model=wait)
    slots.ask(elsewhere, terms(), model=Wait("model", wait.until, "secondary"))
    end(first, "ignored")
    assert line.replan("mark") == [(2, "another")]


def test_only_what_waits_for_a_limit_is_hurried(app: Flask, time: Time) -> None:
    first, second, third = in_line(3)
    with transaction() as session:
        waits = update(Delivery).where(Delivery.id == first.delivery_id)
        session.execute(waits.values(reason="breaker_open"))
    end(second, "running")
    assert line.hurry() == [(1, "room")]
    assert due_in(first) > 3000
    assert due_in(second) > 3000
    assert due_in(third) == 0


def test_the_line_is_hurried_and_counted_by_instance(app: Flask, time: Time) -> None:
    in_line(2)
    in_line(1, room="elsewhere", instance_id=2)
    seen = line.seen(1)
    assert (seen.waiting, seen.kinds) == (2, {"person": 2})
    assert seen.last_due is not None
    assert seen.last_due > clock.now() + timedelta(seconds=119)
    assert line.seen().waiting == 3
    assert line.hurry(2) == [(2, "elsewhere")]
    assert len(line.hurry()) == 1
    assert line.seen(3) == line.Line(0, {}, None)


def test_the_job_wakes_the_rooms_in_which_a_changed_limit_counts(app: Flask, sent: Sent, time: Time) -> None:
    one = turn()
    store.set("turns_per_person_minute", 1)
    slots.ask(turn(), Terms.read())
    slots.ask(one, Terms.read())
    jobs.jobs.tasks["rooms.replan"].run()
    assert list(sent) == []
    store.set("rate_limits", {"*": {"minute": 3}})
    jobs.jobs.tasks["rooms.replan"].run()
    assert list(sent) == [("inbox.drain", [1, "room"], 0.0)]
    assert due_in(one) == 0


def test_the_mark_changes_with_each_setting_that_counts(app: Flask) -> None:
    marks = {Terms.read().mark}
    for name, value in (
        ("turns_per_room_minute", 3),
        ("turns_per_person_minute", 3),
        ("turn_wait_minutes", 3),
        ("max_retry_wait", 3),
        ("rate_limits", {"primary": {"day": 3}}),
        ("fallback_model", "offline:quote"),
        ("fallback_on", "connection"),
    ):
        store.set(name, value)
        marks.add(Terms.read().mark)
    assert len(marks) == 8
    store.set("language", "de")
    assert Terms.read().mark in marks


def test_nobody_who_left_stays_in_the_table(app: Flask, time: Time) -> None:
    in_line(2)
    with transaction() as session:
        session.execute(update(Delivery).values(state="done"))
    line.replan("mark")
    with reading() as session:
        assert session.scalars(select(TurnSlot.state)).all() == ["begun"]
