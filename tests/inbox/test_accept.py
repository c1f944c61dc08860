from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from app.inbox.accept import accept, fitted
from app.inbox.models import Delivery
from app.infra import clock, jobs
from app.infra.db import Base, db, reading
from app.platforms.models import Registration
from tests.fakes import events


def rows() -> list[Delivery]:
    with reading() as session:
        return list(session.scalars(select(Delivery).order_by(Delivery.id)))


def seen(registration: Registration) -> Registration:
    with reading() as session:
        found = session.get(Registration, registration.id)
    assert found is not None
    return found


def in_threads(app: Flask, number: int, run: Callable[[int], Any]) -> list[Any]:
    barrier = threading.Barrier(number)

    def one(index: int) -> Any:
        with app.app_context():
            barrier.wait()
            return run(index)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


def test_an_event_is_stored_whole_and_wakes_a_worker(app, registration, sent):
    event = events.message("gnep8qi4", "3")
    stored = accept(registration, random="R" * 64, body=b'{"type":"Create"}', event=event)
    (row,) = rows()
    assert (row.id, row.room, row.kind, row.actor, row.object_id) == (stored, "gnep8qi4", "message", "users/ada", "3")
    assert (row.state, row.reason, row.attempts, row.body) == ("queued", "", 0, b'{"type":"Create"}')
    assert row.instance_id == registration.instance_id
    assert sent == [("inbox.drain", [registration.instance_id, "gnep8qi4"], 0.0)]


def test_the_same_request_is_taken_once(app, registration, sent):
    assert accept(registration, random="R" * 64, body=b"{}", event=events.message(kind="reaction"))
    assert accept(registration, random="R" * 64, body=b"{}", event=events.message(kind="reaction")) is None
    assert len(rows()) == len(sent) == 1


def test_the_same_random_for_another_registration_is_another_request(app, registration):
    other = events.registration(registration.instance_id)
    assert accept(registration, random="R" * 64, body=b"{}", event=events.message())
    assert accept(other, random="R" * 64, body=b"{}", event=events.message())


@pytest.mark.parametrize("kind", ["message", "system"])
def test_the_same_message_with_another_random_is_taken_once(app, registration, kind):
    assert accept(registration, random="a" * 64, body=b"{}", event=events.message("room", "7", kind=kind))
    assert accept(registration, random="b" * 64, body=b"{}", event=events.message("room", "7", kind=kind)) is None
    assert accept(registration, random="c" * 64, body=b"{}", event=events.message("other", "7", kind=kind))


@pytest.mark.parametrize("kind", ["reaction", "unreaction", "join", "leave", "unknown"])
def test_what_may_happen_again_to_the_same_message_is_taken_again(app, registration, kind):
    assert accept(registration, random="a" * 64, body=b"{}", event=events.message("room", "7", kind=kind))
    assert accept(registration, random="b" * 64, body=b"{}", event=events.message("room", "7", kind=kind))


def test_messages_without_an_id_are_never_taken_for_each_other(app, registration):
    for random in ("a" * 64, "b" * 64):
        event = events.message("room", "1")
        nameless = events.message("room", None, text=event.text)
        object.__setattr__(nameless, "object_id", None)
        assert accept(registration, random=random, body=b"{}", event=nameless)


def test_of_sixteen_equal_requests_at_one_moment_one_makes_a_row(any_app):
    registration = events.registration()
    event = events.message("room", "7")
    won = in_threads(any_app, 16, lambda _: accept(registration, random="R" * 64, body=b"{}", event=event))
    assert len([number for number in won if number]) == 1
    assert [row.id for row in rows()] == [number for number in won if number]


def test_of_sixteen_copies_of_a_message_with_their_own_randoms_one_makes_a_row(any_app):
    registration = events.registration()
    event = events.message("room", "7")
    won = in_threads(any_app, 16, lambda n: accept(registration, random=f"{n:064}", body=b"{}", event=event))
    assert len([number for number in won if number]) == 1
    assert len(rows()) == 1


def test_different_events_at_one_moment_are_all_stored(any_app):
    registration = events.registration()

    def eight(thread: int) -> list[int | None]:
        made = [events.message(f"room{n % 3}", f"{thread}{n}") for n in range(8)]
        return [accept(registration, random=f"{thread}-{n}", body=b"{}", event=e) for n, e in enumerate(made)]

    won = [number for numbers in in_threads(any_app, 16, eight) for number in numbers]
    assert None not in won
    assert len(set(won)) == len(rows()) == 128


def test_values_that_no_database_takes_are_made_to_fit(any_app):
    registration = events.registration()
    for number, bad in enumerate(("x" * 5000, "a\x00b", "a\ud800b", "\U0001f600" * 300)):
        for field in ("room", "object_id", "name", "actor"):
            value = events.Actor("users", bad, "Ada") if field == "actor" else bad
            event = events.message(**{"object_id": f"{field}{number}", field: value})
            assert accept(registration, random=f"{bad}{field}", body=b"\x00\xff" * 1000, event=event)
            assert accept(registration, random=f"another {number}{field}", body=b"", event=event) is None
    stored = rows()
    assert len(stored) == 16
    assert all(len(row.room) <= 64 and len(row.actor) <= 255 and row.body == b"\x00\xff" * 1000 for row in stored)


def test_rooms_whose_long_names_begin_alike_can_not_be_abused_to_share_a_lane(app, registration):
    accept(registration, random="a", body=b"", event=events.message("r" * 100 + "1"))
    accept(registration, random="b", body=b"", event=events.message("r" * 100 + "2"))
    one, two = rows()
    assert one.room != two.room
    assert fitted("a\x00b", 64) != fitted("ab", 64) == "ab"


def test_an_event_is_accepted_although_nobody_could_be_woken(app, registration, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise OSError("the broker is away")

    monkeypatch.setattr(jobs.jobs, "sender", broken)
    assert accept(registration, random="R", body=b"{}", event=events.message())
    assert len(rows()) == 1


def test_an_event_that_can_not_be_stored_is_not_accepted(app, registration, sent):
    Base.metadata.tables[Delivery.__tablename__].drop(db.engine)
    with pytest.raises(DBAPIError):
        accept(registration, random="R", body=b"{}", event=events.message())
    assert sent == []


def test_the_last_event_is_noted_at_most_once_a_minute(app, registration, time):
    def come(backend: str) -> None:
        now = seen(registration)
        accept(now, random=backend, body=b"{}", event=events.message(), backend=backend)

    come("https://one.example.org/")
    first = time.moment
    time.pass_(30)
    come("https://two.example.org/")
    assert (seen(registration).last_event_at, seen(registration).backend_seen) == (first, "https://one.example.org/")
    time.pass_(31)
    come("https://three.example.org/")
    assert seen(registration).last_event_at == first + timedelta(seconds=61)
    assert seen(registration).backend_seen == "https://three.example.org/"


def test_an_event_without_a_backend_keeps_the_one_that_was_seen(app, registration, time):
    accept(registration, random="a", body=b"", event=events.message(), backend="https://one.example.org/")
    time.pass_(100)
    accept(seen(registration), random="b", body=b"", event=events.message())
    assert seen(registration).backend_seen == "https://one.example.org/"
    assert seen(registration).last_event_at == clock.now()


def test_a_body_of_two_mebibytes_is_stored(any_app):
    registration = events.registration()
    body = bytes(range(256)) * 8192
    assert accept(registration, random="R", body=body, event=events.message())
    with reading() as session:
        assert session.scalar(select(func.length(Delivery.body))) == len(body)
