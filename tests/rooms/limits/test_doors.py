from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask
from sqlalchemy import update

from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import transaction
from app.llm.limits import buckets
from app.rooms.limits import slots
from app.rooms.limits.commands import group
from app.rooms.limits.terms import Terms
from app.settings import endpoints, store
from tests.conftest import Sent
from tests.fakes import events
from tests.rooms.limits.conftest import Time, turn


@pytest.fixture
def home(app: Flask) -> int:
    return events.instance("cloud")


@pytest.fixture
def carol(home: int) -> dict[str, str]:
    return events.bearer(home, "carol", admin=True)


def in_line(instance_id: int, room: str = "room") -> None:
    """A turn that has begun, and one that waits for it."""
    store.set("turns_per_person_minute", 1)
    for _ in range(2):
        slots.ask(turn(room, instance_id=instance_id), Terms.read())


def buckets_of(told: Any, endpoint: str = "primary") -> dict[str, Any]:
    return {row["model"] or row["window"]: row for row in told["endpoints"] if row["endpoint"] == endpoint}


def test_administrators_see_the_limits_how_far_they_are_used_and_who_waits(
    client: Any, home: int, carol: dict[str, str], time: Time
) -> None:
    endpoints.save("primary", url="http://127.0.0.1:9/v1", model="m")
    endpoints.save("secondary", url="http://127.0.0.1:9/v1", model="m")
    store.set("rate_limits", {"primary": {"minute": 2, "day": 100}})
    limits = {"minute": 2, "day": 100}
    for _ in range(2):
        buckets.take("primary", "m", limits)
    buckets.heed("primary", "m2", {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "30s"})
    in_line(home)
    told = client.get("/api/v1/limits", headers=carol).json
    turns = told["turns"]
    assert (turns["per_room_minute"], turns["per_person_minute"]) == (20, 1)
    assert (turns["waiting"], turns["waiting_for"]) == (1, {"person": 1})
    assert turns["last_due"] > clock.now().isoformat()
    rows = buckets_of(told)
    assert {name: row["source"] for name, row in rows.items()} == {
        "second": "disabled",
        "minute": "configured",
        "hour": "disabled",
        "day": "configured",
        "m2": "observed",
    }
    assert (rows["minute"]["limit"], rows["minute"]["remaining"]) == (2, 0)
    assert rows["minute"]["recovers_at"] > clock.now().isoformat()
    assert (rows["day"]["limit"], rows["day"]["remaining"], rows["day"]["recovers_at"]) == (100, 98, None)
    assert (rows["second"]["limit"], rows["second"]["remaining"]) == (None, None)
    assert rows["m2"]["window"] == "pause"
    assert {row["source"] for row in buckets_of(told, "secondary").values()} == {"disabled"}


def test_a_recovered_bucket_is_shown_as_full(client: Any, home: int, carol: dict[str, str], time: Time) -> None:
    endpoints.save("primary", url="http://127.0.0.1:9/v1", model="m")
    store.set("rate_limits", {"*": {"minute": 1}})
    buckets.take("primary", "m", {"minute": 1})
    buckets.heed("primary", "m", {"ratelimit-remaining": "0", "ratelimit-reset": "5"})
    time.pass_(61)
    rows = buckets_of(client.get("/api/v1/limits", headers=carol).json)
    assert (rows["minute"]["remaining"], rows["minute"]["recovers_at"]) == (1, None)
    assert "m" not in rows


def test_an_instance_sees_and_hurries_those_that_wait_there(
    client: Any, home: int, carol: dict[str, str], sent: Sent, time: Time
) -> None:
    other = events.instance("other")
    in_line(home, "ours")
    in_line(other, "theirs")
    assert client.get("/api/v1/limits", headers=carol).json["turns"]["waiting"] == 1
    assert client.get("/api/v1/limits?instance=other", headers=carol).json["turns"]["waiting"] == 1
    assert client.post("/api/v1/limits/hurry", headers=carol).json == {"rooms": 1}
    assert list(sent) == [("inbox.drain", [home, "ours"], 0.0)]
    assert client.post("/api/v1/limits/hurry", headers=carol).json == {"rooms": 0}
    assert client.post("/api/v1/limits/hurry?instance=other", headers=carol).json == {"rooms": 1}


@pytest.mark.parametrize(("method", "path"), [("get", "/api/v1/limits"), ("post", "/api/v1/limits/hurry")])
def test_limits_are_for_administrators(client: Any, home: int, method: str, path: str) -> None:
    assert getattr(client, method)(path).status_code == 401
    assert getattr(client, method)(path, headers=events.bearer(home, "ada")).status_code == 403


def test_the_commands_show_and_hurry(app: Flask, home: int, sent: Sent, time: Time) -> None:
    endpoints.save("primary", url="http://127.0.0.1:9/v1", model="m")
    in_line(home, "ours")
    in_line(events.instance("other"), "theirs")
    run = CliRunner()
    assert json.loads(run.invoke(group, ["show", "--json"]).stdout)["turns"]["waiting"] == 2
    shown = run.invoke(group, ["show", "--instance", "cloud"]).stdout
    assert "waiting_for" in shown
    assert "primary" in shown
    assert json.loads(run.invoke(group, ["hurry", "--instance", "cloud", "--json"]).stdout) == {"rooms": 1}
    assert "1" in run.invoke(group, ["hurry"]).stdout
    assert [args for _, args, _ in sent] == [[home, "ours"], [home + 1, "theirs"]]


def test_nothing_waits_in_an_empty_house(app: Flask) -> None:
    told = json.loads(CliRunner().invoke(group, ["show", "--json"]).stdout)
    assert told["endpoints"] == []
    assert (told["turns"]["waiting"], told["turns"]["last_due"]) == (0, None)


def test_who_was_stopped_no_longer_counts(app: Flask, home: int, time: Time) -> None:
    in_line(home)
    with transaction() as session:
        session.execute(update(Delivery).values(state="done"))
    assert json.loads(CliRunner().invoke(group, ["show", "--json"]).stdout)["turns"]["waiting"] == 0
