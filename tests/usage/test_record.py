from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask import Flask
from sqlalchemy import func, select, update

from app import config as configuration
from app import create_app
from app.accounts import instances, people
from app.accounts.models import Instance
from app.bots import store as bots
from app.infra import clock
from app.infra.db import Base, db, reading, transaction
from app.llm.base import Usage
from app.usage import record, report
from app.usage.commands import usage
from app.usage.days import day_of
from app.usage.models import UsageCall, UsageDay
from tests.fakes import databases, events

ZONES = ("UTC", "Pacific/Auckland", "Pacific/Honolulu", "nowhere/at all")


@pytest.fixture(params=databases.PARAMS)
def any_app(request: pytest.FixtureRequest, tmp_path: Path, sent: object) -> Iterator[Flask]:
    with databases.fresh(request.param, tmp_path) as url:
        values = {"PARLEY_DATA_DIR": str(tmp_path / "var"), "PARLEY_SECRET_KEY": "k" * 20, "PARLEY_DATABASE_URL": url}
        made = create_app(configuration.load(values), sender=sent)  # type: ignore[arg-type]
        with made.app_context():
            Base.metadata.create_all(db.engine)
            yield made
            db.session.remove()
            db.engine.dispose()


def add(bot_id=2, *, prompt=10, completion=5, **where):
    told = {"instance_id": 1, "endpoint": "primary", "model": "m", "actor": "users/ada"} | where
    record.add(9, bot_id, usage=Usage(prompt, completion), **told)


def test_a_call_is_kept_and_its_day_summed(app):
    add()
    add(prompt=1, completion=1)
    add(model="other")
    with reading() as session:
        assert session.scalar(select(func.count(UsageCall.id))) == 3
    told = report.sums()
    assert [(row["model"], row["calls"], row["prompt_tokens"], row["completion_tokens"]) for row in told["days"]] == [
        ("m", 2, 11, 6),
        ("other", 1, 10, 5),
    ]
    assert told["total"] == {"calls": 3, "prompt_tokens": 21, "completion_tokens": 11, "total_tokens": 32}


def test_no_call_is_lost_when_sixteen_threads_count_the_same_day(any_app):
    barrier = threading.Barrier(16)

    def one(number):
        with any_app.app_context():
            barrier.wait()
            for _ in range(5):
                add(bot_id=number % 2 + 1)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, range(16)))
    with reading() as session:
        days = session.scalars(select(UsageDay)).all()
        assert session.scalar(select(func.count(UsageCall.id))) == 80
    assert sorted((day.bot_id, day.calls, day.prompt_tokens, day.completion_tokens) for day in days) == [
        (1, 40, 400, 200),
        (2, 40, 400, 200),
    ]


def test_a_call_that_can_not_be_counted_harms_nothing(app):
    Base.metadata.drop_all(db.engine, tables=[UsageCall.__table__])
    add()
    assert report.sums()["days"] == [] or report.sums()["total"]["calls"] == 0


def test_figures_that_a_server_made_up_are_made_to_fit(any_app):
    add(prompt=10**30, completion=-7, endpoint="e" * 100, model="m\x00\ud800" * 500, bot_id=None)
    with reading() as session:
        call = session.scalars(select(UsageCall)).one()
    assert (call.prompt_tokens, call.completion_tokens, len(call.endpoint), len(call.model)) == (2**31 - 1, 0, 32, 255)
    for _ in range(3):
        add(prompt=10**30, endpoint="e" * 100, model="m\x00\ud800" * 500, bot_id=None)
    assert report.sums()["days"][0]["prompt_tokens"] == 4 * (2**31 - 1)
    assert report.sums()["days"][0]["bot_id"] is None


@pytest.fixture
def moment(monkeypatch):
    """The time of a test, to be moved."""
    held = [datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)]
    monkeypatch.setattr(clock, "now", lambda: held[0])
    return held


def test_days_are_those_of_utc_where_nothing_else_is_set_and_old_ones_are_left_out(app, moment):
    add()
    moment[0] += timedelta(seconds=2)
    add()
    assert [row["day"] for row in report.sums(days=7)["days"]] == ["2026-03-02", "2026-03-01"]
    assert [row["day"] for row in report.sums(days=1)["days"]] == ["2026-03-02"]


def test_each_instance_has_the_days_of_its_own_time_zone(any_app, moment):
    homes = {zone: events.instance(f"cloud{number}") for number, zone in enumerate(ZONES)}
    with transaction() as session:
        for zone, home in homes.items():
            session.execute(update(Instance).where(Instance.id == home).values(timezone=zone))

    def days(zone, days=1):
        return [row["day"] for row in report.sums(homes[zone], days=days)["days"]]

    for zone, home in homes.items():
        add(instance_id=home, timezone=zone)
    assert [days(zone) for zone in ZONES] == [["2026-03-01"], ["2026-03-02"], ["2026-03-01"], ["2026-03-01"]]
    # Ten hours later it is the next day in UTC, still the same in Auckland, and in Honolulu it is the first.
    moment[0] += timedelta(hours=10)
    for zone, home in homes.items():
        add(instance_id=home, timezone=zone)
    assert [days(zone) for zone in ZONES] == [["2026-03-02"], ["2026-03-02"], ["2026-03-01"], ["2026-03-02"]]
    assert days("UTC", 2) == ["2026-03-02", "2026-03-01"]
    assert sorted((row["day"], row["calls"]) for row in report.sums(days=1)["days"]) == [
        *(("2026-03-01", 2), ("2026-03-02", 1), ("2026-03-02", 1), ("2026-03-02", 2)),
    ]


@pytest.mark.parametrize(
    ("at", "zone", "day"),
    [
        ("2026-03-29T00:59:59", "Europe/Berlin", "2026-03-29"),
        ("2026-03-29T21:59:59", "Europe/Berlin", "2026-03-29"),
        ("2026-03-29T22:00:00", "Europe/Berlin", "2026-03-30"),
        ("2026-10-25T22:59:59", "Europe/Berlin", "2026-10-25"),
        ("2026-10-25T23:00:00", "Europe/Berlin", "2026-10-26"),
        ("2026-03-29T22:00:00", "../etc/passwd", "2026-03-29"),
        ("2026-03-29T22:00:00", "", "2026-03-29"),
    ],
)
def test_a_day_begins_at_midnight_of_its_zone_in_summer_and_in_winter(at, zone, day):
    assert day_of(datetime.fromisoformat(at).replace(tzinfo=UTC), zone).isoformat() == day


def test_administrators_read_the_sums_of_their_instance(app, client):
    home, other = events.instance("cloud"), events.instance("other")
    add(instance_id=home)
    add(instance_id=other, prompt=99)
    carol = events.bearer(home, "carol", admin=True)
    assert client.get("/api/v1/usage", headers=carol).json["total"]["prompt_tokens"] == 10
    assert client.get("/api/v1/usage?instance=other&days=30", headers=carol).json["total"]["prompt_tokens"] == 99
    for days in ("0", "x", "-1", "99999999999", "²"):
        assert client.get(f"/api/v1/usage?days={days}", headers=carol).status_code == 400
    assert client.get("/api/v1/usage?instance=nowhere", headers=carol).status_code == 400
    assert client.get("/api/v1/usage", headers=events.bearer(home, "ada")).status_code == 403
    assert client.get("/api/v1/usage").status_code == 401


def test_the_command_prints_the_sums(app):
    home = events.instance("cloud")
    add(instance_id=home)
    add(instance_id=events.instance("other"))
    run = CliRunner()
    assert json.loads(run.invoke(usage, ["--json"]).stdout)["total"]["calls"] == 2
    assert json.loads(run.invoke(usage, ["--json", "--instance", "cloud"]).stdout)["total"]["calls"] == 1
    assert "total" in run.invoke(usage, ["--days", "30"]).stdout


def test_the_command_names_instances_and_bots_instead_of_numbering_them(app):
    home = instances.add("cloud", "https://cloud.example.test")
    values = {"name": "Atlas", "mention_name": "atlas", "system_prompt": "Help."}
    made = bots.create(home.id, people.ensure_admin(home.id).id, values)
    add(made.id, instance_id=home.id)
    add(made.id + 1, instance_id=home.id)
    first, second = CliRunner().invoke(usage, []).output.splitlines()[1:3]
    assert [word in first for word in ("cloud", "@atlas")] == [True, True]
    assert "@" not in second
