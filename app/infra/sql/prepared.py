"""Statements that are compiled once and run on the driver's own connection, each a transaction of its own.

What SQLAlchemy does around a small statement costs many times what SQLite does for it. Only where that counts: while a
chat server waits for its acknowledgement. On PostgreSQL and MariaDB, where the way to the server costs most, the usual
way is taken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Dialect, Engine, Select, Table
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from app.infra.db import (
    core_reading,
    core_transaction,
    db,
    insert_once,
    outside_transaction,
)
from app.infra.sql.connections import Connections
from app.infra.sql.together import Together

Convert = Callable[[Any], Any]
KEPT_ROWS = 256


class _Kept:
    """What is kept of each SQLite file."""

    def __init__(self) -> None:
        self._connections: WeakKeyDictionary[Engine, Connections] = WeakKeyDictionary()
        self._together: WeakKeyDictionary[Engine, Together] = WeakKeyDictionary()

    def connections(self, engine: Engine) -> Connections:
        """Those to the file of `engine`."""
        return self._connections.get(engine) or self._connections.setdefault(engine, Connections(engine))

    def together(self, engine: Engine) -> Together:
        """Whoever writes to the file of `engine`."""
        found = self._together.get(engine)
        return found or self._together.setdefault(engine, Together(self.connections(engine)))


kept = _Kept()


class Query:
    """A SELECT; its parameters are those that `bindparam` names."""

    def __init__(self, statement: Select[*tuple[Any, ...]]) -> None:
        self._statement = statement
        self._prepared: _Prepared | None = None

    def rows(self, **values: Any) -> Sequence[Sequence[Any]]:
        """The rows, their values in the order of the columns."""
        engine = db.engine
        if engine.dialect.name != "sqlite":
            with core_reading() as connection:
                return connection.execute(self._statement, values).all()
        if self._prepared is None:
            compiled = self._statement.compile(dialect=engine.dialect)
            types = [column.type for column in self._statement.selected_columns]
            self._prepared = _Prepared(compiled, engine.dialect, types)
        text, parameters = self._prepared.text, self._prepared.parameters(values)
        found = kept.connections(engine).run(lambda connection: connection.execute(text, parameters).fetchall())
        return [self._prepared.converted(row) for row in found]


class Insertion:
    """An INSERT of one row unless a unique key holds it; see db.insert_once."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self._table = table  # its key is one integer, which SQLite takes for the rowid
        self._columns = list(columns)
        self._prepared: _Prepared | None = None

    def run(self, values: Mapping[str, Any]) -> int | None:
        """Inserts and commits; the row's `id`, or None when it was there. Never inside a transaction."""
        engine = db.engine
        if engine.dialect.name != "sqlite":
            with core_transaction() as connection:
                return insert_once(connection, self._table, values)
        if self._prepared is None:
            statement = insert(self._table).on_conflict_do_nothing()
            compiled = statement.compile(dialect=engine.dialect, column_keys=self._columns)
            self._prepared = _Prepared(compiled, engine.dialect)
        outside_transaction()
        text, parameters = self._prepared.text, self._prepared.parameters(values)
        try:
            return kept.together(engine).insert(text, parameters)
        except sqlite3.Error as error:
            raise DBAPIError.instance(text, None, error, sqlite3.Error, hide_parameters=True) from error


class _Prepared:
    """The text of a statement for SQLite, and what its values go through on their way in and out."""

    def __init__(self, compiled: Any, dialect: Dialect, columns: Sequence[TypeEngine[Any]] = ()) -> None:
        self.text = str(compiled)
        self._fixed = dict(compiled.params)
        self._names = [(name, _on_the_way_in(compiled.binds[name].type, dialect)) for name in compiled.positiontup]
        out = [(place, _on_the_way_out(type, dialect)) for place, type in enumerate(columns)]
        self._out = [(place, convert) for place, convert in out if convert is not None]
        # The same few rows are read again and again.
        self.converted = lru_cache(maxsize=KEPT_ROWS)(self._converted)

    def parameters(self, values: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the text."""
        given = {**self._fixed, **values}
        return [given[name] if convert is None else convert(given[name]) for name, convert in self._names]

    def _converted(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(row)
        for place, convert in self._out:
            values[place] = convert(values[place])
        return tuple(values)


def _on_the_way_in(type: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    return type.dialect_impl(dialect).bind_processor(dialect)


def _on_the_way_out(type: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    return type.dialect_impl(dialect).result_processor(dialect, None)
