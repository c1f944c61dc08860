from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from app.infra import clock
from app.infra.db import Base, db, reading, transaction
from app.operate import cleanup
from app.traces import record
from app.traces.models import TraceEvent, TurnTrace
from app.traces.record import Recorder


def turn(turn_id):
    with reading() as session:
        return session.get(TurnTrace, turn_id)


def steps(turn_id):
    with reading() as session:
        return session.scalars(
            select(TraceEvent).where(TraceEvent.turn_id == turn_id).order_by(TraceEvent.sequence)
        ).all()


@pytest.fixture
def begun(app):
    return record.start(
        1, 5, bot_id=2, bot_name="Helper", room="room", actor="users/ada", endpoint="primary", model="m"
    )


def test_a_turn_is_recorded_from_its_start_to_its_end(begun, monkeypatch):
    recorder = Recorder(begun)
    recorder.event("user_message", payload={"text": "hello"})
    recorder.event("tool_call", name="room_search_messages", milliseconds=12, payload={"arguments": {"query": "x"}})
    assert turn(begun).status == "running"
    later = turn(begun).started_at + timedelta(seconds=2.5)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert recorder.finish(
        "success", ended="answered", model_calls=2, tool_calls=1, prompt_tokens=10, completion_tokens=5
    )
    found = turn(begun)
    assert (found.status, found.ended, found.model_calls, found.tool_calls) == ("success", "answered", 2, 1)
    assert (found.total_tokens, found.milliseconds, found.finished_at) == (15, 2500, later)
    assert [(step.sequence, step.kind, step.name, step.milliseconds) for step in steps(begun)] == [
        (0, "user_message", "", None),
        (1, "tool_call", "room_search_messages", 12),
    ]
    assert steps(begun)[1].payload == {"arguments": {"query": "x"}}


def test_the_first_finish_wins(begun):
    assert record.finish(begun, "success")
    assert not record.finish(begun, "error", detail="too late")
    assert (turn(begun).status, turn(begun).detail) == ("success", None)


def test_a_turn_whose_worker_is_gone_is_interrupted_and_stays_so(begun):
    record.interrupt(5)
    assert not record.finish(begun, "success")
    assert turn(begun).status == "interrupted"
    assert turn(begun).finished_at is not None


def test_steps_are_written_every_few_seconds_and_when_there_are_many(begun, monkeypatch):
    moment = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: moment[0])
    recorder = Recorder(begun)
    recorder.event("a")
    assert steps(begun) == []
    moment[0] += record.FLUSH_SECONDS
    recorder.event("b")
    assert [step.kind for step in steps(begun)] == ["a", "b"]
    for _ in range(record.FLUSH_EVENTS):
        recorder.event("c")
    assert len(steps(begun)) == 2 + record.FLUSH_EVENTS


def test_steps_are_never_written_inside_somebody_elses_transaction(begun):
    recorder = Recorder(begun)
    with reading():
        recorder.event("a")
        recorder.flush()
    recorder.flush()
    assert len(steps(begun)) == 1


def test_steps_that_could_not_be_written_are_written_the_next_time(begun, monkeypatch):
    recorder = Recorder(begun)
    recorder.event("a")

    def broken():
        raise OSError("the database is away")

    with monkeypatch.context() as away:
        away.setattr(record, "transaction", broken)
        recorder.flush()
    recorder.event("b")
    recorder.flush()
    assert [step.kind for step in steps(begun)] == ["a", "b"]


def test_a_trace_that_can_not_be_written_harms_nothing(app):
    Base.metadata.drop_all(db.engine, tables=[TraceEvent.__table__, TurnTrace.__table__])
    assert record.start(1) is None
    recorder = Recorder(None)
    recorder.event("a", payload={"text": "x"})
    assert not recorder.finish("success")
    lost = Recorder(99)
    for _ in range(3000):
        lost.event("a")
    assert not lost.finish("error", detail="x")


def test_a_step_with_an_impossible_payload_harms_nothing(begun):
    class Impossible(dict):
        def items(self):
            raise RuntimeError("no items")

    recorder = Recorder(begun)
    recorder.event("a", payload=Impossible(x=1))
    recorder.event("b")
    recorder.flush()
    assert [step.kind for step in steps(begun)] == ["b"]


def test_values_that_a_server_made_up_are_made_to_fit(begun):
    assert record.start(1, bot_name="x" * 1000, room="r" * 1000, actor="\x00\ud800" * 1000, model="m" * 1000)
    recorder = Recorder(begun)
    recorder.event("k" * 100, name="n" * 1000, milliseconds=10**30, payload={"text": "\ud800\x00"})
    assert recorder.finish("error", prompt_tokens=10**30, completion_tokens=-5, detail="d" * 10**6, ended="e" * 99)
    assert turn(begun).prompt_tokens == 2**31 - 1
    assert turn(begun).completion_tokens == 0
    assert len(turn(begun).detail) <= 4097
    assert len(steps(begun)) == 1


def test_a_turn_that_is_older_than_its_retention_goes_with_its_steps(begun, monkeypatch):
    recorder = Recorder(begun)
    recorder.event("a")
    recorder.finish("success")
    cleanup.forget()
    assert turn(begun) is not None
    month = clock.now() + timedelta(days=31)
    monkeypatch.setattr(clock, "now", lambda: month)
    cleanup.forget()
    assert turn(begun) is None
    assert steps(begun) == []


def test_an_interruption_is_part_of_the_callers_transaction(begun):
    def undone():
        with transaction():
            record.interrupt(5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        undone()
    assert turn(begun).status == "running"
