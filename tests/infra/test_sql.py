from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import bindparam, delete, inspect, literal_column, select, update
from sqlalchemy.exc import DBAPIError, OperationalError

from app.infra import clock, jobs
from app.infra.db import db, reading, transaction
from app.infra.jobs import QueuedJob
from app.infra.sql import together
from app.infra.sql.prepared import Insertion, Objects, Query, Write

COLUMNS = ("key", "name", "args", "due_at", "created_at")


RENAMED = Write(update(jobs.table(QueuedJob)).where(QueuedJob.key == bindparam("old")).values(key=bindparam("new")))
DELETED = Write(delete(jobs.table(QueuedJob)).where(QueuedJob.key != bindparam("kept")))


def made() -> Insertion:
    return Insertion(jobs.table(QueuedJob), COLUMNS)


def row(key: str, **values: Any) -> dict[str, Any]:
    now = clock.now()
    return {"key": key, "name": "a.b", "args": [1, {"ü": None}], "due_at": now, "created_at": now, **values}


def stored() -> dict[str, int]:
    with reading() as session:
        return dict(tuple(found) for found in session.execute(select(QueuedJob.key, QueuedJob.id)))


def at_once(app: Flask, number: int, work: Callable[[int], Any]) -> list[Any]:
    barrier = threading.Barrier(number)

    def one(index: int) -> Any:
        with app.app_context():
            barrier.wait()
            try:
                return work(index)
            except Exception as error:
                return error

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


def test_what_is_inserted_is_read_as_it_was(any_app: Flask) -> None:
    given = row("a", due_at=clock.now() + timedelta(days=1))
    id = made().run(given)
    query = Query(
        select(QueuedJob.id, *(getattr(QueuedJob, name) for name in COLUMNS)).where(QueuedJob.id == bindparam("id"))
    )
    assert [tuple(found) for found in query.rows(id=id)] == [(id, *given.values())]
    assert query.rows(id=0) == []
    with reading() as session:
        found = session.get_one(QueuedJob, id)
    assert (found.args, found.due_at) == (given["args"], given["due_at"])


def test_a_query_may_have_values_of_its_own(any_app: Flask) -> None:
    for key in "abc":
        made().run(row(key))
    query = Query(select(QueuedJob.key).where(QueuedJob.name == "a.b").order_by(QueuedJob.key).limit(2))
    assert [tuple(found) for found in query.rows()] == [("a",), ("b",)]


def test_a_row_that_stands_is_not_inserted_again(any_app: Flask) -> None:
    insertion = made()
    assert insertion.run(row("a")) is not None
    assert insertion.run(row("a")) is None
    assert insertion.run(row("b")) == stored()["b"]


def test_rows_of_many_threads_are_all_committed_and_each_knows_its_own(any_app: Flask) -> None:
    insertion = made()
    won = at_once(any_app, 24, lambda thread: [insertion.run(row(f"{thread}-{n}")) for n in range(10)])
    assert {f"{thread}-{n}": id for thread, ids in enumerate(won) for n, id in enumerate(ids)} == stored()


def test_of_many_threads_with_the_same_row_one_wins(any_app: Flask) -> None:
    insertion = made()
    won = at_once(any_app, 24, lambda _: [insertion.run(row(str(n))) for n in range(10)])
    assert sorted(id for ids in won for id in ids if id) == sorted(stored().values())


def test_a_row_that_no_table_takes_fails_alone(app: Flask) -> None:
    insertion = made()
    won = at_once(app, 24, lambda thread: insertion.run(row(str(thread), name=None if thread % 3 == 0 else "a.b")))
    assert all(isinstance(result, DBAPIError) == (thread % 3 == 0) for thread, result in enumerate(won))
    assert {str(thread): id for thread, id in enumerate(won) if thread % 3} == stored()


def test_a_failure_tells_no_values(app: Flask) -> None:
    with pytest.raises(DBAPIError) as failed:
        made().run(row("a-secret-key", name=None))
    assert "a-secret-key" not in str(failed.value)


def test_trouble_with_the_whole_file_reaches_everybody_who_waits_and_nobody_after(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    insertion, real = made(), together._written
    begun, go = threading.Event(), threading.Event()

    def broken(connection: Any, batch: Any) -> None:
        begun.set()
        go.wait(10)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(together, "_written", broken)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(at_once, app, 24, lambda thread: insertion.run(row(str(thread))))
        assert begun.wait(10)
        go.set()
        results = waiting.result(30)
    assert {type(result) for result in results} == {OperationalError}
    monkeypatch.setattr(together, "_written", real)
    assert stored() == {}
    assert insertion.run(row("a")) == stored()["a"]


def test_whoever_writes_may_be_ended_without_leaving_the_others_to_wait(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    insertion, real = made(), together._written
    ends = iter([SystemExit()])

    def ended(connection: Any, batch: Any) -> None:
        for end in ends:
            raise end
        real(connection, batch)

    monkeypatch.setattr(together, "_written", ended)
    with pytest.raises(SystemExit):
        insertion.run(row("a"))
    assert insertion.run(row("b")) == stored()["b"]
    assert list(stored()) == ["b"]


def test_rows_of_one_transaction_are_committed_together_or_not_at_all(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = sqlite3.connect(app.config["SQLALCHEMY_DATABASE_URI"].removeprefix("sqlite:///"), isolation_level=None)
    text = f"INSERT INTO {QueuedJob.__tablename__} (key, name, args, due_at, created_at) VALUES (?, 'n', '[]', '', '')"
    batch = [together._Write(text, [key]) for key in "abc"]
    run = together._run

    def full(connection: Any, write: Any) -> None:
        run(connection, write)
        if write is batch[1]:
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(together, "_run", full)
    with pytest.raises(sqlite3.OperationalError):
        together._written(connection, batch)
    assert not connection.in_transaction
    assert stored() == {}
    monkeypatch.setattr(together, "_run", run)
    together._written(connection, batch)
    assert stored() == {key: write.done.row_id for key, write in zip("abc", batch, strict=True)}


def test_every_statement_joins_the_block_around_it(any_app: Flask) -> None:
    query = Query(select(QueuedJob.key).order_by(QueuedJob.key))
    with pytest.raises(ZeroDivisionError), transaction() as session:
        session.add(QueuedJob(**row("a")))
        assert made().run(row("b")) is not None
        assert made().run(row("a")) is None
        assert RENAMED.run(old="a", new="c") == 1
        assert [tuple(found) for found in query.rows()] == [("b",), ("c",)]
        raise ZeroDivisionError
    assert query.rows() == []


def test_nothing_is_written_inside_a_reading_block(any_app: Flask) -> None:
    with reading(), pytest.raises(RuntimeError, match="reading"):
        made().run(row("a"))
    with reading(), pytest.raises(RuntimeError, match="reading"):
        RENAMED.run(old="a", new="c")


def test_a_conditional_update_tells_its_winner(any_app: Flask) -> None:
    made().run(row("a"))
    won = at_once(any_app, 16, lambda thread: RENAMED.run(old="a", new=f"b{thread}"))
    assert sorted(won) == [0] * 15 + [1]
    assert list(stored()) == [f"b{won.index(1)}"]


def test_a_deletion_tells_how_many_rows_went(any_app: Flask) -> None:
    for key in "abc":
        made().run(row(key))
    assert DELETED.run(kept="b") == 2
    assert list(stored()) == ["b"]


def test_objects_are_those_that_a_session_would_give(any_app: Flask) -> None:
    for key in "ab":
        made().run(row(key))
    objects = Objects(QueuedJob, lambda query: query.where(QueuedJob.key >= bindparam("least")).order_by(QueuedJob.key))
    assert [each.key for each in objects.all(least="a")] == ["a", "b"]
    assert objects.first(least="c") is None
    found = objects.first(least="b")
    with reading() as session:
        same = session.get_one(QueuedJob, found.id)
    assert {name: getattr(found, name) for name in COLUMNS} == {name: getattr(same, name) for name in COLUMNS}
    assert inspect(found).detached
    with transaction() as session:
        session.merge(found).name = "changed"
    assert objects.first(least="b").name == "changed"


def test_a_query_that_fails_is_told_like_any_other_and_without_its_values(any_app: Flask) -> None:
    query = Query(select(literal_column("nothing.there")).where(QueuedJob.key == bindparam("key")))
    with pytest.raises(DBAPIError) as failed:
        query.rows(key="a-secret-key")
    if db.engine.dialect.name == "sqlite":
        assert "a-secret-key" not in str(failed.value)


def test_connections_are_used_again_and_one_that_failed_is_not(app: Flask) -> None:
    connections = together.Connections(db.engine)
    seen: list[sqlite3.Connection] = []
    connections.run(seen.append)
    connections.run(seen.append)
    with pytest.raises(sqlite3.OperationalError):
        connections.run(lambda connection: connection.execute("SELEKT"))
    connections.run(seen.append)
    assert seen[0] is seen[1] is not seen[2]
    assert seen[2].execute("PRAGMA foreign_keys").fetchone() == (1,)
