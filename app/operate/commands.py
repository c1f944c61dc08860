"""Commands of whoever operates Parley: run, worker, db, keys, backup, restore, cleanup, doctor."""

from __future__ import annotations

import signal
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from flask import current_app

import app as parley
from app import config as configuration
from app import server
from app.config import DATA_DIR_MODE, Config
from app.infra import cli, crypto, jobs
from app.infra.i18n import say
from app.operate import backups, cleanup, doctor, migrations
from app.operate import keys as rotation
from app.settings import store


@click.command("run")
@click.option("--host", metavar="HOST", help="Where to listen; else PARLEY_HOST.")
@click.option("--port", metavar="PORT", help="The port; else PARLEY_PORT. 0 takes a free one.")
@click.option("--no-worker", is_flag=True, help="Serve pages and webhooks only; jobs run in `worker`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON where a start is refused.")
@cli.without_app
def run(host: str | None, port: str | None, no_worker: bool, as_json: bool) -> None:
    """Serve Parley: web, worker and scheduler in one process, until Ctrl-C."""
    config = configuration.load(given={**_given("PARLEY_HOST", host), **_given("PARLEY_PORT", port)})
    # A bad key is a sentence here, and a traceback in the worker.
    crypto.init_app(config)
    if migrations.prepare(config):
        click.echo(str(say("The database is prepared for this version.")))
    server.serve(config, workers=not no_worker)


@click.command("worker")
@click.option("--json", "as_json", is_flag=True, help="Print JSON where a start is refused.")
@cli.without_app
def worker(as_json: bool) -> None:
    """Run jobs and the scheduler for servers that share PARLEY_BROKER_URL, until Ctrl-C."""
    config = configuration.load()
    if config.broker_url is None:
        cli.fail(say("A worker of its own needs PARLEY_BROKER_URL; without it `run` holds the worker."))
    if migrations.revisions(config).pending:
        cli.fail(say("The database needs a migration first: run `python manage.py db upgrade`."))
    app = parley.create_app(config)
    if not jobs.broker_answers():
        cli.fail(say("The broker of PARLEY_BROKER_URL does not answer."))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    with app.app_context():
        slots = store.get("turn_slots")
    jobs.start_embedded(turn_slots=slots)
    with app.app_context():
        jobs.tick(jobs.SWEEP)
    click.echo(str(say("The worker runs - Ctrl-C stops it.")))
    stop.wait()
    server.end_now(app, alone=False)


@click.group("db")
def db() -> None:
    """The tables: upgrade, downgrade, current."""


@db.command("upgrade")
@cli.json_option
@cli.without_app
def upgrade(as_json: bool) -> None:
    """Bring the database to this version."""
    config = configuration.load()
    if config.is_sqlite:
        backups.backup_if_changed(config)
    migrations.upgrade(config)
    _show_revisions(config, as_json)


@db.command("downgrade")
@click.argument("revision")
@cli.json_option
@cli.without_app
def downgrade(revision: str, as_json: bool) -> None:
    """Take the database back to a revision; `base` removes every table and all that is in them."""
    config = configuration.load()
    if config.is_sqlite:
        backups.backup_if_changed(config)
    migrations.downgrade(config, to=revision)
    _show_revisions(config, as_json)


@db.command("current")
@cli.json_option
@cli.without_app
def current(as_json: bool) -> None:
    """Show which revision the database has."""
    _show_revisions(configuration.load(), as_json)


@click.group("keys")
def keys() -> None:
    """The key that seals stored secrets."""


@keys.command("rotate")
@cli.json_option
def rotate(as_json: bool) -> None:
    """Seal every stored secret with a new key."""
    config = _config()
    done = rotation.rotate(config)
    cli.output(asdict(done), as_json, lambda: click.echo(_rotated(config, done)))
    if done.broken:
        cli.fail(say("These secrets open with no key, set them again: {names}", names=", ".join(done.broken)))


@click.command("backup")
@click.option("--to", metavar="FILE", help="Where to; else the folder backups, the last five kept.")
@cli.json_option
def backup(to: str | None, as_json: bool) -> None:
    """Copy the SQLite database while it is used. The key file is not in it: keep a copy of that elsewhere."""
    made = backups.backup(_config(), to=Path(to) if to else None)
    cli.output({"file": str(made)}, as_json, say("Copied to {file}.", file=made))


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@cli.json_option
@cli.without_app
def restore(file: Path, as_json: bool) -> None:
    """Put a copy in the place of the SQLite database; what stands there is copied first. Stop Parley before."""
    config = configuration.load()
    config.data_dir.mkdir(parents=True, exist_ok=True, mode=DATA_DIR_MODE)
    with server.lock_data(config):
        before = backups.restore(config, file)
    cli.output({"restored": str(file), "before": before and str(before)}, as_json, say("Restored {file}.", file=file))


@click.command("cleanup")
@cli.json_option
def clean(as_json: bool) -> None:
    """Delete what is older than its retention, now."""
    done = cleanup.run_all()
    rows = [(one.job, one.error or "ok") for one in done]
    cli.output(done, as_json, lambda: cli.table(rows, head=("upkeep", "result")))
    if any(one.error for one in done):
        raise SystemExit(1)


@click.command("doctor")
@cli.json_option
def examine(as_json: bool) -> None:
    """Look at every part and say what to do about what does not work. Exits with 1 where something is broken."""
    rows = []
    for check in doctor.examine(_config()):
        remedy = None if check.remedy is None else str(check.remedy)
        row = {"name": check.name, "ok": check.ok, "level": check.level, "state": str(check.state), "remedy": remedy}
        rows.append(row)
        if not as_json:
            # At once: the next server may let us wait.
            _tell(row)
    ok = all(row["ok"] for row in rows)
    cli.output({"ok": ok, "parts": rows}, as_json)
    if not ok:
        raise SystemExit(1)


def _tell(row: dict[str, Any]) -> None:
    sign = {"ok": "ok  ", "note": "note", "bad": "BAD "}[row["level"]]
    click.echo(f"{sign} {row['name']}: {row['state']}")
    if row["remedy"]:
        click.echo(f"     {row['remedy']}")


def _rotated(config: Config, done: rotation.Rotated) -> str:
    resealed = say("Secrets sealed with the newest key: {number}.", number=done.resealed)
    if done.dropped:
        return f"{resealed} {say('The old key is gone; people sign in again after the next start.')}"
    if done.keys > 1:
        return f"{resealed} {say('The older keys may now be taken out of PARLEY_SECRET_KEY.')}"
    hint = say(
        "PARLEY_SECRET_KEY holds one key only: put a new one before it with a comma, start Parley again, and rotate."
    )
    return f"{resealed} {hint}"


def _show_revisions(config: Config, as_json: bool) -> None:
    found = migrations.revisions(config)
    data = {"current": found.current, "head": found.head, "pending": found.pending}
    text = say("The database has {current}, this version needs {head}.", current=found.current or "-", head=found.head)
    cli.output(data, as_json, text)


def _config() -> Config:
    found: Config = current_app.extensions["parley_config"]
    return found


def _given(name: str, value: str | None) -> dict[str, str]:
    return {} if value is None else {name: value}


COMMANDS: list[click.Command] = [run, worker, db, keys, backup, restore, clean, examine]
