"""Statements that are built and compiled once, for the paths on which every millisecond is waited for.

What SQLAlchemy does around a small statement costs thirty times what SQLite does for it. So on SQLite such a statement
runs on the driver's own connection, each in a transaction of its own; on PostgreSQL and MariaDB, where the way to the
server costs most, through SQLAlchemy's Core. Inside a `reading` or `transaction` block it joins that.

Values are given by the names of `bindparam`. An UPDATE keeps the names of its columns for itself: call others differently.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Delete, Dialect, Engine, Select, Table, Update, inspect, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import instance_dict, instance_state, manager_of_class
from sqlalchemy.types import TypeEngine

from app.infra.db import Base, Json, changed, core_reading, core_transaction, db, insert_once, of_block
from app.infra.sql.connections import Connections
from app.infra.sql.together import Done, Together

Convert = Callable[[Any], Any]
Model = TypeVar("Model", bound=Base)
# The same moments are read again and again.
KEPT_VALUES = 256


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
    """A SELECT of columns."""

    def __init__(self, statement: Select[*tuple[Any, ...]]) -> None:
        self._statement = statement
        self._prepared: _Prepared | None = None

    def rows(self, **values: Any) -> Sequence[Any]:
        """The rows, their values in the order of the columns."""
        session = of_block()
        if session is not None:
            return session.execute(self._statement, values).all()
        engine = db.engine
        if engine.dialect.name != "sqlite":
            with core_reading() as connection:
                return connection.execute(self._statement, values).all()
        prepared = self._prepared = self._prepared or self._made(engine.dialect)
        parameters = prepared.parameters(values)

        def read(connection: sqlite3.Connection) -> list[Any]:
            return connection.execute(prepared.text, parameters).fetchall()

        with _Told(prepared.text):
            found = kept.connections(engine).run(read)
        return [prepared.converted(row) for row in found]

    def first(self, **values: Any) -> Any:
        """The first row, or None."""
        rows = self.rows(**values)
        return rows[0] if rows else None

    def value(self, **values: Any) -> Any:
        """The first value of the first row, or None."""
        rows = self.rows(**values)
        return rows[0][0] if rows else None

    def _made(self, dialect: Dialect) -> _Prepared:
        types = [column.type for column in self._statement.selected_columns]
        return _Prepared(self._statement.compile(dialect=dialect), dialect, types)


class Objects(Generic[Model]):
    """A SELECT of whole rows of a model, as objects that belong to no session."""

    def __init__(
        self, model: type[Model], made: Callable[[Select[*tuple[Any, ...]]], Select[*tuple[Any, ...]]]
    ) -> None:
        self._mapper: Any = inspect(model)
        self._names = [each.key for each in self._mapper.column_attrs]
        self._id = self._names.index("id")
        self._manager = manager_of_class(model)
        self._query = Query(made(select(*(getattr(model, name) for name in self._names))))

    def all(self, **values: Any) -> list[Model]:
        """The objects."""
        return [self._made(row) for row in self._query.rows(**values)]

    def first(self, **values: Any) -> Model | None:
        """The first object, or None."""
        row = self._query.first(**values)
        return None if row is None else self._made(row)

    def _made(self, row: Sequence[Any]) -> Model:
        made = self._manager.new_instance()
        instance_dict(made).update(zip(self._names, row, strict=True))
        # What it is for a session that it is given to later: a row that stands.
        instance_state(made).key = self._mapper.identity_key_from_primary_key(row[self._id : self._id + 1])
        return made


class Write:
    """An UPDATE or DELETE."""

    def __init__(self, statement: Update | Delete) -> None:
        self._statement = statement.execution_options(synchronize_session=False)
        self._prepared: _Prepared | None = None

    def run(self, **values: Any) -> int:
        """Writes; gives the number of rows, which tells who won a conditional update."""
        session = of_block()
        if session is not None:
            return changed(_writing(session).execute(self._statement, values))
        engine = db.engine
        if engine.dialect.name != "sqlite":
            with core_transaction() as connection:
                return changed(connection.execute(self._statement, values))
        self._prepared = self._prepared or _Prepared(self._statement.compile(dialect=engine.dialect), engine.dialect)
        return _run(engine, self._prepared, values).rows


class Insertion:
    """An INSERT of one row unless a unique key holds it; see db.insert_once. The table's key is one number."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self._table = table
        self._columns = list(columns)
        self._prepared: _Prepared | None = None

    def run(self, values: Mapping[str, Any]) -> int | None:
        """Inserts; the row's `id`, or None when it was there."""
        session = of_block()
        if session is not None:
            return insert_once(_writing(session), self._table, values)
        engine = db.engine
        if engine.dialect.name != "sqlite":
            with core_transaction() as connection:
                return insert_once(connection, self._table, values)
        self._prepared = self._prepared or self._made(engine.dialect)
        done = _run(engine, self._prepared, values)
        return done.row_id if done.rows == 1 else None

    def _made(self, dialect: Dialect) -> _Prepared:
        statement = insert(self._table).on_conflict_do_nothing()
        return _Prepared(statement.compile(dialect=dialect, column_keys=self._columns), dialect)


class _Prepared:
    """The text of a statement for SQLite, and what its values go through on their way in and out."""

    def __init__(self, compiled: Any, dialect: Dialect, columns: Sequence[TypeEngine[Any]] = ()) -> None:
        self.text = str(compiled)
        self._fixed = dict(compiled.params)
        self._names = [(name, _on_the_way_in(compiled.binds[name].type, dialect)) for name in compiled.positiontup]
        out = [(place, _on_the_way_out(type, dialect)) for place, type in enumerate(columns)]
        self._out = [(place, convert) for place, convert in out if convert is not None]

    def parameters(self, values: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the text."""
        given = {**self._fixed, **values}
        return [given[name] if convert is None else convert(given[name]) for name, convert in self._names]

    def converted(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row of the driver as SQLAlchemy would give it."""
        if not self._out:
            return row
        values = list(row)
        for place, convert in self._out:
            values[place] = convert(values[place])
        return tuple(values)


class _Told:
    """Tells an error of the driver as SQLAlchemy does, without the values."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise DBAPIError.instance(self._text, None, error, sqlite3.Error, hide_parameters=True) from error


def _run(engine: Engine, prepared: _Prepared, values: Mapping[str, Any]) -> Done:
    parameters = prepared.parameters(values)
    with _Told(prepared.text):
        return kept.together(engine).run(prepared.text, parameters)


def _writing(session: Session) -> Session:
    if session.info.get("block") != "writing":
        raise RuntimeError("a write inside reading(): end the reading block first")
    # What this block has added or changed stands in the database before the statement is run.
    session.flush()
    return session


def _on_the_way_in(type: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    return type.dialect_impl(dialect).bind_processor(dialect)


def _on_the_way_out(type: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    convert = type.dialect_impl(dialect).result_processor(dialect, None)
    if convert is None or isinstance(type, Json):
        # A list or a mapping belongs to whoever asked for it.
        return convert
    return lru_cache(maxsize=KEPT_VALUES)(convert)
