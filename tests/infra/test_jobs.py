from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from app import config as configuration
from app import create_app
from app.infra import clock, jobs
from app.infra.db import Base, db, reading, transaction
from app.infra.jobs import PeriodicSlot, QueuedJob
from tests.conftest import SECRET_KEY, Sent
from tests.fakes import services
from tests.infra.test_db import run_together


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the jobs of these tests did; the tasks are gone after the test."""
    done: list[Any] = []
    monkeypatch.setattr(jobs.jobs, "tasks", dict(jobs.jobs.tasks))
    jobs.task("test.note", queue=jobs.TURNS)(done.append)
    jobs.task("test.work")(done.append)

    def note_and_fail(value: Any) -> None:
        done.append(value)
        raise ZeroDivisionError

    jobs.task("test.fail")(note_and_fail)
    jobs.task("test.slow")(time.sleep)

    def take(key: str) -> None:
        with transaction() as session:
            if jobs.taken(session, key):
                done.append(key)

    jobs.task("test.take")(take)
    jobs.periodic("test.every_minute", every=60)(lambda: done.append("tick"))
    jobs.periodic("test.often", every=1, queue=jobs.TURNS)(lambda: done.append("often"))
    return done


@pytest.fixture
def queued(ran: list[Any], any_app: Flask) -> Sent:
    sender = jobs.jobs.sender
    assert isinstance(sender, Sent)
    return sender


def test_a_job_leaves_only_after_the_commit(queued: Sent) -> None:
    with transaction():
        jobs.enqueue("test.note", 1)
        assert queued == []
    assert queued == [("test.note", [1], 0.0)]


def test_a_job_of_a_rolled_back_transaction_never_leaves(queued: Sent) -> None:
    with pytest.raises(ZeroDivisionError), transaction():
        jobs.enqueue("test.note", 1)
        jobs.enqueue("test.note", 2, key="k")
        raise ZeroDivisionError
    assert queued == []
    assert jobs.queued() == 0


def test_a_key_is_queued_once_until_it_is_taken(queued: Sent) -> None:
    assert jobs.enqueue("test.note", 1, key="room-1") is True
    assert jobs.enqueue("test.note", 2, key="room-1") is False
    assert jobs.enqueue("test.note", 3, key="room-2") is True
    assert [args for _, args, _ in queued] == [[1], [3]]
    assert jobs.queued() == 2
    with transaction() as session:
        assert jobs.taken(session, "room-1") is True
        assert jobs.taken(session, "room-1") is False
    assert jobs.enqueue("test.note", 4, key="room-1") is True


def test_a_key_stays_queued_when_the_work_that_took_it_is_rolled_back(queued: Sent) -> None:
    jobs.enqueue("test.note", 1, key="room-1")
    with pytest.raises(ZeroDivisionError), transaction() as session:
        assert jobs.taken(session, "room-1")
        raise ZeroDivisionError
    assert jobs.queued() == 1


def test_many_threads_queue_a_key_once(queued: Sent, any_app: Flask) -> None:
    def compete() -> None:
        with any_app.app_context():
            for number in range(8):
                jobs.enqueue("test.note", number, key=f"room-{number}")

    run_together(compete, 6)
    assert sorted(args[0] for _, args, _ in queued) == list(range(8))
    assert jobs.queued() == 8


def test_a_name_that_nobody_registered_is_refused_at_once(queued: Sent) -> None:
    with pytest.raises(LookupError):
        jobs.enqueue("test.unheard_of")


def test_the_sweep_sends_again_what_stayed_and_nothing_else(queued: Sent) -> None:
    jobs.enqueue("test.note", "old", key="old")
    jobs.enqueue("test.note", "fresh", key="fresh")
    jobs.enqueue("test.note", "later", key="later", delay=600)
    queued.clear()
    with transaction() as session:
        long_ago = clock.now() - timedelta(minutes=5)
        session.execute(update(QueuedJob).where(QueuedJob.key == "old").values(due_at=long_ago))
    jobs.sweep()
    assert queued == [("test.note", ["old"], 0.0)]
    jobs.sweep()
    assert len(queued) == 1


def test_after_a_start_everything_that_is_due_is_sent_again(queued: Sent) -> None:
    jobs.enqueue("test.note", 1, key="a")
    jobs.enqueue("test.note", 2, key="b", delay=600)
    queued.clear()
    assert jobs.resend() == 1
    assert queued == [("test.note", [1], 0.0)]


def test_a_queued_job_of_a_part_that_is_gone_stops_nothing(queued: Sent) -> None:
    with transaction() as session:
        for key, name in (("a", "test.gone"), ("b", "test.note")):
            old = clock.now() - timedelta(hours=1)
            session.add(QueuedJob(key=key, name=name, args=[key], due_at=old, created_at=old))
    jobs.sweep()
    assert queued == [("test.note", ["b"], 0.0)]


def test_periodic_work_runs_once_a_slot_however_many_beats_tick(
    ran: list[Any], any_app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start)

    def beat() -> None:
        with any_app.app_context():
            for _ in range(3):
                jobs.tick("test.every_minute")

    run_together(beat, 6)
    assert ran == ["tick"]
    monkeypatch.setattr(clock, "now", lambda: start + timedelta(seconds=60))
    run_together(beat, 6)
    assert ran == ["tick", "tick"]
    with reading() as session:
        assert len(session.scalars(select(PeriodicSlot).where(PeriodicSlot.name == "test.every_minute")).all()) == 1


def test_a_beat_whose_clock_is_behind_runs_nothing(ran: list[Any], app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    start = clock.now()
    jobs.tick("test.every_minute")
    monkeypatch.setattr(clock, "now", lambda: start - timedelta(minutes=3))
    jobs.tick("test.every_minute")
    assert ran == ["tick"]


def test_a_worker_is_alive_while_its_sweep_comes(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.alive() is False
    jobs.tick("jobs.sweep")
    assert jobs.alive() is True
    later = clock.now() + timedelta(minutes=2)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert jobs.alive() is False


@pytest.fixture
def embedded(ran: list[Any], config: configuration.Config) -> Iterator[Flask]:
    """An application whose embedded workers really run, on the memory transport."""
    yield from working_app(config)


def test_the_embedded_workers_run_jobs_of_both_queues(embedded: Flask, ran: list[Any]) -> None:
    for number in range(50):
        jobs.enqueue("test.note", number)
        jobs.enqueue("test.work", 1000 + number)
    wait_for(lambda: len(numbers(ran)) == 100)
    assert sorted(numbers(ran)) == [*range(50), *range(1000, 1050)]
    assert jobs.running()


def test_a_job_that_fails_stops_no_other(embedded: Flask, ran: list[Any]) -> None:
    for number in range(5):
        jobs.enqueue("test.fail", number)
    jobs.enqueue("test.work", 99)
    wait_for(lambda: len(numbers(ran)) == 6)


def test_a_delayed_job_waits(embedded: Flask, ran: list[Any]) -> None:
    began = time.monotonic()
    jobs.enqueue("test.note", 1, delay=1.0)
    wait_for(lambda: numbers(ran) == [1])
    assert time.monotonic() - began > 0.9


def test_a_keyed_job_runs_and_its_key_is_free_again(embedded: Flask, ran: list[Any]) -> None:
    for _ in range(2):
        assert jobs.enqueue("test.take", "lane", key="lane")
        wait_for(lambda: jobs.queued() == 0)
    assert ran.count("lane") == 2


def test_the_beat_of_the_embedded_worker_ticks(embedded: Flask, ran: list[Any]) -> None:
    wait_for(lambda: ran.count("often") >= 2, seconds=10)


def test_a_full_queue_of_work_does_not_hold_up_turns(embedded: Flask, ran: list[Any]) -> None:
    for _ in range(6):
        jobs.enqueue("test.slow", 1.5)
    began = time.monotonic()
    jobs.enqueue("test.note", 7)
    wait_for(lambda: 7 in ran)
    assert time.monotonic() - began < 1.5


def test_stopping_takes_no_longer_than_it_is_given(embedded: Flask) -> None:
    began = time.monotonic()
    jobs.stop_embedded(seconds=3)
    assert time.monotonic() - began < 4
    assert not jobs.running()


def test_the_only_worker_that_signs_off_is_dead_at_once(any_app: Flask) -> None:
    jobs.tick(jobs.SWEEP)
    assert jobs.alive()
    jobs.sign_off(alone=True)
    assert not jobs.alive()
    jobs.tick(jobs.SWEEP)
    assert jobs.alive()


def test_one_of_several_workers_that_signs_off_leaves_the_others_alive(
    any_app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.tick(jobs.SWEEP)
    jobs.sign_off(alone=False)
    assert jobs.alive()
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=2 * jobs.SWEEP_SECONDS + 1))
    assert not jobs.alive()
    jobs.tick(jobs.SWEEP)
    assert jobs.alive()


@pytest.mark.parametrize("kind", services.PARAMS)
def test_a_real_broker_takes_jobs_to_a_worker(kind: str, ran: list[Any], config: configuration.Config) -> None:
    with services.broker(kind) as url:
        for app in working_app(with_broker(config, url)):
            with app.app_context():
                assert jobs.broker_answers()
                for number in range(20):
                    jobs.enqueue("test.note", number)
                    jobs.enqueue("test.work", 100 + number)
                jobs.enqueue("test.note", 999, delay=0.5)
                wait_for(lambda: len(numbers(ran)) == 41, seconds=30)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:{port}/0", "amqp://guest:guest@127.0.0.1:{port}//"])
def test_a_broker_that_is_away_neither_raises_nor_holds_up_the_sender(
    url: str, ran: list[Any], config: configuration.Config
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    app = create_app(with_broker(config, url.format(port=port)))
    with app.app_context():
        Base.metadata.create_all(db.engine)
        began = time.monotonic()
        with transaction():
            jobs.enqueue("test.note", 1, key="a")
        assert time.monotonic() - began < 5
        assert jobs.queued() == 1
        assert not jobs.broker_answers()
        db.engine.dispose()


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_never_answers_does_not_hold_up_the_sender(
    scheme: str, ran: list[Any], config: configuration.Config
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        app = create_app(with_broker(config, f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/0"))
        with app.app_context():
            Base.metadata.create_all(db.engine)
            began = time.monotonic()
            for number in range(20):
                jobs.enqueue("test.note", number)
            assert time.monotonic() - began < 10
            db.engine.dispose()


def working_app(config: configuration.Config) -> Iterator[Flask]:
    app = create_app(config)
    with app.app_context():
        Base.metadata.create_all(db.engine)
        jobs.start_embedded(turn_slots=8)
        try:
            yield app
        finally:
            jobs.stop_embedded()
            db.session.remove()
            db.engine.dispose()


def with_broker(config: configuration.Config, url: str) -> configuration.Config:
    values = {"PARLEY_DATA_DIR": str(config.data_dir), "PARLEY_SECRET_KEY": SECRET_KEY, "PARLEY_BROKER_URL": url}
    return configuration.load(values)


def numbers(ran: list[Any]) -> list[int]:
    return [value for value in ran if isinstance(value, int)]


def wait_for(true: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
