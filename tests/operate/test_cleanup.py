from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.inbox.gaps.models import Gap
from app.inbox.models import Delivery
from app.infra import clock, jobs
from app.infra.db import reading, transaction
from app.operate import cleanup
from app.traces.models import TraceEvent, TurnTrace
from app.usage.models import UsageCall
from tests.fakes import events


def delivery(number: int, days: int, state: str) -> Delivery:
    at = clock.now() - timedelta(days=days)
    return Delivery(
        registration_id=1,
        instance_id=1,
        kind="message",
        random_digest=f"{number:064d}",
        state=state,
        received_at=at,
        due_at=at,
    )


def test_what_is_too_old_goes_and_what_is_not_stays(any_app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "BITE", 2)
    now = clock.now()
    with transaction() as session:
        for number, (days, state) in enumerate(
            [(400, "done"), (400, "ignored"), (400, "dead"), (400, "queued"), (9, "done")]
        ):
            session.add(delivery(number, days, state))
        for days in (40, 10):
            session.add(TurnTrace(id=days, instance_id=1, started_at=now - timedelta(days=days)))
            session.flush()
            session.add(TraceEvent(turn_id=days, sequence=1, kind="model", created_at=now))
        for days in (100, 80):
            session.add(UsageCall(instance_id=1, endpoint="offline", model="quote", at=now - timedelta(days=days)))
    home = events.instance()
    with transaction() as session:
        for days, finished in ((40, now), (40, None), (20, now)):
            at = now - timedelta(days=days)
            session.add(Gap(instance_id=home, began_at=at, ended_at=at, due_at=at, finished_at=finished))
    gone = cleanup.forget()
    assert sorted(gone.values()) == [1, 1, 1, 3]
    with reading() as session:
        assert sorted(session.scalars(select(Delivery.state))) == ["done", "queued"]
        assert session.scalars(select(TurnTrace.id)).all() == [10]
        assert session.scalars(select(TraceEvent.turn_id)).all() == [10]
        assert len(session.scalars(select(UsageCall.id)).all()) == 1
        assert len(session.scalars(select(Gap.id)).all()) == 2
    assert set(cleanup.forget().values()) == {0}


def test_the_upkeep_of_every_package_runs_although_one_fails(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    tasks: dict[str, Any] = {
        "a.fails": jobs.Task("a.fails", fail, every=3600),
        "b.works": jobs.Task("b.works", lambda: ran.append("b"), every=86_400),
        "c.often": jobs.Task("c.often", lambda: ran.append("c"), every=5),
        "d.job": jobs.Task("d.job", lambda: ran.append("d")),
    }
    monkeypatch.setattr(jobs.jobs, "tasks", tasks)
    assert cleanup.run_all() == [cleanup.Done("a.fails", "ZeroDivisionError"), cleanup.Done("b.works")]
    assert ran == ["b"]


def test_all_upkeep_runs_on_an_empty_database(any_app: Flask) -> None:
    done = cleanup.run_all()
    assert len(done) >= 4
    assert {one.error for one in done} == {""}
