"""The environment becomes one frozen Config; a bad value refuses to start with a sentence that names it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

# What people wrote to bots is for the account that runs Parley only.
DATA_DIR_MODE = 0o700
DEFAULT_TABLE_PREFIX = "parley_"
PREFIX_FORM = re.compile(r"[a-z][a-z0-9_]{0,15}")
DATABASES = ("sqlite", "postgresql", "mysql", "mariadb")
# One name for MariaDB: the options of tables, the collation among them, are read by the name of the dialect.
DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}

# Models are classes, so their table names are fixed when they are imported: the one value read at import.
TABLE_PREFIX = os.environ.get("PARLEY_TABLE_PREFIX", DEFAULT_TABLE_PREFIX)


class BadConfig(ValueError):
    """A value of the environment that Parley can't start with; its text is for the operator."""


@dataclass(frozen=True)
class Config:
    """Where this process keeps its data and how it is reached. Everything else is a setting in the database."""

    data_dir: Path
    database_url: str
    broker_url: str | None
    secret_key: str | None
    host: str
    port: int
    base_url: str
    table_prefix: str = DEFAULT_TABLE_PREFIX

    @property
    def embedded_worker(self) -> bool:
        """True when no broker is configured: the worker is Celery on the memory transport inside the web process."""
        return self.broker_url is None

    @property
    def is_sqlite(self) -> bool:
        return self.database_url.startswith("sqlite")


def load(environ: Mapping[str, str] | None = None, *, given: Mapping[str, str] | None = None) -> Config:
    """Reads PARLEY_* (NAME_FILE for secrets); `given` wins over the environment. Raises BadConfig naming the variable."""
    env = {**(os.environ if environ is None else environ), **(given or {})}
    data_dir = Path(env.get("PARLEY_DATA_DIR") or "var").absolute()
    port = _port(env.get("PARLEY_PORT") or "8000")
    return Config(
        data_dir=data_dir,
        database_url=_database_url(env.get("PARLEY_DATABASE_URL"), data_dir),
        broker_url=env.get("PARLEY_BROKER_URL") or None,
        secret_key=_secret(env, "PARLEY_SECRET_KEY"),
        host=env.get("PARLEY_HOST") or "127.0.0.1",
        port=port,
        base_url=_base_url(env.get("PARLEY_BASE_URL") or f"http://127.0.0.1:{port}"),
        table_prefix=_prefix(TABLE_PREFIX),
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise BadConfig(f"PARLEY_PORT must be a number from 1 to 65535, not {text!r}.")
    return int(text)


def _database_url(text: str | None, data_dir: Path) -> str:
    if not text:
        return f"sqlite:///{data_dir / 'parley.db'}"
    try:
        url = make_url(text)
    except ArgumentError:
        raise BadConfig("PARLEY_DATABASE_URL is not a database address, such as postgresql://user@host/name.") from None
    kind = url.drivername.partition("+")[0]
    if kind not in DATABASES:
        raise BadConfig(f"PARLEY_DATABASE_URL names {kind!r}; Parley runs on SQLite, PostgreSQL or MariaDB.")
    if url.drivername in DRIVERS:
        url = url.set(drivername=DRIVERS[url.drivername])
    return url.render_as_string(hide_password=False)


def _base_url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s?#]+", text):
        raise BadConfig(f"PARLEY_BASE_URL must be an http or https address, not {text!r}.")
    return text.rstrip("/")


def _prefix(text: str) -> str:
    if text and not PREFIX_FORM.fullmatch(text):
        raise BadConfig("PARLEY_TABLE_PREFIX must be up to 16 of a-z, 0-9 and _, beginning with a letter.")
    return text


def _secret(env: Mapping[str, str], name: str) -> str | None:
    if env.get(name):
        return env[name]
    path = env.get(f"{name}_FILE")
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadConfig(f"{name}_FILE can't be read: {error.strerror}.") from None
