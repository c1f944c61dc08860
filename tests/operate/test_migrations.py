from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from app import config as configuration
from app.infra.errors import Conflict
from app.operate import backups, migrations
from tests.fakes import databases
from tests.house import ROOT

# The prefix is read when the models are imported, so each is tried in a process of its own.
PREFIXES = ("parley_", "p2_")
WAY = """
import json, sys
from app import config as configuration
from app.operate import migrations
config = configuration.load()
told = []
for step in ("up", "down", "up"):
    migrations.upgrade(config) if step == "up" else migrations.downgrade(config, to="base")
    told.append([migrations.revisions(config).pending, migrations.differences(config) if step == "up" else []])
print(json.dumps(told))
"""


@pytest.mark.parametrize("kind", databases.PARAMS)
def test_up_check_down_and_up_again_beside_another_prefix(kind: str, tmp_path: Path) -> None:
    with databases.fresh(kind, tmp_path) as url:
        for prefix in PREFIXES:
            assert walk(url, prefix, tmp_path) == [[False, []], [True, []], [False, []]]
        names = set(table_names(url, tmp_path))
        for prefix in PREFIXES:
            assert {f"{prefix}inbox", f"{prefix}alembic_version"} <= names
        assert {name for name in names if not name.startswith(PREFIXES)} == set()


@pytest.mark.services
def test_names_are_compared_exactly_on_mariadb(tmp_path: Path) -> None:
    with databases.fresh("mariadb", tmp_path) as url:
        config = load(tmp_path, url)
        migrations.upgrade(config)
        query = text(
            "SELECT DISTINCT table_collation FROM information_schema.tables "
            "WHERE table_schema = DATABASE() AND table_name NOT LIKE '%alembic_version'"
        )
        engine = create_engine(config.database_url)
        with engine.connect() as connection:
            collations = set(connection.scalars(query))
        engine.dispose()
        assert collations == {"utf8mb4_nopad_bin"}


def test_a_fresh_sqlite_database_is_made_when_a_server_starts(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert migrations.prepare(config) is True
    assert migrations.prepare(config) is False
    assert not migrations.revisions(config).pending


def test_sqlite_is_copied_before_it_is_migrated(tmp_path: Path) -> None:
    config = load(tmp_path)
    migrations.upgrade(config)
    migrations.downgrade(config, to="base")
    assert migrations.prepare(config)
    assert len(backups.kept(config)) == 1


def test_sqlite_is_migrated_wholly_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(tmp_path)
    with sqlite3.connect(config.data_dir / "parley.db") as connection:
        # One of the last tables stands in the way of the migration.
        connection.execute("CREATE TABLE parley_room_bots (x INTEGER)")
    with pytest.raises(Exception, match="already exists"):
        migrations.upgrade(config)
    assert table_names(config.database_url, tmp_path) == ["parley_room_bots"]
    assert migrations.revisions(config).current is None


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    config = load(tmp_path)
    migrations.upgrade(config)
    with sqlite3.connect(config.data_dir / "parley.db") as connection:
        connection.execute("UPDATE parley_alembic_version SET version_num = '9999'")
    with pytest.raises(Conflict, match="newer Parley"):
        migrations.prepare(config)


@pytest.mark.services
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_another_database_is_never_migrated_by_itself(kind: str, tmp_path: Path) -> None:
    with databases.fresh(kind, tmp_path) as url:
        config = load(tmp_path, url)
        with pytest.raises(Conflict, match="db upgrade"):
            migrations.prepare(config)
        assert table_names(url, tmp_path) == []
        migrations.upgrade(config)
        assert migrations.prepare(config) is False


def load(folder: Path, url: str = "") -> configuration.Config:
    return configuration.load({"PARLEY_DATA_DIR": str(folder), "PARLEY_DATABASE_URL": url})


def walk(url: str, prefix: str, folder: Path) -> Any:
    environment = {
        **os.environ,
        "PARLEY_DATABASE_URL": url,
        "PARLEY_TABLE_PREFIX": prefix,
        "PARLEY_DATA_DIR": str(folder),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run([sys.executable, "-c", WAY], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def table_names(url: str, folder: Path) -> list[str]:
    engine = create_engine(load(folder, url).database_url)
    try:
        return sorted(inspect(engine).get_table_names())
    finally:
        engine.dispose()
