from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from app import config as configuration
from app.infra.errors import BadInput
from app.operate import backups, migrations


@pytest.fixture
def config(tmp_path: Path) -> configuration.Config:
    made = configuration.load({"PARLEY_DATA_DIR": str(tmp_path / "var")})
    migrations.upgrade(made)
    return made


def write(config: configuration.Config, name: str) -> None:
    with closing(sqlite3.connect(config.data_dir / "parley.db", timeout=30)) as opened, opened:
        opened.execute(
            "INSERT INTO parley_settings (name, value, updated_at) VALUES (?, '1', '2026-01-01 00:00:00')", (name,)
        )


def names(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as opened:
        return [row[0] for row in opened.execute("SELECT name FROM parley_settings ORDER BY name")]


def test_a_copy_holds_what_was_committed_and_is_one_file(config: configuration.Config) -> None:
    write(config, "a")
    made = backups.backup(config)
    write(config, "b")
    assert names(made) == ["a"]
    assert [path.name for path in made.parent.iterdir()] == [made.name]
    assert oct(made.stat().st_mode)[-3:] == "600"


def test_the_last_five_copies_are_kept(config: configuration.Config) -> None:
    made = []
    for number in range(7):
        write(config, f"n{number}")
        made.append(backups.backup(config))
    assert backups.kept(config) == list(reversed(made[2:]))


def test_nothing_is_copied_twice(config: configuration.Config) -> None:
    write(config, "a")
    assert backups.backup_if_changed(config) is not None
    assert backups.backup_if_changed(config) is None
    write(config, "b")
    assert backups.backup_if_changed(config) is not None


def test_there_is_nothing_to_copy_before_the_first_start(tmp_path: Path) -> None:
    assert backups.backup_if_changed(configuration.load({"PARLEY_DATA_DIR": str(tmp_path)})) is None


def test_a_copy_made_while_it_is_written_is_whole(config: configuration.Config) -> None:
    stop = threading.Event()

    def busy() -> None:
        number = 0
        while not stop.is_set():
            write(config, f"n{number:05d}")
            number += 1

    writer = threading.Thread(target=busy)
    writer.start()
    try:
        copies = [backups.backup(config) for _ in range(4)]
    finally:
        stop.set()
        writer.join(30)
    for copy in copies:
        with closing(sqlite3.connect(copy)) as opened:
            assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert names(copy) == [f"n{number:05d}" for number in range(len(names(copy)))]


def test_restoring_brings_back_the_copy_and_keeps_what_stood_there(config: configuration.Config) -> None:
    write(config, "a")
    copy = backups.backup(config)
    write(config, "b")
    before = backups.restore(config, copy)
    assert names(config.data_dir / "parley.db") == ["a"]
    assert before is not None
    assert names(before) == ["a", "b"]


@pytest.mark.parametrize("content", [b"", b"no database at all", b"SQLite format 3\x00" + b"x" * 5000])
def test_what_is_no_whole_database_is_refused_and_changes_nothing(
    config: configuration.Config, tmp_path: Path, content: bytes
) -> None:
    write(config, "a")
    bad = tmp_path / "bad.db"
    bad.write_bytes(content)
    with pytest.raises(BadInput, match="no whole SQLite database"):
        backups.restore(config, bad)
    with pytest.raises(BadInput):
        backups.restore(config, tmp_path / "missing.db")
    assert names(config.data_dir / "parley.db") == ["a"]


def test_another_database_is_copied_by_its_own_tools(tmp_path: Path) -> None:
    values = {"PARLEY_DATA_DIR": str(tmp_path), "PARLEY_DATABASE_URL": "postgresql://p@127.0.0.1/x"}
    with pytest.raises(BadInput, match="pg_dump"):
        backups.backup(configuration.load(values))
