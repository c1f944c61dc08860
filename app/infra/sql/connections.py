"""Connections of the driver to a SQLite file that are kept open: taking one from the pool costs more than a query."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar, cast

from sqlalchemy import Engine

Result = TypeVar("Result")


class Connections:
    """As many as were ever used at once. They belong to nobody else, and are closed when the last reference goes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle: list[sqlite3.Connection] = []

    def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """What `work` gives for a connection in no transaction; after an error the connection is not used again."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._opened()
        result = work(connection)
        self._idle.append(connection)
        return result

    def _opened(self) -> sqlite3.Connection:
        lent = self._engine.raw_connection()
        connection = cast("sqlite3.Connection", lent.driver_connection)
        # From now on it is ours: the pool must not count it as one that was never given back.
        lent.detach()
        return connection
