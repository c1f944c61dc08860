"""The sign of life of whoever takes events, and the gaps that it shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from app.accounts import instances, serviceuser
from app.accounts.models import Instance
from app.inbox.accept import accept
from app.inbox.gaps import reading as rooms_to_read
from app.inbox.gaps import told, watch
from app.inbox.gaps.models import Gap, RoomReading, SignOfLife
from app.inbox.gaps.watch import Watcher
from app.infra import clock, metrics
from app.infra.db import reading
from app.platforms import rooms
from tests.conftest import Sent
from tests.fakes import events
from tests.inbox.conftest import Time


def cloud(name: str = "cloud", *, service_user: bool = True) -> Instance:
    made = instances.add(name, f"https://{name}.example.test")
    return serviceuser.give(made.id, "parley", "app-password") if service_user else made


def gaps() -> Sequence[Gap]:
    with reading() as session:
        return session.scalars(select(Gap).order_by(Gap.id)).all()


def recovers(sent: Sent) -> list[list[Any]]:
    return [args for name, args, _ in sent if name == watch.RECOVER]


def test_the_first_start_of_all_has_nothing_to_look_back_to(any_app: Flask, sent: Sent) -> None:
    cloud()
    assert not watch.beat(unsure=True)
    assert (gaps(), recovers(sent)) == ([], [])


def test_the_first_start_after_an_older_version_looks_back_to_its_last_event(app: Flask, time: Time) -> None:
    home = cloud()
    accept(events.registration(home.id), random="r1", body=b"{}", event=events.message())
    began = clock.now()
    time.pass_(600)
    assert watch.beat(unsure=True)
    assert [(gap.began_at, gap.ended_at) for gap in gaps()] == [(began, clock.now())]


def test_a_start_and_a_silence_are_gaps_and_a_sign_in_time_is_none(any_app: Flask, sent: Sent, time: Time) -> None:
    home = cloud()
    watch.beat(unsure=True)
    began = clock.now()
    time.pass_(watch.SECONDS)
    assert not watch.beat(unsure=False)
    time.pass_(3)
    assert watch.beat(unsure=True)
    time.pass_(watch.SILENCE.total_seconds() + 1)
    assert watch.beat(unsure=False)
    assert [(gap.began_at, gap.ended_at) for gap in gaps()] == [
        (began + timedelta(seconds=10), began + timedelta(seconds=13)),
        (began + timedelta(seconds=13), began + timedelta(seconds=74)),
    ]
    # The second is queued already: one job reads the rooms for both.
    assert recovers(sent) == [[home.id]]


def test_only_servers_that_somebody_can_read_are_read_and_the_sandbox_has_no_gaps(
    any_app: Flask, sent: Sent, time: Time
) -> None:
    home, bare = cloud(), cloud("bare", service_user=False)
    instances.ensure_sandbox("http://127.0.0.1:8000")
    watch.beat(unsure=True)
    assert watch.beat(unsure=True)
    assert [(gap.instance_id, gap.reason, gap.finished_at is None) for gap in gaps()] == [
        (home.id, "", True),
        (bare.id, "no_service_user", False),
    ]
    assert recovers(sent) == [[home.id]]


def test_of_many_servers_that_start_at_once_one_notices_the_gap(any_app: Flask, sent: Sent) -> None:
    cloud()
    watch.beat(unsure=True)
    together(any_app, lambda: watch.beat(unsure=True), 8)
    # Whoever comes after the first begins where that one left off, and has a gap of its own without a length.
    real = [gap for gap in gaps() if gap.began_at == min(each.began_at for each in gaps())]
    assert len(real) == 1


def test_one_worker_reads_the_rooms_of_a_server(any_app: Flask, sent: Sent) -> None:
    home = cloud()
    watch.beat(unsure=True)
    watch.beat(unsure=True)
    won = together(any_app, lambda: rooms_to_read.claim(home.id), 8)
    assert len([each for each in won if each is not None]) == 1


def together(app: Flask, what: Callable[[], Any], count: int) -> list[Any]:
    results: list[Any] = []
    barrier = threading.Barrier(count)

    def run() -> None:
        with app.app_context():
            barrier.wait(10)
            results.append(what())

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == count
    return results


def test_open_gaps_are_read_as_one_and_what_a_dead_worker_left_is_read_again(app: Flask, time: Time) -> None:
    home = cloud()
    watch.beat(unsure=True)
    first = clock.now()
    for _ in range(2):
        time.pass_(100)
        watch.beat(unsure=False)
    gap = rooms_to_read.claim(home.id)
    assert gap is not None
    assert (gap.began, gap.ended, len(gap.ids)) == (first, clock.now(), 2)
    assert rooms_to_read.due() == []
    time.pass_(rooms_to_read.LEASE.total_seconds())
    assert rooms_to_read.due() == [home.id]
    rooms_to_read.put_off(gap, "unreachable", recovered=2)
    assert rooms_to_read.due() == []
    time.pass_(rooms_to_read.AGAIN.total_seconds())
    again = rooms_to_read.claim(home.id)
    assert again is not None
    rooms_to_read.finish(again, recovered=1)
    assert rooms_to_read.claim(home.id) is None
    assert {(each.recovered, each.reason) for each in gaps()} == {(3, "")}


def test_an_event_that_was_lost_is_a_gap_and_so_is_a_database_that_was_away(
    app: Flask, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud()
    watcher = Watcher(lost=metrics.events_lost())
    watcher.look()
    watcher.look()
    assert gaps() == []
    metrics.event_lost()
    watcher.look()
    watcher.look()
    assert len(gaps()) == 1

    def away(**_: Any) -> bool:
        raise OperationalError("UPDATE", {}, Exception("away"))

    with monkeypatch.context() as patch:
        patch.setattr(watch, "beat", away)
        watcher.look()
        watcher.look()
    watcher.look()
    assert len(gaps()) == 2
    watcher.look()
    assert len(gaps()) == 2


def test_what_one_of_several_servers_lost_is_missed_although_the_others_took_events(app: Flask, time: Time) -> None:
    cloud()
    here = Watcher(lost=metrics.events_lost())
    here.look()
    began = clock.now()
    time.pass_(50)
    watch.beat(unsure=False)
    metrics.event_lost()
    time.pass_(1)
    here.look()
    assert [gap.began_at for gap in gaps()] == [began]


def test_the_last_known_message_is_the_newest_told_before_the_gap(app: Flask, time: Time) -> None:
    registration = events.registration()
    other = events.registration(registration.instance_id)

    def known(before: datetime) -> int | None:
        return rooms_to_read.last_known(registration.id, registration.instance_id, "room", before=before)

    assert known(clock.now()) is None
    for id in ("9", "101", "100", "text"):
        accept(registration, random=f"r{id}", body=b"{}", event=events.message(object_id=id))
    accept(other, random="r500", body=b"{}", event=events.message(object_id="500"))
    accept(registration, random="r600", body=b"{}", event=events.message("elsewhere", object_id="600"))
    began = clock.now()
    time.pass_(10)
    accept(registration, random="r102", body=b"{}", event=events.message(object_id="102"))
    assert (known(began), known(clock.now())) == (101, 102)


def test_a_room_is_noted_once_and_what_was_left_out_is_remembered(any_app: Flask) -> None:
    home = cloud()
    room = rooms.seen(home.id, "r00m", "Harbour")
    rooms_to_read.note_room(room.id, "missing", left_out=True)
    rooms_to_read.note_room(room.id, None)
    with reading() as session:
        (noted,) = session.scalars(select(RoomReading)).all()
    assert (noted.reason, noted.left_out_at is not None) == ("", True)
    assert rooms_to_read.notes(home.id)[room.id].read_at == noted.read_at


def test_what_is_told_of_gaps(app: Flask, time: Time) -> None:
    home, bare = cloud(), cloud("bare", service_user=False)
    room = rooms.seen(home.id, "r00m", "Harbour")
    watch.beat(unsure=True)
    time.pass_(30)
    watch.beat(unsure=True)
    assert told.last(bare.id) is None
    time.pass_(3600)
    watch.beat(unsure=False)
    (sentence,) = told.sentences(told.last(bare.id), bare)
    assert "From 2026-03-02 09:00 UTC to 2026-03-02 10:00 UTC" in str(sentence)
    assert "instances service-user bare" in str(sentence)
    reading_now, late = told.sentences(told.last(home.id), home)
    assert "are being read" in str(reading_now)
    assert "before 2026-03-02 09:45 UTC" in str(late)
    gap = rooms_to_read.claim(home.id)
    assert gap is not None
    rooms_to_read.note_room(room.id, "missing")
    rooms_to_read.finish(gap, recovered=2)
    found = told.last(home.id)
    late, unread = told.sentences(found, home)
    assert "before 2026-03-02 09:45 UTC" in str(late)
    assert "Harbour (the service user is no member there, or it does not exist)" in str(unread)
    facts = told.facts(found)
    assert facts is not None
    assert (facts["recovered"], facts["reason"], facts["cut_rooms"]) == (2, "", [])
    assert facts["unread_rooms"] == [{"room": "r00m", "name": "Harbour", "reason": "missing"}]
    time.pass_(told.SHOWN_FOR.total_seconds() + 1)
    assert told.last(home.id) is None


def test_a_reading_that_failed_says_why(app: Flask, time: Time) -> None:
    home = cloud()
    watch.beat(unsure=True)
    watch.beat(unsure=True)
    gap = rooms_to_read.claim(home.id)
    assert gap is not None
    rooms_to_read.finish(gap, "refused")
    (sentence,) = told.sentences(told.last(home.id), home)
    assert "the server refused the service user's app password" in str(sentence)


def test_the_sign_of_life_is_one_row(app: Flask, time: Time) -> None:
    for _ in range(3):
        watch.beat(unsure=False)
        time.pass_(5)
    with reading() as session:
        assert len(session.scalars(select(SignOfLife)).all()) == 1
