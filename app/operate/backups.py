"""Copies of the SQLite database, made while it is used; other databases have tools of their own."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import make_url

from app.config import Config
from app.infra import clock
from app.infra.errors import BadInput, Conflict
from app.infra.i18n import say

KEEP = 5
FOLDER = "backups"
PREFIX = "parley-"
SUFFIX = ".db"
HEADER = b"SQLite format 3\x00"


def backup(config: Config, *, to: Path | None = None, name: str = "") -> Path:
    """Copies the database to a file, the last five of the folder `backups` kept. Raises BadInput on other databases."""
    source = database_file(config)
    if to is not None:
        _copy(source, to)
        return to
    folder = config.data_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = clock.now().strftime("%Y%m%d-%H%M%S-%f")
    made = folder / f"{PREFIX}{stamp}{'-' if name else ''}{name}{SUFFIX}"
    _copy(source, made)
    for old in kept(config)[KEEP:]:
        old.unlink(missing_ok=True)
    return made


def backup_if_changed(config: Config, *, name: str = "") -> Path | None:
    """Like `backup`, unless there is no database yet or nothing was written since the last copy."""
    source = database_file(config)
    if not source.exists() or source.stat().st_size == 0:
        return None
    written = max(path.stat().st_mtime for path in (source, Path(f"{source}-wal")) if path.exists())
    copies = kept(config)
    if copies and copies[0].stat().st_mtime > written:
        return None
    return backup(config, name=name)


def kept(config: Config) -> list[Path]:
    """The copies, the newest first."""
    return sorted((config.data_dir / FOLDER).glob(f"{PREFIX}*{SUFFIX}"), reverse=True)


def restore(config: Config, source: Path) -> Path | None:
    """Puts a copy in the place of the database; gives the copy that was made of what stood there before.

    No server may run. Raises BadInput when the file is no whole database.
    """
    target = database_file(config)
    _check(source)
    before = backup_if_changed(config, name="before-restore")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Before, not after: a write-ahead log that meets another database would be played into it.
    for leftover in (Path(f"{target}-wal"), Path(f"{target}-shm")):
        leftover.unlink(missing_ok=True)
    _copy(source, target)
    return before


def database_file(config: Config) -> Path:
    """Where the SQLite database stands. Raises BadInput for another database."""
    path = make_url(config.database_url).database
    if not config.is_sqlite or not path:
        raise BadInput(
            say(
                "Parley copies SQLite databases only; use pg_dump or mariadb-dump, and keep {file} with it.", file="var"
            )
        )
    return Path(path)


def _copy(source: Path, target: Path) -> None:
    """Copies through SQLite itself: a whole state of the database, also while it is written."""
    if not source.exists():
        raise BadInput(say("There is no database at {file}.", file=source))
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".parley-")
    os.close(descriptor)
    fresh = Path(name)
    try:
        with closing(sqlite3.connect(source)) as opened, closing(sqlite3.connect(fresh)) as copy:
            opened.backup(copy)
            # A copy is one file: without this it would need its -wal beside it.
            copy.execute("PRAGMA journal_mode=DELETE")
        fresh.replace(target)
    except sqlite3.Error as error:
        raise Conflict(say("The database can't be copied: {reason}", reason=error)) from None
    finally:
        fresh.unlink(missing_ok=True)


def _check(source: Path) -> None:
    try:
        with source.open("rb") as file:
            whole = file.read(len(HEADER)) == HEADER
        if whole:
            with closing(sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)) as opened:
                whole = opened.execute("PRAGMA quick_check").fetchone() == ("ok",)
    except (OSError, sqlite3.Error):
        whole = False
    if not whole:
        raise BadInput(say("{file} is no whole SQLite database.", file=source))
