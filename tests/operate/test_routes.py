from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.exc import OperationalError

from app.infra import jobs, metrics
from app.infra.db import db
from app.settings import store


def test_a_process_that_answers_is_alive_even_without_a_database(app: Flask, client: Any, config: Any) -> None:
    (config.data_dir / "parley.db").unlink()
    assert client.get("/healthz").json == {"ok": True}


def test_it_is_ready_when_a_worker_runs(app: Flask, client: Any) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json == {"ok": False, "parts": {"database": True, "worker": False}}
    jobs.tick("jobs.sweep")
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json["ok"] is True


def test_it_is_not_ready_without_a_database(app: Flask, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    db.engine.dispose()
    monkeypatch.setattr("sqlite3.connect", fail)
    monkeypatch.setattr(db.engine.pool, "connect", fail)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json["parts"] == {"database": False}


def fail(*_args: Any, **_kwargs: Any) -> Any:
    raise OperationalError("SELECT 1", {}, sqlite3.OperationalError("away"))


def test_metrics_count_what_happened(app: Flask, client: Any) -> None:
    before = value(client, "parley_events_lost_total")
    metrics.event_lost()
    client.get("/nowhere/secret-room-name")
    text = client.get("/metrics").text
    assert value(client, "parley_events_lost_total") == before + 1
    assert 'parley_requests_total{endpoint="none",method="GET",status="404"}' in text
    assert "parley_jobs_queued 0.0" in text
    assert "parley_worker_up 0.0" in text
    assert "secret-room-name" not in text


def value(client: Any, name: str) -> float:
    line = next(line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} "))
    return float(line.split(" ")[1])


def test_metrics_are_for_this_machine_until_a_token_is_set(app: Flask, client: Any) -> None:
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", environ_base={"REMOTE_ADDR": "192.0.2.7"}).status_code == 403
    assert client.get("/metrics", headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 403


def test_with_a_token_metrics_are_for_whoever_sends_it(app: Flask, client: Any) -> None:
    token = "metrics-token-of-the-test-0123456789abcdef"
    store.set("metrics_token", token)
    away = {"REMOTE_ADDR": "192.0.2.7"}
    assert client.get("/metrics").status_code == 403
    assert client.get("/metrics", headers={"Authorization": f"Bearer {token}x"}).status_code in (401, 403)
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {token}"}, environ_base=away)
    assert answer.status_code == 200


def test_the_description_names_every_route_of_the_api(app: Flask, client: Any) -> None:
    described = client.get("/api/v1/openapi.json").json
    assert described["openapi"].startswith("3.")
    rules = [rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/api/v1/")]
    operations = {(path, method) for path, item in described["paths"].items() for method in item}
    assert len(operations) == len({(r.rule, m) for r in rules for m in (r.methods or set()) - {"HEAD", "OPTIONS"}})
    ids = [operation["operationId"] for item in described["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))
    for path, item in described["paths"].items():
        for operation in item.values():
            assert operation["summary"]
            assert path.count("{") == len(operation["parameters"])
            assert "<" not in path
