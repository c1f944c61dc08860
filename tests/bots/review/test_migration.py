from __future__ import annotations

import sqlite3
from pathlib import Path

from app import config as configuration
from app.operate import migrations

NOW = "2026-01-02 03:04:05.000000"
BOT = {
    "instance_id": 1,
    "owner_id": 1,
    "system_prompt": "x",
    "groups": "[]",
    "teams": "[]",
    "is_active": 1,
    "limits": "{}",
    "created_at": NOW,
    "updated_at": NOW,
}


def test_what_others_use_already_stays_live_and_has_a_time_of_approval(tmp_path: Path) -> None:
    config = configuration.load({"PARLEY_DATA_DIR": str(tmp_path)})
    migrations.upgrade(config)
    migrations.downgrade(config, to="0002")
    with sqlite3.connect(tmp_path / "parley.db") as connection:
        for number, (scope, state) in enumerate(
            (("global", "approved"), ("personal", "approved"), ("global", "draft"))
        ):
            row = {**BOT, "name": "n", "mention_name": f"b{number}", "mention_key": f"b{number}", "scope": scope}
            row["state"] = state
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO parley_bots ({names}) VALUES ({marks})", list(row.values()))  # noqa: S608
    migrations.upgrade(config)
    with sqlite3.connect(tmp_path / "parley.db") as connection:
        rows = connection.execute("SELECT approved_at, revision, pending FROM parley_bots ORDER BY id").fetchall()
        assert [(at is not None, revision, pending) for at, revision, pending in rows] == [
            (True, 0, None),
            (False, 0, None),
            (False, 0, None),
        ]
        made = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'parley_bots'").fetchone()[0]
        assert "AUTOINCREMENT" in made
