"""Small writes of several threads in one transaction of SQLite: what came while one is written is written next, at once.

Whoever finds nobody writing writes for all who wait, then hands on. A thread that waits is woken once, when its row is
committed, instead of taking its turn at a lock that dozens of threads want; and ten rows in one transaction cost hardly
more than two alone.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from app.infra.db import write_lock
from app.infra.sql.connections import Connections

MOST = 64


class Done(NamedTuple):
    """How many rows a statement made, changed or deleted, and the rowid of the last that it made."""

    rows: int
    row_id: int


NOTHING = Done(0, 0)


@dataclass(eq=False)
class _Write:
    """One statement: what it did, or why it failed. Who waits for it holds `turn`, until it is over or theirs to write."""

    text: str
    parameters: Sequence[Any]
    turn: threading.Lock = field(default_factory=threading.Lock)
    over: bool = False
    done: Done = NOTHING
    error: Exception | None = None


class Together:
    """The rows for one database that wait, and whether somebody writes now."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: list[_Write] = []
        self._busy = False
        self._lock = threading.Lock()

    def run(self, text: str, parameters: Sequence[Any]) -> Done:
        """What an INSERT, UPDATE or DELETE did, once it is committed. Raises what the driver raises for it."""
        mine = _Write(text, parameters)
        with self._lock:
            self._waiting.append(mine)
            waits, self._busy = self._busy, True
            if waits:
                mine.turn.acquire()
        if waits:
            mine.turn.acquire()
        if not mine.over:
            self._write()
        if mine.error is not None:
            raise mine.error
        return mine.done

    def _write(self) -> None:
        """Writes what waits, the caller's own first, and hands on to the first of those who came meanwhile."""
        with self._lock:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        trouble: Exception | None = sqlite3.OperationalError("whoever wrote was interrupted")
        try:
            with write_lock():
                self._connections.run(partial(_written, batch=batch))
            trouble = None
        except Exception as error:
            trouble = error
        finally:
            self._hand_on(batch, trouble)

    def _hand_on(self, batch: Sequence[_Write], trouble: Exception | None) -> None:
        with self._lock:
            following = self._waiting[:1]
            self._busy = bool(following)
        for write in batch:
            write.error = write.error or trouble
            write.over = True
        for write in [*following, *batch[1:]]:
            write.turn.release()


def _written(connection: sqlite3.Connection, batch: Sequence[_Write]) -> None:
    """Runs and commits them. A statement that fails alone fails for its own caller; any other trouble is raised."""
    if len(batch) == 1:
        # Alone a statement is a transaction of its own.
        batch[0].done = _done(connection, batch[0])
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for write in batch:
            _run(connection, write)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _run(connection: sqlite3.Connection, write: _Write) -> None:
    try:
        write.done = _done(connection, write)
    except sqlite3.Error as error:
        if not connection.in_transaction:
            # A full disk and the like roll back what the others wrote, too.
            raise
        write.error = error


def _done(connection: sqlite3.Connection, write: _Write) -> Done:
    # Without RETURNING: each row that is fetched would be two more steps of the driver, and another thread's turn.
    cursor = connection.execute(write.text, write.parameters)
    return Done(cursor.rowcount, cursor.lastrowid or 0)
