"""Fresh databases for tests on real servers: one is made a test and dropped after it. Missing servers skip the test,
or fail it where PARLEY_REQUIRE_SERVICES is set."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pymysql
import pytest

KINDS = ("sqlite", "postgresql", "mariadb")
PARAMS = [pytest.param(kind, marks=() if kind == "sqlite" else (pytest.mark.services,), id=kind) for kind in KINDS]
POSTGRESQL = os.environ.get("PARLEY_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432")
MARIADB_SOCKET = os.environ.get("PARLEY_TEST_MARIADB_SOCKET", "/run/mysqld/mysqld.sock")
MARIADB_USER = os.environ.get("PARLEY_TEST_MARIADB_USER", "root")


@contextmanager
def fresh(kind: str, folder: Path) -> Iterator[str]:
    """The address of an empty database of this kind."""
    name = f"parley_test_{secrets.token_hex(6)}"
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'test.db'}"
    elif kind == "postgresql":
        yield from _postgresql(name)
    else:
        yield from _mariadb(name)


def _postgresql(name: str) -> Iterator[str]:
    try:
        server = psycopg.connect(f"{POSTGRESQL}/postgres", autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as error:
        _missing("PostgreSQL", error)
    with server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{POSTGRESQL}/{name}"
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _mariadb(name: str) -> Iterator[str]:
    try:
        server = pymysql.connect(unix_socket=MARIADB_SOCKET, user=MARIADB_USER, autocommit=True)
    except pymysql.err.OperationalError as error:
        _missing("MariaDB", error)
    with server, server.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        try:
            yield f"mariadb://{MARIADB_USER}@localhost/{name}?unix_socket={MARIADB_SOCKET}&charset=utf8mb4"
        finally:
            cursor.execute(f"DROP DATABASE `{name}`")


def _missing(server: str, error: Exception) -> None:
    message = f"{server} does not answer on this machine: {error}"
    if os.environ.get("PARLEY_REQUIRE_SERVICES"):
        pytest.fail(message)
    pytest.skip(message)
