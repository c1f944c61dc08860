"""The database: declarative base, portable column types, and the two ways to use it, `reading` and `transaction`.

Both end what they begin and detach what they loaded, so that no transaction outlives its block: read, commit, talk
to the network, write. On SQLite one process-wide lock stands around each write transaction, which is begun with BEGIN
IMMEDIATE: waiting in a queue of ours is far cheaper than waiting in SQLite's busy handler.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import (
    BigInteger,
    Connection,
    CursorResult,
    DateTime,
    Dialect,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    NullPool,
    Table,
    Text,
    create_engine,
    event,
    insert,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.types import TypeDecorator, TypeEngine

from app.config import TABLE_PREFIX, Config

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
SQLITE_BUSY_MS = 10_000
WAL_PAGES = 4000
POOL_SIZE = 64
SERVER_POOL_SIZE = 20
MARIADB_DUPLICATE = 1062


class Base(DeclarativeBase):
    """All models derive from this class; their table names come from `prefixed`."""

    metadata = MetaData(naming_convention=NAMING)
    __table_args__: Any = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}


class _Thread(threading.local):
    """What this thread is about to do."""

    writes = False


_thread = _Thread()
db = SQLAlchemy(model_class=Base, session_options={"expire_on_commit": False})
_sqlite_write_lock = threading.RLock()

# BIGINT everywhere but on SQLite, where only INTEGER is the rowid.
Id = BigInteger().with_variant(Integer(), "sqlite")
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
LongBinary = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")


def prefixed(name: str) -> str:
    """The name of a table (or of a column as in "bots.id") with the prefix of this installation."""
    return TABLE_PREFIX + name


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime in UTC with microseconds; a naive one is refused."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name in ("mysql", "mariadb"):
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(DateTime())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a naive datetime reached the database")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class Json(TypeDecorator[Any]):
    """JSON as text, the same on the three databases; NaN and infinities are refused."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(cast("TypeEngine[Any]", LongText))

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


def clean_text(text: str) -> str:
    """Text that every database takes: without NUL and without lone surrogates. Called once, at the door."""
    if "\x00" not in text and text.isascii():
        return text
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def init_app(app: Flask, config: Config) -> None:
    """Configures the engine for the database of `config` and binds the extension to `app`."""
    app.config["SQLALCHEMY_DATABASE_URI"] = config.database_url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = _engine_options(config)
    db.init_app(app)
    with app.app_context():
        if config.is_sqlite:
            _prepare_sqlite(db.engine)


def plain_engine(config: Config) -> Engine:
    """An engine without a pool and without an application, for migrations and backups.

    On SQLite it does not enforce foreign keys: a migration replaces tables, and their children must stay.
    """
    engine = create_engine(config.database_url, poolclass=NullPool)
    if config.is_sqlite:
        _prepare_sqlite(engine, foreign_keys=False)
    return engine


@contextmanager
def reading() -> Iterator[Session]:
    """A block of queries; what it loaded stays readable afterwards, detached. Joins a surrounding block."""
    session = db.session()
    if session.info.get("block"):
        yield session
        return
    with _block(session, "reading"):
        yield session


@contextmanager
def transaction() -> Iterator[Session]:
    """A block that is committed as a whole, or rolled back by any error. Joins a surrounding transaction.

    Callables given to `after_commit` inside run after the commit, in order, and not at all after a rollback.
    """
    session = db.session()
    block = session.info.get("block")
    if block == "writing":
        with _joined(session):
            yield session
        return
    if block == "reading":
        raise RuntimeError("transaction() inside reading(): end the reading block first")
    with _block(session, "writing"):
        with write_lock():
            _begin_writing(session)
            yield session
            if session.info.get("failed"):
                raise RuntimeError("a joined transaction failed, and its error was swallowed: all is rolled back")
            session.commit()
        callbacks = session.info.pop("after_commit", [])
    for callback in callbacks:
        callback()


def after_commit(callback: Callable[[], None]) -> None:
    """Runs `callback` after the surrounding transaction is committed; at once when there is none."""
    if not _writing():
        callback()
        return
    db.session().info.setdefault("after_commit", []).append(callback)


def elsewhere() -> Callable[[], AbstractContextManager[object]]:
    """For a helper thread: a maker of an application context of its own there, hence of a session of its own.

    To be asked on the thread that has the application; without one it makes nothing.
    """
    return current_app._get_current_object().app_context if current_app else nullcontext  # type: ignore[attr-defined]


def in_transaction() -> bool:
    """True inside `reading` or `transaction`; no network call may be made then (rule 12)."""
    return of_block() is not None


def of_block() -> Session | None:
    """The session of the surrounding `reading` or `transaction`; None outside of both."""
    # Asking makes no session where there was none.
    if not db.session.registry.has():
        return None
    session = db.session()
    return session if session.info.get("block") else None


def outside_transaction() -> None:
    """Raises RuntimeError inside `transaction`, for what writes by itself: SQLite would wait for itself."""
    if _writing():
        raise RuntimeError("a write transaction of its own inside transaction(): SQLite would wait for itself")


@contextmanager
def core_transaction() -> Iterator[Connection]:
    """A write transaction on a plain connection, for the paths where the session's cost counts; never inside another."""
    outside_transaction()
    with write_lock(), db.engine.connect().execution_options(parley_write=True) as connection, connection.begin():
        yield connection


def write_lock() -> AbstractContextManager[Any]:
    """Stands around each write transaction: on SQLite one lock for this process, elsewhere nothing."""
    return _sqlite_write_lock if db.engine.dialect.name == "sqlite" else nullcontext()


@contextmanager
def core_reading() -> Iterator[Connection]:
    """Queries on a plain connection, for the paths where the session's cost counts."""
    with db.engine.connect() as connection:
        yield connection


def insert_once(connection: Connection | Session, table: Table, values: Mapping[str, Any]) -> int | None:
    """Inserts a row unless a unique key already holds it; returns its integer `id`, or None when it was there.

    psycopg gives rowcount -1 for ON CONFLICT DO NOTHING, so the win is a row from RETURNING. On MariaDB the error tells:
    INSERT IGNORE would also swallow, and cut, what does not fit a column.
    """
    dialect = db.engine.dialect.name
    if dialect in ("mysql", "mariadb"):
        return _insert_once_mariadb(connection, table, values)
    won = connection.execute(_insert_unless_there(table, dialect), dict(values)).first()
    return None if won is None else int(won[0])


# Made once a table: building the statement anew costs more than the database does.
@cache
def _insert_unless_there(table: Table, dialect: str) -> Any:
    build = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return build(table).on_conflict_do_nothing().returning(list(table.primary_key)[0])


def _insert_once_mariadb(connection: Connection | Session, table: Table, values: Mapping[str, Any]) -> int | None:
    try:
        done = cast("CursorResult[Any]", connection.execute(insert(table), dict(values)))
    except IntegrityError as error:
        if getattr(error.orig, "args", (0,))[0] == MARIADB_DUPLICATE:
            return None
        raise
    return int(done.lastrowid or 0)


def changed(result: Any) -> int:
    """The number of rows that an UPDATE or DELETE changed: how a conditional update tells its winner."""
    return int(cast("CursorResult[Any]", result).rowcount)


def _begin_writing(session: Session) -> None:
    """Begins the session's transaction as one that writes: with BEGIN IMMEDIATE on SQLite."""
    _thread.writes = True
    try:
        session.connection()
    finally:
        _thread.writes = False


def _writing() -> bool:
    session = of_block()
    return session is not None and session.info["block"] == "writing"


@contextmanager
def _block(session: Session, kind: str) -> Iterator[None]:
    session.info["block"] = kind
    try:
        yield
    except BaseException:
        session.info.pop("after_commit", None)
        session.rollback()
        raise
    finally:
        session.info.pop("block", None)
        session.info.pop("failed", None)
        session.close()


@contextmanager
def _joined(session: Session) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # Half of an inner block must not be committed by an outer one that goes on.
        session.info["failed"] = True
        raise


def _engine_options(config: Config) -> dict[str, Any]:
    if config.is_sqlite:
        return {"pool_size": POOL_SIZE, "max_overflow": 256, "connect_args": {"check_same_thread": False}}
    return {
        # A server's default is 100 connections, and several processes share them.
        "pool_size": SERVER_POOL_SIZE,
        "max_overflow": SERVER_POOL_SIZE // 2,
        "pool_pre_ping": True,
        "pool_recycle": 1800,
        "pool_timeout": 30,
        "isolation_level": "READ COMMITTED",
    }


def _prepare_sqlite(engine: Engine, *, foreign_keys: bool = True) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        # The driver's own BEGIN comes too late and is never IMMEDIATE: we begin ourselves.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA busy_timeout={SQLITE_BUSY_MS}")
        cursor.execute("PRAGMA synchronous=NORMAL")
        # Pages that are written again and again are copied into the file less often: 16 MB of them, not 4.
        cursor.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
        cursor.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        write = _thread.writes or connection.get_execution_options().get("parley_write")
        # On the driver's own connection: what SQLAlchemy does around a statement costs twenty times as much.
        cast("Any", connection.connection.driver_connection).execute("BEGIN IMMEDIATE" if write else "BEGIN")
