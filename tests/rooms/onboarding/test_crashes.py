"""A worker dies in the middle of first questions: nothing is asked or answered twice, and nothing is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from app.inbox import claim, drain
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import transaction
from app.rooms import deliver, parts
from app.rooms.onboarding import matching, rounds, silence
from app.rooms.thinking import memory
from tests.fakes.house import ROOM, House
from tests.rooms.onboarding.conftest import BOB, answers, ends, look_after, round_of, told
from tests.rooms.onboarding.test_asking import FIRST, SECOND


class Killed(BaseException):
    """Ends a worker where it stands: what is committed stays, and nobody closes anything."""


def kill(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *, after: bool, number: int) -> list[bool]:
    """The worker dies at the `number`th call, before or after it was made."""
    original, calls, died = getattr(module, name), [], []

    def dying(*args: Any, **more: Any) -> Any:
        calls.append(True)
        if len(calls) != number:
            return original(*args, **more)
        if after:
            original(*args, **more)
        died.append(True)
        raise Killed

    monkeypatch.setattr(module, name, dying)
    return died


def survive(house: House, text: str) -> None:
    house.hear(text)
    for _ in range(2):
        try:
            house.work()
        except Killed:
            drain.recover()
            house.sent("inbox.drain", [house.instance.id, ROOM], delay=0.0)


@pytest.mark.parametrize(
    ("module", "name", "after", "number"),
    [
        (rounds, "begin", False, 1),
        (rounds, "begin", True, 1),
        (parts, "notify", False, 1),
        (parts, "notify", True, 1),
        (deliver, "flush", True, 1),
        (claim, "finish", False, 1),
        (parts, "write", False, 1),
        (parts, "write", True, 1),
        (rounds, "ask", True, 1),
        (claim, "finish", False, 2),
        (rounds, "end", False, 1),
        (rounds, "end", True, 1),
        (parts, "write", True, 2),
        (deliver, "over", False, 2),
        (claim, "finish", False, 3),
        (memory, "remember", True, 1),
        (parts, "write", True, 3),
        (claim, "finish", False, 4),
    ],
)
def test_a_worker_that_died_anywhere_has_asked_nothing_twice(
    house: House, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, after: bool, number: int
) -> None:
    died = kill(monkeypatch, module, name, after=after, number=number)
    house.model.say("Berth 4 is free.")
    for text in ("@atlas which berth is free?", "A", "the Mermaid"):
        survive(house, text)
    look_after(house)
    assert died == [True]
    assert house.talk.texts == [FIRST, SECOND, "Berth 4 is free."]
    assert ends(house) == [("done", "answered"), ("done", "onboarding"), ("done", "onboarding")]
    assert (round_of(house).state, answers(house)) == ("done", ["Oslo", "the Mermaid"])


def test_a_wake_up_that_is_lost_costs_seconds_and_no_answer(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    told(house, "@atlas which berth is free?")
    with monkeypatch.context() as patch:
        patch.setattr(claim, "wake", lambda *_: False)
        told(house, "skip")
    assert ends(house)[0] == ("waiting", "onboarding")
    look_after(house)
    look_after(house)
    assert ends(house) == [("done", "answered"), ("done", "onboarding")]
    assert house.talk.texts == [FIRST, "ok"]


def test_an_answer_that_crosses_the_end_of_the_time_is_looked_at_once_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(house, "@atlas which berth is free?")
    read, crossed = matching.read, []

    def crossing(*args: Any) -> Any:
        if not crossed:
            crossed.append(True)
            rounds.end(round_of(house), "expired")
        return read(*args)

    monkeypatch.setattr(matching, "read", crossing)
    told(house, "A")
    assert (house.last().state, house.last().reason) == ("queued", "retry")
    with transaction() as session:
        session.execute(update(Delivery).values(due_at=clock.now()))
    house.work_later()
    assert ends(house) == [("done", "answered"), ("done", "answered")]
    assert (answers(house), house.talk.texts) == ([], [FIRST, "ok", "ok"])


def test_the_periodic_work_of_two_workers_answers_once(house: House) -> None:
    told(house, "@atlas which berth is free?")
    with transaction() as session:
        session.execute(update(rounds.Round).values(asked_at=clock.now() - rounds.SILENCE))
    silence.go_on()
    silence.go_on()
    house.work()
    silence.go_on()
    house.work()
    assert house.talk.texts == [FIRST, "ok"]


def test_many_answers_at_once_make_one_step_each(house: House) -> None:
    told(house, "@atlas which berth is free?")
    for text in ("A", "the Mermaid", "B"):
        house.hear(text)
    house.hear("@atlas hello", **BOB)
    house.work()
    # Those that came before the next question was asked are no answers to it.
    assert (answers(house), round_of(house).question_id) == (["Oslo"], "boat")
    assert [reason for _, reason in ends(house)][1:] == ["onboarding", "unmentioned", "unmentioned", "answered"]
