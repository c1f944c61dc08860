from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import manage
from app import config as configuration
from app import server
from app.infra import clock
from app.operate import backups


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command as the shell does, on a data directory of its own."""
    for name in ("PARLEY_DATABASE_URL", "PARLEY_BROKER_URL", "PARLEY_SECRET_KEY", "PARLEY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PARLEY_DATA_DIR", str(tmp_path / "var"))

    def call(*words: str) -> Ran:
        monkeypatch.setattr("sys.argv", ["manage.py", *words])
        try:
            code = manage.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, *capsys.readouterr())

    return call


def test_a_database_that_is_not_prepared_is_said_in_one_sentence(run: Run) -> None:
    done = run("users", "list")
    assert done.code == 1
    assert "db upgrade" in done.err
    assert "Traceback" not in done.err


def test_a_database_that_does_not_answer_is_said_without_its_password(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_DATABASE_URL", "postgresql://p:database-password-2@127.0.0.1:9/x?connect_timeout=2")
    done = run("users", "list")
    assert done.code == 1
    assert "does not answer" in done.err
    assert "database-password-2" not in done.err


def test_a_bad_variable_ends_with_2_and_names_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_PORT", "eighty")
    done = run("doctor")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "PARLEY_PORT" in done.err


@pytest.mark.parametrize("words", [("nonsense",), ("db", "nonsense"), ("backup", "--nonsense"), ("restore",)])
def test_wrong_words_end_with_2(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words).code == 2


def test_help_needs_no_database(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    assert "doctor" in done.out


def test_the_tables_go_up_and_down(run: Run) -> None:
    assert run("db", "current", "--json").json["pending"] is True
    assert run("db", "upgrade", "--json").json["pending"] is False
    assert run("db", "current").out.startswith("The database has ")
    assert run("db", "downgrade", "base", "--json").json["current"] is None


def test_the_doctor_names_what_is_missing_and_what_to_do(run: Run) -> None:
    done = run("doctor", "--json")
    assert done.code == 1
    assert [part["name"] for part in done.json["parts"] if not part["ok"]] == ["migrations"]
    assert "db upgrade" in done.json["parts"][-1]["remedy"]
    run("db", "upgrade")
    done = run("doctor", "--json")
    assert done.code == 1
    assert [part["name"] for part in done.json["parts"] if not part["ok"]] == ["worker"]
    assert "make run" in run("doctor").out


def test_the_doctor_sees_a_secret_that_does_not_open_and_a_key_that_others_read(run: Run, tmp_path: Path) -> None:
    run("db", "upgrade")
    run("doctor")
    (tmp_path / "var" / "secret.key").chmod(0o644)
    assert "chmod 600" in run("doctor").out
    (tmp_path / "var" / "secret.key").chmod(0o600)
    with sqlite3.connect(tmp_path / "var" / "parley.db") as database:
        database.execute(
            "INSERT INTO parley_settings (name, sealed, updated_at) VALUES ('metrics_token', 'x', '2026-01-01 00:00:00')"
        )
    assert "1 stored secrets do not open" in run("doctor").out


def test_the_doctor_asks_every_endpoint(run: Run) -> None:
    run("db", "upgrade")
    assert run("endpoints", "set", "primary", "--url", "http://127.0.0.1:9/v1", "--json").code == 0
    parts = {part["name"]: part for part in run("doctor", "--json").json["parts"]}
    assert parts["endpoint primary"]["ok"] is False
    assert parts["endpoint primary"]["state"]


def test_keys_are_rotated_and_the_old_one_is_gone(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)
    run("db", "upgrade")
    run("doctor")
    before = (tmp_path / "var" / "secret.key").read_text()
    done = run("keys", "rotate", "--json")
    assert (done.code, done.json["dropped"]) == (0, 1)
    after = (tmp_path / "var" / "secret.key").read_text()
    assert after != before
    assert before.strip() not in after


def test_a_copy_is_made_and_restored(run: Run, tmp_path: Path) -> None:
    run("db", "upgrade")
    run("users", "add", "ada", "--json")
    made = run("backup", "--json").json["file"]
    assert backups.PREFIX in made
    run("users", "add", "bob", "--json")
    assert run("restore", made, "--json").code == 0
    assert [person["uid"] for person in run("users", "list", "--json").json] == ["ada"]
    copy = tmp_path / "copy.db"
    assert run("backup", "--to", str(copy)).code == 0
    assert copy.exists()


def test_a_restore_beside_a_running_server_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOCK_WAIT", 0.1)
    run("db", "upgrade")
    made = run("backup", "--json").json["file"]
    with server.lock_data(configuration.load()):
        done = run("restore", made)
    assert done.code == 1
    assert "Another Parley runs" in done.err


def test_cleaning_up_tells_what_ran(run: Run) -> None:
    run("db", "upgrade")
    done = run("cleanup", "--json")
    assert done.code == 0
    assert "operate.cleanup" in [one["job"] for one in done.json]


def test_a_worker_of_its_own_needs_a_broker(run: Run) -> None:
    done = run("worker")
    assert done.code == 1
    assert "PARLEY_BROKER_URL" in done.err
