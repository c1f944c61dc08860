from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.inbox import claim
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock, jobs
from app.infra.db import reading
from app.rooms import parts, waiting
from app.rooms.answer import APOLOGY
from app.rooms.limits.models import TurnSlot
from app.rooms.models import Answer, Part
from app.rooms.parts import Pause
from app.settings import endpoints, store
from app.traces.models import TraceEvent, TurnTrace
from tests.conftest import Sent
from tests.fakes.house import ROOM, House, built, shared_file
from tests.fakes.model_server import ModelServer, Reply, completion, fitting
from tests.fakes.talk_server import Fault
from tests.rooms.conftest import Clock


@pytest.fixture
def time_machine(time_machine: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The same, but the time of day stands until it is moved: how long the machine takes for a test is told to nobody."""
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start + timedelta(seconds=time_machine.ahead))
    return time_machine


@pytest.fixture
def house(app: Flask, sent: Sent, time_machine: Clock) -> Iterator[House]:
    with built(app, sent) as made:
        made.bot("atlas")
        store.set("heard_reaction", "off")
        yield made


Later = Callable[[float], None]


@pytest.fixture
def later(house: House, time_machine: Clock) -> Later:
    """Lets seconds go by, and the workers work."""

    def pass_(seconds: float) -> None:
        time_machine.pass_(seconds)
        jobs.jobs.tasks["inbox.sweep"].run()
        house.work_later()

    return pass_


def asked(house: House, text: str = "@atlas which berth is free?", **how: Any) -> Delivery:
    assert house.hear(text, **how).status_code == 200
    house.work()
    return house.last()


def rows(model: type[Any]) -> list[Any]:
    with reading() as session:
        return list(session.scalars(select(model).order_by(model.id)))


def notices(house: House) -> list[str]:
    return [text for text in house.talk.texts if "Your answer comes in about" in text]


def ends(house: House) -> list[tuple[str, str]]:
    return [(row.state, row.reason) for row in house.deliveries()]


def replan() -> None:
    jobs.jobs.tasks["rooms.replan"].run()


def busy(*, retry_after: str | None) -> Reply:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Reply(status=429, json={"error": {"message": "slow down"}}, headers=headers)


def test_who_asks_too_often_is_told_the_time_once_and_answered_once(house: House, later: Later) -> None:
    store.set("turns_per_person_minute", 2)
    asked(house)
    asked(house)
    waits = asked(house, id=1777)
    assert (waits.state, waits.reason, waits.detail) == ("queued", "limit_wait", "person")
    assert re.search(
        r"You have used your 2 answers a minute\. Your answer comes in about 61 seconds", house.talk.texts[-1]
    )
    assert house.talk.posts[-1].reply_to == 1777
    assert asked(house).reason == "limit_wait"
    assert len(house.talk.posts) == 3
    later(30)
    assert len(house.model.chats) == 2
    later(35)
    assert ends(house) == [("done", "answered")] * 4
    assert len(house.model.chats) == 4
    assert len(house.talk.posts) == 5
    assert [post.reply_to for post in house.talk.posts].count(1777) == 2
    later(3600)
    assert len(house.talk.posts) == 5


def test_a_room_waits_for_its_limit_in_order(house: House, later: Later) -> None:
    store.set("turns_per_room_minute", 1)
    asked(house, "@atlas one")
    for number, actor in enumerate(("users/bob", "users/ada", "users/dan")):
        assert asked(house, f"@atlas more {number}", actor=actor, name=actor).reason == "limit_wait"
    first, *others = (re.findall(r"about (\d+ \w+)", text) for text in notices(house))
    assert (first, others) == (["61 seconds"], [["3 minutes"], ["4 minutes"]])
    assert "This room has used its 1 answers a minute" in notices(house)[0]
    assert asked(house, room="an0ther1", actor="users/bob", name="Bob").reason == "answered"
    for number in range(3):
        later(62)
        assert house.asked()["messages"][-1]["content"] == f"more {number}"
    assert set(ends(house)) == {("done", "answered")}


def test_somebody_who_waits_for_their_own_limit_does_not_hold_up_others(house: House, later: Later) -> None:
    store.set("turns_per_person_minute", 1)
    asked(house)
    assert asked(house).reason == "limit_wait"
    assert asked(house, actor="users/bob", name="Bob").reason == "answered"
    assert asked(house, "a message to nobody").reason == "unmentioned"
    later(62)
    assert house.deliveries()[1].reason == "answered"


def test_a_mention_without_a_question_and_a_denial_are_no_turns(house: House) -> None:
    store.set("turns_per_person_minute", 1)
    for _ in range(3):
        assert asked(house, "@atlas").reason == "answered"
    assert rows(TurnSlot) == []
    assert asked(house).reason == "answered"


def test_several_bots_are_several_turns(house: House, later: Later) -> None:
    house.bot("muse")
    store.set("turns_per_person_minute", 1)
    assert asked(house, "@atlas and @muse, which berth?").reason == "limit_wait"
    assert [text for text in house.talk.texts if text.endswith("ok")] == ["**atlas:** ok"]
    later(62)
    assert [text for text in house.talk.texts if text.endswith("ok")] == ["**atlas:** ok", "**muse:** ok"]
    assert house.last().reason == "answered"


def test_a_turn_that_waited_is_answered_with_its_files_and_what_it_replied_to(house: House, later: Later) -> None:
    store.set("turns_per_person_minute", 1)
    asked(house)
    house.post(shared_file("@atlas read this {file}", quoted=("users/bob", "Bob", "the plan of Monday")))
    house.work()
    assert house.last().reason == "limit_wait"
    later(62)
    said = json.dumps(house.asked()["messages"], ensure_ascii=False)
    assert "plan.pdf" in said
    assert "the plan of Monday" in said
    assert house.last().reason == "answered"


def test_nobody_waits_for_ever(house: House, later: Later) -> None:
    store.update({"turns_per_person_minute": 1, "turn_wait_minutes": 3})
    for _ in range(4):
        asked(house)
    assert [row.reason for row in house.deliveries()] == ["answered", "limit_wait", "limit_wait", "told_limit"]
    assert len(house.talk.posts) == 2
    # Whoever was told a moment ago that they wait is not told again.
    store.set("turn_wait_minutes", 1)
    later(62)
    assert asked(house).reason == "told_limit"
    assert house.talk.texts[-1].startswith("You have used your 1 answers a minute, and too many wait already.")
    later(62)
    assert [row.reason for row in house.deliveries()].count("answered") == 3


def test_whoever_waited_in_vain_is_told_in_one_sentence(house: House, later: Later) -> None:
    store.set("turn_wait_minutes", 5)
    house.model.answer(busy(retry_after="200"))
    assert asked(house).reason == "limit_wait"
    later(201)
    assert len(house.model.chats) == 2
    assert ends(house) == [("done", "told_limit")]
    assert len(house.talk.posts) == 2
    assert "Please ask again in" in house.talk.texts[-1]
    later(3600)
    assert len(house.model.chats) == 2


def test_a_changed_limit_counts_within_seconds(house: House, later: Later) -> None:
    store.set("turns_per_room_minute", 1)
    asked(house)
    asked(house, actor="users/bob", name="Bob")
    replan()
    house.work()
    assert house.last().reason == "limit_wait"
    store.set("turns_per_room_minute", 0)
    replan()
    house.work()
    assert house.last().reason == "answered"
    assert len(notices(house)) == 1


def test_when_somebody_before_is_stopped_the_others_move_up(house: House, later: Later) -> None:
    store.set("turns_per_person_minute", 1)
    for number in range(3):
        asked(house, f"@atlas question {number}")
    stopped = house.deliveries()[1]
    with house.app.app_context():
        from_queue = claim.take_lane(house.instance.id, ROOM, "who stops")
        assert from_queue is not None
    stop(stopped.id)
    claim.release(from_queue)
    later(30)
    replan()
    house.work()
    assert house.last().reason == "limit_wait"
    later(32)
    assert [row.reason for row in house.deliveries()] == ["answered", "stopped", "answered"]


def stop(delivery_id: int) -> None:
    with claim.transaction() as session:
        row = session.get_one(Delivery, delivery_id)
        row.state, row.reason = "done", Reason.STOPPED.value


def test_a_notice_that_could_not_be_sent_is_not_sent_right_before_the_answer(house: House, later: Later) -> None:
    store.set("turns_per_person_minute", 1)
    asked(house)
    house.talk.fail(Fault(503, of="message"))
    assert asked(house).reason == "limit_wait"
    later(62)
    assert house.last().reason == "answered"
    assert house.talk.texts == ["ok", "ok"]
    assert [part.kind for part in rows(Part)] == ["answer", "answer"]


def test_a_crash_while_a_turn_waits_loses_nothing(house: House, later: Later, time_machine: Clock) -> None:
    store.set("turns_per_person_minute", 1)
    asked(house)
    asked(house)
    time_machine.pass_(62)
    lane = claim.take_lane(house.instance.id, ROOM, "who dies")
    assert lane is not None
    assert claim.next_delivery(lane) is not None
    later(62)
    assert ends(house)[-1] == ("done", "answered")
    assert len(notices(house)) == 1
    assert len(house.model.chats) == 2


def test_a_turn_that_is_tried_again_counts_once_and_does_not_wait(
    house: House, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set("turns_per_person_minute", 1)
    with monkeypatch.context() as patch:
        patch.setattr(parts, "write", lambda *_: 1 / 0)
        assert asked(house).reason == "retry"
    later(5)
    assert house.last().reason == "answered"
    assert [slot.state for slot in rows(TurnSlot)] == ["begun"]
    assert notices(house) == []


def test_a_turn_does_not_begin_when_its_model_may_not_be_asked_for_long(house: House, later: Later) -> None:
    store.set("rate_limits", {"primary": {"minute": 1}})
    asked(house)
    waits = asked(house, actor="users/bob", name="Bob")
    assert (waits.state, waits.reason, waits.detail) == ("queued", "limit_wait", "model primary")
    assert re.search(
        r"The model has been asked as often as is allowed for now\. Your answer comes in about 6[0-2] seconds",
        house.talk.texts[-1],
    )
    assert len(rows(TurnTrace)) == 1
    assert asked(house, "a message to nobody").reason == "unmentioned"
    later(63)
    assert house.deliveries()[1].reason == "answered"
    assert len(house.model.chats) == 2


def test_a_wait_of_a_moment_is_nobody_s_concern(house: House) -> None:
    store.set("rate_limits", {"primary": {"second": 1}})
    for _ in range(3):
        assert asked(house).reason == "answered"
    assert notices(house) == []


def test_those_who_wait_for_a_model_come_one_after_the_other(house: House, later: Later) -> None:
    store.set("rate_limits", {"primary": {"minute": 1}})
    for number in range(4):
        asked(house, f"@atlas {number}", room=f"room{number:04}", actor=f"users/p{number}")
    for number in range(1, 4):
        assert len(house.model.chats) == number
        later(62)
        assert house.asked()["messages"][-1]["content"] == str(number)
    assert len(rows(TurnTrace)) == 4


def test_model_calls_are_counted_and_not_messages(house: House) -> None:
    store.set("rate_limits", {"primary": {"hour": 3}})
    house.model.call("current_time")
    house.model.say("It is late.")
    house.model.say("Berth 4.")
    assert asked(house).reason == "answered"
    assert asked(house).reason == "answered"
    assert len(house.model.chats) == 3
    assert asked(house).reason == "told_limit"


def test_a_limit_of_a_day_is_told_at_once_and_recovers(house: House, later: Later) -> None:
    store.set("rate_limits", {"primary": {"day": 1}})
    asked(house)
    assert asked(house).reason == "told_limit"
    assert house.talk.texts[-1].endswith("Please ask again in 25 hours.")
    later(90_000)
    assert asked(house).reason == "answered"


def test_a_server_that_is_busy_puts_the_turn_off(house: House, later: Later) -> None:
    house.model.answer(busy(retry_after="90"), lambda request: fitting(request, completion("Berth 4.")))
    waits = asked(house)
    assert (waits.state, waits.reason) == ("queued", "limit_wait")
    assert "Your answer comes in about 91 seconds" in house.talk.texts[0]
    # Nobody else asks it meanwhile, and whoever comes later stands behind.
    assert asked(house, actor="users/bob", name="Bob").reason == "limit_wait"
    assert len(house.model.chats) == 1
    assert [(trace.status, trace.error_class) for trace in rows(TurnTrace)] == [("waiting", "rate_limit")]
    later(92)
    assert ends(house) == [("done", "answered")] * 2
    assert house.talk.texts[-2:] == ["Berth 4."] * 2
    assert [answer.attempts for answer in rows(Answer)] == [2, 1]


def test_a_server_that_names_no_time_is_told(house: House) -> None:
    house.model.answer(busy(retry_after=None))
    assert asked(house).reason == "told_error"


def test_a_turn_that_has_used_a_tool_is_not_begun_again(house: House) -> None:
    house.model.call("current_time")
    house.model.answer(busy(retry_after="90"))
    assert asked(house).reason == "told_error"
    assert len(house.model.chats) == 2


def test_a_turn_that_has_said_something_is_not_begun_again(house: House) -> None:
    house.model.answer(
        Reply(
            headers={"Content-Type": "text/event-stream"},
            body=b'data: {"choices":[{"index":0,"delta":{"content":"Berth 4 is "}}]}\n\n'
            b'data: {"error":{"code":429,"message":"rate limit"}}\n\n',
        )
    )
    assert asked(house).reason == "answered_incomplete"


def test_a_fallback_answers_before_anybody_waits(house: House) -> None:
    with ModelServer() as spare:
        endpoints.save("secondary", url=spare.url)
        store.update({"fallback_model": "secondary:spare", "rate_limits": {"primary": {"day": 1}}})
        spare.say("From the spare.")
        asked(house)
        assert asked(house).reason == "answered"
        assert house.talk.texts == ["ok", "From the spare."]


def test_the_trace_tells_what_a_turn_has_waited_for(house: House, later: Later) -> None:
    store.set("turns_per_person_minute", 1)
    asked(house)
    asked(house)
    later(62)
    first, second = rows(TurnTrace)
    steps = [(step.turn_id, step.name, step.milliseconds) for step in rows(TraceEvent) if step.kind == "waited"]
    assert [(turn, name) for turn, name, _ in steps] == [(second.id, "person")]
    assert 61_000 < steps[0][2] < 64_000


def test_a_bot_whose_model_is_not_set_up_says_so_and_does_not_wait(house: House) -> None:
    store.set("rate_limits", {"primary": {"day": 1}})
    asked(house)
    house.bot("muse", model="primary:other")
    store.set("allowed_models", ["primary:case-model"])
    assert asked(house, "@muse hi").reason == "told_error"


def test_without_limits_nothing_is_written_about_turns(house: House) -> None:
    store.update({"turns_per_room_minute": 0, "turns_per_person_minute": 0})
    for _ in range(25):
        assert asked(house).reason == "answered"
    assert rows(TurnSlot) == []


def test_what_could_not_be_answered_for_a_day_is_told(
    house: House, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "limited", lambda _: Pause("later", Reason.LIMIT_WAIT, 600.0))
    asked(house)
    later(22 * 3600)
    assert (house.last().state, house.talk.texts) == ("queued", [])
    later(3601)
    assert ends(house) == [("dead", "waited_too_long")]
    assert house.talk.texts == [APOLOGY.text()]
