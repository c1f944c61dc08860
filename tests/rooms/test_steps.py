"""What is written down of every turn: who answered, what it cost, how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from app.accounts.models import Instance
from app.conversations import cancel
from app.inbox import claim, drain
from app.infra import clock, jobs
from app.infra.db import reading, transaction
from app.rooms import parts
from app.settings import endpoints, store
from app.traces import view
from app.traces.models import TraceEvent, TurnTrace
from app.usage import report
from app.usage.models import UsageCall
from tests.conftest import Sent
from tests.fakes.house import House, built
from tests.fakes.model_server import ModelServer, Reply, completion, fitting
from tests.rooms.conftest import Clock


@pytest.fixture
def house(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent) as made:
        made.bot("atlas")
        store.set("heard_reaction", "off")
        yield made


def asked(house: House, text: str = "@atlas which berth is free?") -> TurnTrace:
    """The trace of a message, worked off."""
    house.hear(text)
    house.work()
    return rows(TurnTrace)[-1]


def rows(model: type[Any]) -> list[Any]:
    with reading() as session:
        return list(session.scalars(select(model).order_by(model.id)))


def kinds(turn: TurnTrace) -> list[str]:
    return [event["kind"] for event in view.whole(turn, with_text=True)["events"]]


def figures(turn: TurnTrace) -> tuple[Any, ...]:
    return (turn.status, turn.endpoint, turn.model, turn.model_calls, turn.tool_calls, turn.total_tokens)


def test_an_answered_turn_has_all_its_steps_and_figures(house: House) -> None:
    house.model.call("current_time")
    house.model.say("It is late.")
    turn = asked(house)
    assert figures(turn) == ("success", "primary", "case-model", 2, 1, 30)
    assert turn.finished_at is not None
    assert turn.milliseconds is not None
    assert kinds(turn) == [
        *("user_message", "model_asked", "attempt", "model_answered", "tool_call", "tool_result"),
        *("model_asked", "attempt", "model_answered", "answer"),
    ]


def test_what_the_fallback_answered_is_counted_as_its_own(house: House) -> None:
    with ModelServer() as spare:
        endpoints.save("secondary", url=spare.url)
        store.set("fallback_model", "secondary:spare")
        house.model.answer(Reply(status=503))
        spare.call("current_time")
        spare.say("It is late.")
        turn = asked(house)
    assert figures(turn) == ("success", "secondary", "spare", 2, 1, 30)
    assert {(call.endpoint, call.model) for call in rows(UsageCall)} == {("secondary", "spare")}
    assert [(row["endpoint"], row["calls"]) for row in report.sums()["days"]] == [("secondary", 2)]
    attempts = [event for event in rows(TraceEvent) if event.kind == "attempt"]
    assert [(event.name, event.payload["route"], event.payload["outcome"]) for event in attempts] == [
        *(("primary", "selected", "upstream"), ("secondary", "fallback", "ok"), ("secondary", "fallback", "ok")),
    ]


def test_a_turn_in_which_nobody_answered_names_who_was_chosen(house: House) -> None:
    house.model.answer(Reply(status=500))
    assert figures(asked(house)) == ("error", "primary", "case-model", 1, 0, 0)
    assert rows(UsageCall) == []


def test_tokens_are_counted_on_the_day_of_the_instance(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    night = clock.now().replace(hour=23, minute=30)
    monkeypatch.setattr(clock, "now", lambda: night)
    with transaction() as session:
        session.execute(update(Instance).values(timezone="Europe/Berlin"))
    asked(house)
    [row] = report.sums(house.instance.id, days=1)["days"]
    assert row["day"] > night.date().isoformat()


def test_a_stopped_turn_says_so(house: House) -> None:
    house.hear("@atlas hi")
    cancel.request(house.last().id)
    house.work()
    [turn] = rows(TurnTrace)
    assert (turn.status, turn.ended) == ("interrupted", "cancelled")
    assert (house.last().reason, turn.finished_at is not None) == ("stopped", True)


def test_a_turn_that_another_worker_took_keeps_what_it_has_cost(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def loses_the_lane(request: Any) -> Reply:
        kept.append(False)
        return fitting(request, completion("It is late."))

    kept: list[bool] = []
    house.model.call("current_time")
    house.model.answer(loses_the_lane)
    monkeypatch.setattr(drain, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(claim, "renew", lambda _: not kept)
    house.hear("@atlas hi")
    house.work()
    [turn] = rows(TurnTrace)
    assert (turn.ended, *figures(turn)) == ("lane_lost", "interrupted", "primary", "case-model", 2, 1, 15)
    assert house.talk.posts == []


def test_a_turn_whose_worker_died_keeps_the_figures_of_its_steps(
    house: House, monkeypatch: pytest.MonkeyPatch, time_machine: Clock
) -> None:
    house.model.call("current_time")
    house.model.say("It is late.")

    class Died(BaseException):
        pass

    def die(*_: Any, **more: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(parts, "write", die)
        house.hear("@atlas hi")
        with pytest.raises(Died):
            house.work()
    first = rows(TurnTrace)[0]
    with transaction() as session:
        session.execute(update(TurnTrace).where(TurnTrace.id == first.id).values(status="running", model_calls=0))
    time_machine.pass_(61)
    for _ in range(2):
        jobs.jobs.tasks["inbox.sweep"].run()
        time_machine.pass_(3)
    house.work()
    first, second = rows(TurnTrace)
    assert figures(first) == ("interrupted", "primary", "case-model", 2, 1, 30)
    assert first.milliseconds > 60_000
    assert second.status == "success"


def test_an_answer_without_a_model_is_no_turn(house: House) -> None:
    house.hear("@atlas")
    house.work()
    assert (house.last().reason, rows(TurnTrace), rows(UsageCall)) == ("answered", [], [])
