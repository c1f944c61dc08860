from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError, StatementError

from app.infra import clock, db, jobs
from app.infra.db import after_commit, changed, core_transaction, insert_once, reading, transaction
from app.infra.jobs import QueuedJob

TABLE = jobs.table(QueuedJob)


def job(key: str, **values: Any) -> dict[str, Any]:
    now = clock.now()
    return {"key": key, "name": "rooms.nothing", "args": [], "due_at": now, "created_at": now, **values}


def keys() -> list[str]:
    with reading() as session:
        return sorted(session.scalars(select(QueuedJob.key)))


def test_a_transaction_is_committed_as_a_whole(any_app: Flask) -> None:
    with transaction() as session:
        session.add(QueuedJob(**job("a")))
        session.add(QueuedJob(**job("b")))
    assert keys() == ["a", "b"]


def test_an_error_rolls_everything_back(any_app: Flask) -> None:
    with pytest.raises(ZeroDivisionError), transaction() as session:
        session.add(QueuedJob(**job("a")))
        session.flush()
        raise ZeroDivisionError
    assert keys() == []


def test_what_was_loaded_stays_readable_after_the_block(any_app: Flask) -> None:
    with transaction() as session:
        session.add(QueuedJob(**job("a", args=[1, {"ü": None}])))
    with reading() as session:
        found = session.scalars(select(QueuedJob)).one()
    assert (found.key, found.args) == ("a", [1, {"ü": None}])
    assert found not in db.db.session()


def test_an_inner_transaction_joins_the_outer_one(any_app: Flask) -> None:
    with pytest.raises(ZeroDivisionError), transaction() as outer:
        with transaction() as inner:
            assert inner is outer
            inner.add(QueuedJob(**job("a")))
        raise ZeroDivisionError
    assert keys() == []


def test_an_outer_transaction_is_not_committed_when_an_inner_one_failed(any_app: Flask) -> None:
    def inner() -> None:
        with transaction() as session:
            session.add(QueuedJob(**job("half")))
            raise ZeroDivisionError

    with pytest.raises(RuntimeError, match="rolled back"), transaction() as session:
        session.add(QueuedJob(**job("a")))
        with pytest.raises(ZeroDivisionError):
            inner()
    assert keys() == []
    with transaction() as session:
        session.add(QueuedJob(**job("b")))
    assert keys() == ["b"]


def test_reading_joins_a_transaction_and_sees_what_it_wrote(any_app: Flask) -> None:
    with transaction() as session:
        session.add(QueuedJob(**job("a")))
        session.flush()
        with reading() as joined:
            assert joined is session
            assert joined.scalar(select(QueuedJob.key)) == "a"
        assert db.in_transaction()
    assert not db.in_transaction()


def test_writing_inside_reading_is_refused(any_app: Flask) -> None:
    with pytest.raises(RuntimeError, match="end the reading block"), reading(), transaction():
        pass


def test_core_writing_inside_a_transaction_is_refused(any_app: Flask) -> None:
    with pytest.raises(RuntimeError, match="wait for itself"), transaction(), core_transaction():
        pass


def test_after_commit_runs_in_order_when_everything_is_visible(any_app: Flask) -> None:
    seen: list[Any] = []
    with transaction() as session:
        session.add(QueuedJob(**job("a")))
        after_commit(lambda: seen.append(keys()))
        with transaction():
            after_commit(lambda: seen.append("second"))
        assert seen == []
    assert seen == [["a"], "second"]


def test_after_commit_never_runs_after_a_rollback(any_app: Flask) -> None:
    seen: list[str] = []
    with pytest.raises(ZeroDivisionError), transaction():
        after_commit(lambda: seen.append("never"))
        raise ZeroDivisionError
    with transaction():
        pass
    assert seen == []


def test_after_commit_without_a_transaction_runs_at_once(any_app: Flask) -> None:
    seen: list[str] = []
    after_commit(lambda: seen.append("now"))
    with reading():
        after_commit(lambda: seen.append("also now"))
    assert seen == ["now", "also now"]


def test_insert_once_tells_its_only_winner(any_app: Flask) -> None:
    with transaction() as session:
        first = insert_once(session, TABLE, job("a"))
        assert insert_once(session, TABLE, job("a")) is None
        other = insert_once(session, TABLE, job("b"))
    assert isinstance(first, int)
    assert isinstance(other, int)
    assert other > first > 0
    with core_transaction() as connection:
        assert insert_once(connection, TABLE, job("b")) is None
        assert insert_once(connection, TABLE, job("c"))
    assert keys() == ["a", "b", "c"]


def test_insert_once_swallows_nothing_but_the_duplicate(any_app: Flask) -> None:
    # SQLite takes texts of any length, but no missing value either.
    values = {"name": None} if db.db.engine.dialect.name == "sqlite" else {"name": "n" * 5000}
    with pytest.raises(DBAPIError), transaction() as session:
        insert_once(session, TABLE, job("a", **values))
    assert keys() == []


def test_many_threads_insert_a_key_once(any_app: Flask) -> None:
    winners: list[int] = []

    def compete() -> None:
        with any_app.app_context():
            for number in range(10):
                with transaction() as session:
                    won = insert_once(session, TABLE, job(f"key-{number}"))
                if won is not None:
                    winners.append(number)

    run_together(compete, 8)
    assert sorted(winners) == list(range(10))
    assert len(keys()) == 10


def test_a_conditional_update_has_one_winner(any_app: Flask) -> None:
    with transaction() as session:
        session.add(QueuedJob(**job("a", name="free")))
    winners: list[str] = []

    def compete() -> None:
        name = threading.current_thread().name
        statement = update(QueuedJob).where(QueuedJob.name == "free").values(name=name)
        with any_app.app_context(), transaction() as session:
            if changed(session.execute(statement)):
                winners.append(name)

    run_together(compete, 8)
    assert len(winners) == 1


def test_an_update_that_changes_nothing_still_counts_the_row_it_found(any_app: Flask) -> None:
    with transaction() as session:
        session.add(QueuedJob(**job("a", name="same")))
        session.flush()
        assert changed(session.execute(update(QueuedJob).values(name="same"))) == 1


def test_writers_and_readers_do_not_stop_each_other(any_app: Flask) -> None:
    def write() -> None:
        with any_app.app_context():
            for number in range(15):
                with transaction() as session:
                    session.add(QueuedJob(**job(f"{threading.get_ident()}-{number}")))
                keys()

    run_together(write, 8)
    assert len(keys()) == 8 * 15


def test_keys_that_differ_in_case_or_trailing_space_are_different(any_app: Flask) -> None:
    with transaction() as session:
        for key in ("k2", "K2", "k2 ", "kü", "ku"):
            assert insert_once(session, TABLE, job(key)) is not None
    assert len(keys()) == 5


def test_times_keep_their_microseconds_and_come_back_in_utc(any_app: Flask) -> None:
    moment = datetime(2026, 3, 2, 9, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    with transaction() as session:
        session.add(QueuedJob(**job("a", due_at=moment)))
    with reading() as session:
        found = session.scalars(select(QueuedJob)).one().due_at
        assert session.scalar(select(QueuedJob.key).where(QueuedJob.due_at == moment)) == "a"
    assert found == moment
    assert found.tzinfo is UTC


def test_a_time_without_a_zone_is_refused(any_app: Flask) -> None:
    with pytest.raises(StatementError, match="naive"), transaction() as session:
        session.add(QueuedJob(**job("a", due_at=datetime(2026, 3, 2))))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"deep": [float("-inf")]}])
def test_numbers_that_json_does_not_know_are_refused(any_app: Flask, value: Any) -> None:
    with pytest.raises(StatementError), transaction() as session:
        session.add(QueuedJob(**job("a", args=[value])))


def test_large_json_comes_back_whole(any_app: Flask) -> None:
    large = ["👀" * 1000 for _ in range(100)]
    with transaction() as session:
        session.add(QueuedJob(**job("a", args=large)))
    with reading() as session:
        assert session.scalars(select(QueuedJob.args)).one() == large


def test_clean_text_is_what_every_database_takes(any_app: Flask) -> None:
    raw = "a\x00b\ud800c\U0001f440"
    with transaction() as session:
        session.add(QueuedJob(**job(db.clean_text(raw))))
    assert keys() == ["ab?c\U0001f440"]


@given(st.text(st.characters(codec=None)))
def test_clean_text_keeps_what_is_clean_and_is_clean_itself(text: str) -> None:
    cleaned = db.clean_text(text)
    cleaned.encode("utf-8")
    assert "\x00" not in cleaned
    assert db.clean_text(cleaned) == cleaned
    if "\x00" not in text and not any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        assert cleaned == text


def run_together(work: Any, number: int) -> None:
    barrier = threading.Barrier(number)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            barrier.wait(10)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
