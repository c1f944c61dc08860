from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from app.bots import store as bots
from app.conversations import cancel
from app.conversations.models import RoomMessage
from app.inbox import claim
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import reading, transaction
from app.platforms import registrations, rooms
from app.rooms import answer, modes, parts
from app.rooms.models import Answer, Part
from app.settings import endpoints, store
from app.tools import registry
from app.tools.base import Tool, ToolContext
from app.traces.models import TraceEvent, TurnTrace
from app.usage.models import UsageCall
from tests.conftest import Sent
from tests.fakes.house import ROOM, House, built, message, shared_file
from tests.fakes.model_server import Reply, completion, fitting, stream
from tests.fakes.talk_server import Fault
from tests.rooms.conftest import Clock


@pytest.fixture
def house(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent) as made:
        made.bot("atlas")
        yield made


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> dict[str, Tool]:
    """The tools of this installation, to which a test may add its own, as a plugin would."""
    found = dict(registry.all_tools())
    monkeypatch.setattr(registry, "all_tools", lambda: found)
    return found


def asked(house: House, text: str = "@atlas which berth is free?", **how: Any) -> Delivery:
    """The delivery of a message, worked off."""
    assert house.hear(text, **how).status_code == 200
    house.work()
    return house.last()


def end(house: House) -> tuple[str, str]:
    last = house.last()
    return last.state, last.reason


def roles(body: dict[str, Any]) -> list[str]:
    return [entry["role"] for entry in body["messages"]]


def rows(model: type[Any]) -> list[Any]:
    with reading() as session:
        return list(session.scalars(select(model).order_by(model.id)))


def settle(condition: Any, *, seconds: float = 5.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_mention_is_answered_in_reply_to_it_and_closed_with_its_turn(house: House) -> None:
    house.model.say("Berth 4 is free.")
    delivery = asked(house, id=1777)
    [post] = house.talk.posts
    assert (post.text, post.reply_to, post.room) == ("Berth 4 is free.", 1777, ROOM)
    assert (delivery.state, delivery.reason) == ("done", "answered")
    [turn] = rows(TurnTrace)
    assert delivery.turn_id == turn.id
    assert (turn.status, turn.ended, turn.endpoint, turn.model) == ("success", "answered", "primary", "case-model")
    assert (turn.model_calls, turn.total_tokens, turn.actor) == (1, 15, "users/mira")
    assert [(call.endpoint, call.prompt_tokens) for call in rows(UsageCall)] == [("primary", 10)]


def test_the_model_is_told_who_asks_where_and_when(house: House) -> None:
    asked(house)
    body = house.asked()
    system = body["messages"][0]["content"]
    assert "You are atlas." in system
    assert "Harbour crew" in system
    assert "Mira Sund" in system
    assert f"{clock.now():%Y-%m-%d}" in system
    assert body["messages"][-1]["content"] == "which berth is free?"
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert {"room_search_messages", "current_time"} <= set(names)


def test_the_next_question_knows_what_was_said_before_and_by_whom(house: House) -> None:
    house.model.say("Berth 4.")
    asked(house)
    asked(house, "@atlas and tomorrow?", actor="users/bob", name="Bob Builder")
    said = house.asked()["messages"][1:]
    assert [entry["role"] for entry in said] == ["user", "assistant", "user"]
    assert re.fullmatch(r"\[Mira Sund, \d{4}-\d\d-\d\d \d\d:\d\d\]\nwhich berth is free\?", said[0]["content"])
    assert said[1]["content"] == "Berth 4."
    assert said[2]["content"] == "and tomorrow?"


def test_another_room_and_another_bot_know_nothing_of_it(house: House) -> None:
    house.bot("muse")
    asked(house)
    asked(house, "@muse what did we say?")
    assert roles(house.asked()) == ["system", "user"]
    asked(house, "@atlas what did we say?", room="an0ther1")
    assert roles(house.asked()) == ["system", "user"]


def test_a_quoted_message_goes_to_the_model_in_a_message_of_its_own(house: House) -> None:
    asked(house, "@atlas is that right?", quoted=("users/bob", "Bob Builder", "The gate opens at nine. @atlas"))
    said = house.asked()["messages"]
    assert said[-1]["content"] == "is that right?"
    assert "Bob Builder" in said[-2]["content"]
    assert "The gate opens at nine." in said[-2]["content"]
    assert rows(RoomMessage)[0].quoted == "Bob Builder: The gate opens at nine. @atlas"


def test_a_file_is_named_to_the_model_and_its_tools_are_there(house: House) -> None:
    bot = house.bot("plain", tools=[])
    assert bot.mention_name == "plain"
    house.post(shared_file("@plain what is this?", mimetype="image/png", file_name="crane.png"))
    house.work()
    body = house.asked()
    assert body["messages"][-1]["content"] == "what is this?\n[File: crane.png, image/png, 20480 bytes, id 4711]"
    assert "attachment_analyze_image" in [tool["function"]["name"] for tool in body["tools"]]
    assert "tool_choice" not in body


def test_a_voice_message_with_words_prefers_no_tool(house: House) -> None:
    modes.choose(house.instance.id, ROOM, bot_id=house.bots["atlas"].id, mode="always")
    house.post(shared_file("listen to this", mimetype="audio/mpeg"))
    house.work()
    assert "tool_choice" not in house.asked()


def test_tools_are_run_and_their_steps_are_in_the_trace(house: House) -> None:
    house.model.call("current_time", {"timezone": "Europe/Berlin"})
    house.model.say("It is late.")
    asked(house)
    assert house.talk.texts == ["It is late."]
    kinds = [event.kind for event in rows(TraceEvent)]
    assert kinds[0] == "user_message"
    assert kinds[-1] == "answer"
    assert {"model_asked", "model_answered", "tool_call", "tool_result", "attempt"} <= set(kinds)
    assert rows(TurnTrace)[0].tool_calls == 1


def test_the_room_is_searched_without_the_question_itself(house: House) -> None:
    house.model.say("The budget is 4,000 crowns.")
    asked(house, "@atlas the budget for paint is four thousand, noted?")
    house.model.call("room_search_messages", {"query": "budget paint"})
    house.model.say("Mira said four thousand.")
    asked(house, "@atlas what is the budget for paint?")
    [result] = [entry["content"] for entry in house.asked()["messages"] if entry["role"] == "tool"]
    assert "[1] Mira Sund, " in result
    assert "four thousand, noted?" in result
    assert "what is the budget" not in result


def test_several_bots_answer_in_order_each_under_its_name(house: House) -> None:
    house.bot("muse")
    house.model.say("First.")
    house.model.say("Second.")
    asked(house, "@muse and @atlas: which berth?")
    assert house.talk.texts == ["**muse:** First.", "**atlas:** Second."]
    assert len(rows(TurnTrace)) == 2


def test_a_name_stands_in_front_for_an_hour_after_another_bot_spoke(house: House, time_machine: Clock) -> None:
    house.bot("muse")
    asked(house)
    asked(house, "@muse hello")
    assert house.talk.texts == ["ok", "**muse:** ok"]
    time_machine.pass_(3700)
    asked(house, "@muse hello again")
    assert house.talk.texts[-1] == "ok"


def test_a_bot_with_a_registration_of_its_own_needs_no_name(house: House) -> None:
    own = registrations.create(house.instance.id, "Muse", shared=False, secret=house.talk.secrets[0] + "2")
    house.talk.secrets.append(house.talk.secrets[0] + "2")
    house.bot("muse", registration_id=own.id)
    body = message("@muse and @atlas")
    house.post(body)
    house.post(body, registration=own)
    house.work()
    assert sorted(house.talk.texts) == ["ok", "ok"]
    assert len({post.secret for post in house.talk.posts}) == 2


@pytest.mark.parametrize("text", ["@atlas", '@"atlas"', " **@atlas** ", "@atlas?!"])
def test_a_bare_mention_gets_a_line_of_help_and_no_model(house: House, text: str) -> None:
    asked(house, text)
    assert house.model.chats == []
    [line] = house.talk.texts
    assert line.startswith("I am atlas.")
    assert rows(RoomMessage) == []


def test_who_may_not_use_a_bot_is_told_so_once_a_day(house: House, time_machine: Clock) -> None:
    house.bot("private", scope="personal")
    assert asked(house, "@private hello").reason == "told_denied"
    assert asked(house, "@private hello?").reason == "denied"
    assert asked(house, "@private hello", actor="users/eve", name="Eve").reason == "told_denied"
    assert len(house.talk.posts) == 2
    assert house.model.chats == []
    time_machine.pass_(25 * 3600)
    assert asked(house, "@private hello!").reason == "told_denied"


def test_the_owner_of_a_personal_bot_is_answered(house: House) -> None:
    house.bot("private", scope="personal", owner="mira")
    assert asked(house, "@private hello").reason == "answered"


def test_a_group_bot_says_that_nobody_can_tell(house: House) -> None:
    house.bot("crew", scope="groups", groups=["crew"])
    assert asked(house, "@crew hello").reason == "told_unsure"


def test_a_guest_can_not_be_abused_to_reach_a_bot(house: House) -> None:
    assert asked(house, actor="guests/mira", name="Mira Sund", role="4").reason == "told_denied"
    assert asked(house, actor="federated_users/mira@https://else.example", name="M").reason == "told_denied"
    assert asked(house, actor="federated_users/mira@https://else.example", name="M").state == "ignored"
    assert house.model.chats == []


@pytest.mark.parametrize(
    ("actor", "reason"),
    [
        ("bots/bot-1", "bot_message"),
        ("bridged/x", "bot_message"),
        ("guests/cli", "bot_message"),
        ("users/parley-svc", "service_user"),
        ("nonsense", "bot_message"),
    ],
)
def test_bots_and_the_service_user_are_never_answered(house: House, actor: str, reason: str) -> None:
    house.change_instance(service_uid="parley-svc")
    modes.choose(house.instance.id, ROOM, bot_id=house.bots["atlas"].id, mode="always")
    assert (asked(house, actor=actor).state, house.last().reason) == ("ignored", reason)
    assert asked(house, actor=registrations.actor_id(house.registration)).reason == "own_message"
    assert house.talk.requests == []


def test_every_silence_has_a_reason(house: House) -> None:
    registrations.create(house.instance.id, "Own", shared=False)
    assert asked(house, "nobody is meant").reason == "unmentioned"
    assert asked(house, "@nobody is meant").reason == "unknown_name"
    assert asked(house, "   ").reason == "empty"
    own = registrations.create(house.instance.id, "Muse", shared=False)
    house.bot("muse", registration_id=own.id)
    assert asked(house, "@muse hello").reason == "not_here"
    rooms.cleared(house.instance.id, ROOM)
    house.hear("@atlas hello")
    rooms.cleared(house.instance.id, ROOM)
    house.work()
    assert house.last().reason == "cleared"
    assert house.talk.posts == []


def test_a_room_that_responds_always_needs_no_mention_and_denies_nobody_aloud(house: House) -> None:
    modes.choose(house.instance.id, ROOM, bot_id=house.bots["atlas"].id, mode="always")
    assert asked(house, "which berth is free?").reason == "answered"
    assert asked(house, "hello", actor="guests/1", role="4").state == "ignored"
    assert asked(house, "hello", room="an0ther1").reason == "unmentioned"
    assert len(house.talk.posts) == 1


def test_a_reply_to_an_answer_is_for_the_bot_that_gave_it(house: House) -> None:
    house.bot("muse")
    house.model.say("The gate opens at nine.")
    asked(house, "@muse when?")
    house.model.say("Berth 4.")
    asked(house)
    ours = registrations.actor_id(house.registration)
    asked(house, "and on Sunday?", quoted=(ours, "Talk AI (Bot)", "The gate opens at nine."))
    assert "You are muse." in house.asked()["messages"][0]["content"]
    asked(house, "thanks", quoted=(ours, "Talk AI (Bot)", "something nobody remembers"))
    assert "You are muse." in house.asked()["messages"][0]["content"]


def test_the_eyes_are_shown_while_it_works_and_gone_afterwards(house: House) -> None:
    asked(house, id=1888)
    settle(lambda: [seen.kind for seen in house.talk.requests if seen.kind != "message"] == ["react", "unreact"])
    assert house.talk.reactions == {(ROOM, 1888): []}


def test_a_failed_reaction_is_not_tried_again_and_delays_nothing(house: House) -> None:
    house.talk.fail(Fault(500, of="reaction"))
    assert asked(house).reason == "answered"
    time.sleep(0.1)
    assert [seen.kind for seen in house.talk.requests].count("react") == 1
    assert "unreact" not in [seen.kind for seen in house.talk.requests]


def test_a_slow_reaction_delays_nothing(house: House) -> None:
    house.talk.fail(Fault(delay=1.5, of="reaction", stores=True))
    begun = time.monotonic()
    assert asked(house).reason == "answered"
    assert time.monotonic() - begun < 1.2


@pytest.mark.parametrize(("setting", "kinds"), [("keep", {"react"}), ("off", set())])
def test_the_reaction_is_a_setting(house: House, setting: str, kinds: set[str]) -> None:
    store.set("heard_reaction", setting)
    asked(house)
    time.sleep(0.2)
    assert {seen.kind for seen in house.talk.requests} - {"message"} == kinds


def error_is_told(house: House, *, after: Any = lambda: None) -> str:
    """A question that fails is told so in one sentence, and the next one is answered."""
    assert asked(house).reason == "told_error"
    [text] = house.talk.texts
    assert "\n" not in text
    assert text.endswith((".", "?", "!", ")"))
    for inside in ("Traceback", "127.0.0.1", "http", "Error", "sk-"):
        assert inside not in text
    after()
    assert asked(house, "@atlas and now?").reason == "answered"
    assert house.talk.texts[-1] == "ok"
    history = json.dumps(house.asked()["messages"], ensure_ascii=False)
    assert text not in history
    assert "which berth is free?" in history
    return text


def test_a_dead_endpoint_is_told_and_the_next_question_is_answered(house: House) -> None:
    url = house.model.url
    endpoints.save("primary", url="http://127.0.0.1:9/v1")
    error_is_told(house, after=lambda: endpoints.save("primary", url=url))
    assert rows(TurnTrace)[0].status == "error"
    assert rows(TurnTrace)[0].error_class == "unreachable"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=401, json={"error": {"message": "bad key sk-123456789012"}}),
        Reply(status=404, json={"error": {"message": "model not found", "code": "model_not_found"}}),
        Reply(
            status=400, json={"error": {"message": "maximum context length is 8192", "code": "context_length_exceeded"}}
        ),
        Reply(status=200, body=b"<html>proxy</html>", headers={"Content-Type": "text/html"}),
        Reply(status=500, body=b"Traceback (most recent call last)"),
    ],
    ids=["key", "model", "context", "html", "500"],
)
def test_each_failure_of_a_model_is_one_sentence(house: House, reply: Reply) -> None:
    store.set("stream_timeout", 20)
    broken = [True]
    house.model.answer(lambda request: reply if broken[0] else fitting(request, completion("ok")))
    error_is_told(house, after=lambda: broken.__setitem__(0, False))


def test_an_unknown_endpoint_and_a_forbidden_model_are_told(house: House) -> None:
    house.bot("muse", model="primary:forbidden")
    store.set("allowed_models", ["primary:case-model"])
    assert asked(house, "@muse hi").reason == "told_error"
    assert asked(house).reason == "answered"


def test_a_bot_with_a_model_of_its_own_answers_with_the_default_where_it_may_have_none(house: House) -> None:
    house.bot("muse", model="primary:other")
    asked(house, "@muse hi")
    store.set("allow_multiple_models", False)
    assert asked(house, "@muse hi").reason == "answered"
    assert [chat.body["model"] for chat in house.model.chats] == ["other", "case-model"]


def test_a_message_too_long_for_the_model_is_told(house: House) -> None:
    endpoints.remember_models("primary", [endpoints.ModelInfo("case-model", 1000)], None)
    assert asked(house, "@atlas " + "word " * 5000).reason == "told_error"
    assert "too long" in house.talk.texts[0]
    assert house.model.chats == []
    assert asked(house, "@atlas hi").reason == "answered"


def test_the_newest_message_is_always_in_and_the_oldest_go_first(house: House) -> None:
    store.set("conversation_context_tokens", 1500)
    for number in range(6):
        house.model.say(f"answer {number} " + "x" * 300)
        asked(house, f"@atlas question {number} " + "y" * 700)
    asked(house, "@atlas the last one " + "z" * 20_000)
    contents = [entry["content"] for entry in house.asked()["messages"]]
    assert contents[-1].startswith("the last one")
    asked(house, "@atlas short")
    contents = json.dumps(house.asked()["messages"])
    assert "question 0" not in contents


def test_an_answer_that_was_cut_is_marked_as_incomplete_outside_of_its_code(house: House) -> None:
    house.model.say("So:\n```py\nprint(", finish_reason="length")
    assert asked(house).reason == "answered_incomplete"
    [text] = house.talk.texts
    assert text.startswith("So:\n```py\nprint(\n```\n\n")
    assert "incomplete" in text
    assert rows(TurnTrace)[0].status == "incomplete"
    remembered = rows(RoomMessage)[1]
    assert (remembered.incomplete, remembered.text) == (True, "So:\n```py\nprint(")


def test_nothing_usable_gets_one_honest_sentence(house: House) -> None:
    house.model.say("   \n\n")
    assert asked(house).reason == "told_error"
    assert len(house.talk.posts) == 1
    assert house.talk.texts[0].strip()


def plugin(name: str, run: Any, *, timeout: float = 60.0) -> Tool:
    return Tool(name, "A tool.", {"type": "object", "properties": {}}, run, timeout=timeout, source="test")


def raising(context: ToolContext, arguments: Any) -> str:
    raise RuntimeError("secret inside")


def huge(context: ToolContext, arguments: Any) -> str:
    return "x" * 50_000_000


def hanging(context: ToolContext, arguments: Any) -> str:
    time.sleep(30)
    return "late"


@pytest.mark.parametrize(
    ("run", "timeout"),
    [(raising, 60.0), (hanging, 0.3), (huge, 60.0)],
    ids=["raises", "hangs", "50 MB"],
)
def test_a_bad_tool_harms_neither_this_answer_nor_the_next(
    house: House, tools: dict[str, Tool], run: Any, timeout: float
) -> None:
    tools["bad"] = plugin("bad", run, timeout=timeout)
    house.bot("muse", tools=["bad"])
    house.model.call("bad")
    house.model.say("Without it.")
    begun = time.monotonic()
    assert asked(house, "@muse try").reason == "answered"
    assert time.monotonic() - begun < 10
    assert house.talk.texts == ["Without it."]
    [result] = [entry["content"] for entry in house.asked()["messages"] if entry["role"] == "tool"]
    assert len(result) < 20_000
    assert "secret inside" not in result
    assert asked(house).reason == "answered"


def test_a_tool_that_is_gone_leaves_the_bot_working(house: House) -> None:
    house.bot("muse", tools=["was_a_plugin"])
    assert asked(house, "@muse hi").reason == "answered"


def test_the_limits_of_settings_and_bot_bound_a_turn(house: House) -> None:
    house.bot("muse", limits={"model_calls": 2})
    house.model.answer(
        lambda request: fitting(
            request, completion(None, calls=[_time(request)]) if "tools" in request.body else completion("Done.")
        )
    )
    assert asked(house, "@muse go on").reason == "answered_incomplete"
    assert len(house.model.chats) == 2
    assert "tools" not in house.asked()


def _time(request: Any) -> dict[str, Any]:
    zone = f"Etc/GMT+{len(request.body['messages']) % 12}"
    return {
        "id": f"c{len(request.body['messages'])}",
        "type": "function",
        "function": {"name": "current_time", "arguments": json.dumps({"timezone": zone})},
    }


def test_an_error_that_nobody_foresaw_is_told_and_recorded(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError("inside")

    with monkeypatch.context() as patch:
        patch.setattr(registry, "loadout", broken)
        assert asked(house).reason == "told_error"
    assert "inside" not in house.talk.texts[0]
    assert rows(TurnTrace)[0].detail == "ZeroDivisionError"
    assert asked(house).reason == "answered"


def test_a_stopped_turn_says_nothing(house: House) -> None:
    house.hear("@atlas hi")
    cancel.request(house.last().id)
    house.work()
    assert end(house) == ("done", "stopped")
    assert house.talk.posts == []


def test_a_worker_that_lost_the_lane_stops_at_once_and_says_nothing(house: House) -> None:
    house.hear("@atlas hi")
    lane = claim.take_lane(house.instance.id, ROOM, "me")
    assert lane is not None
    delivery = claim.next_delivery(lane)
    assert delivery is not None
    verdict = answer.handle(delivery, renew=lambda: False)
    assert verdict.state == "later"
    assert house.talk.posts == []
    assert [one.state for one in rows(Answer)] == ["running"]


def test_what_an_earlier_try_wrote_is_only_sent(house: House) -> None:
    house.talk.fail(Fault.maintenance())
    house.talk.fail(Fault.maintenance(), Fault.maintenance())
    asked(house)
    assert end(house) == ("queued", "send_later")
    assert house.last().attempts == 0
    with transaction() as session:
        session.execute(update(Delivery).values(due_at=clock.now()))
    house.talk._faults.clear()
    house.work_later()
    assert end(house) == ("done", "answered")
    assert len(house.model.chats) == 1
    assert house.talk.texts == ["ok"]


def test_while_the_breaker_is_open_no_model_is_asked(house: House, time_machine: Clock) -> None:
    house.talk.fail(Fault(401, of="message"))
    asked(house)
    assert end(house) == ("queued", "breaker_open")
    asked(house, "@atlas second", room="an0ther1")
    assert end(house) == ("queued", "breaker_open")
    assert len(house.model.chats) == 1
    time_machine.pass_(700)
    house.work_later()
    assert [one.state for one in house.deliveries()] == ["done", "done"]
    assert house.talk.texts == ["ok", "ok"]


def test_a_dead_delivery_is_apologised_for_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: Any, **more: Any) -> Any:
        raise OSError("nobody expected this")

    with monkeypatch.context() as patch:
        patch.setattr(answer.thinking, "run", away)
        asked(house)
        for _ in range(4):
            with transaction() as session:
                session.execute(update(Delivery).values(due_at=clock.now()))
            house.work_later()
    assert end(house) == ("dead", "attempts")
    [text] = house.talk.texts
    assert "could not be answered" in text
    assert [row.role for row in rows(RoomMessage)] == []
    assert claim.retry(house.last().id)
    house.sent("inbox.drain", [house.instance.id, ROOM], delay=0.0)
    house.work()
    assert end(house) == ("done", "answered")
    assert house.talk.texts[-1] == "ok"


def tried_until_it_is_dead(house: House) -> None:
    for _ in range(6):
        with transaction() as session:
            session.execute(update(Delivery).where(Delivery.state == "queued").values(due_at=clock.now()))
        house.sent("inbox.drain", [house.instance.id, ROOM], delay=0.0)
        house.work()


def broken(*args: Any, **more: Any) -> Any:
    raise RuntimeError("nobody expected this")


# What happens to a message before anybody is known to be addressed.
EARLY = [
    (answer.listen, "note"),
    (answer.guard, "silence"),
    (answer.orders, "for_all"),
    (answer.members, "confirm"),
    (answer.resolve, "addressed"),
    (answer.parts, "owe"),
]


@pytest.mark.parametrize(("module", "name"), EARLY, ids=[name for _, name in EARLY])
def test_what_fails_before_it_is_known_who_answers_is_apologised_for_once(
    house: House, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    whole = getattr(module, name)
    tries: list[int] = []

    def fails(*args: Any, **more: Any) -> Any:
        tries.append(1)
        # Whoever owes can't be written down in any other way: that it fails for ever is the database's end.
        return broken() if name != "owe" or len(tries) <= 3 else whole(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, fails)
        house.hear("@atlas which berth is free?")
        tried_until_it_is_dead(house)
    assert end(house) == ("dead", "attempts")
    [post] = house.talk.posts
    assert "could not be answered" in post.text
    assert post.reply_to == int(house.last().object_id or 0)
    assert house.model.chats == []


@pytest.mark.parametrize(("module", "name"), EARLY[:-1], ids=[name for _, name in EARLY[:-1]])
@pytest.mark.parametrize(
    "text", ["good morning", "write to crew@atlas.example", "`@atlas` is its name", "@nobody hello", "@all hello"]
)
def test_what_fails_but_was_for_no_bot_is_not_apologised_for(
    house: House, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, text: str
) -> None:
    monkeypatch.setattr(module, name, broken)
    house.hear(text)
    tried_until_it_is_dead(house)
    assert house.last().state in ("dead", "ignored")
    assert house.talk.posts == []


def test_a_bots_own_words_are_never_apologised_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer.guard, "silence", broken)
    monkeypatch.setattr(answer.listen, "note", broken)
    house.hear("@atlas hello", actor="bots/bot-1234", role=None)
    house.post(message("@atlas hello", kind="Activity", object_name="conversation_renamed"))
    tried_until_it_is_dead(house)
    assert house.talk.posts == []


def test_a_reply_to_a_bot_is_apologised_for_by_that_bot(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = registrations.actor_id(house.registration)
    monkeypatch.setattr(answer.members, "confirm", broken)
    house.hear("and tomorrow?", quoted=(ours, "Talk AI (Bot)", "Berth 4."))
    tried_until_it_is_dead(house)
    [text] = house.talk.texts
    assert "could not be answered" in text


def test_where_a_bot_answers_everything_it_apologises_for_what_names_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes.choose(house.instance.id, ROOM, bot_id=house.bots["atlas"].id, mode="always")
    monkeypatch.setattr(answer.listen, "note", broken)
    house.hear("which berth is free?")
    tried_until_it_is_dead(house)
    assert len(house.talk.posts) == 1


def test_an_apology_that_can_not_be_sent_now_is_sent_later(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer.thinking, "run", broken)
    house.talk.fail(Fault(503, of="message"))
    house.hear("@atlas which berth is free?")
    tried_until_it_is_dead(house)
    assert end(house) == ("dead", "attempts")
    assert len(house.talk.posts) == 1


def test_an_answer_that_was_written_before_the_last_attempt_failed_is_sent_and_is_no_apology(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(answer.deliver, "_post", broken)
        house.hear("@atlas which berth is free?")
        house.work()
        with transaction() as session:
            session.execute(update(Delivery).values(attempts=3))
            session.execute(update(Part).values(state="written", claimed_at=None))
    tried_until_it_is_dead(house)
    assert house.talk.texts == ["ok"]
    assert end(house) == ("done", "answered")


def test_an_operator_may_have_a_lost_answer_sent_again(house: House) -> None:
    house.talk.fail(Fault(of="message", ends="drop"))
    asked(house)
    assert end(house) == ("unknown", "reply_lost")
    assert claim.retry(house.last().id)
    house.sent("inbox.drain", [house.instance.id, ROOM], delay=0.0)
    house.work()
    assert end(house) == ("done", "answered")
    assert len(house.model.chats) == 1


def test_a_bot_that_is_gone_before_its_turn_leaves_a_reason(house: House) -> None:
    house.hear("@atlas hi")
    [made] = parts.owe(house.last().id, [house.bots["atlas"].id])
    bots.remove(made.bot_id)
    house.work()
    assert house.last().state == "ignored"


def membership(kind: str) -> dict[str, Any]:
    thing = {"type": "Collection", "id": ROOM, "name": "Harbour crew"}
    return {"type": kind, "actor": {"type": "Application", "id": "bots/bot-1", "name": "Talk AI"}, "object": thing}


def test_a_bot_that_was_removed_from_the_room_meanwhile_asks_no_server(house: House) -> None:
    house.hear("@atlas hi")
    house.post(membership("Leave"))
    house.work()
    assert [(row.state, row.reason) for row in house.deliveries()] == [("ignored", "room_left"), ("done", "left")]
    assert house.talk.requests == []
    asked(house)
    assert end(house) == ("done", "answered")


def test_what_was_asked_after_the_room_was_cleared_is_answered_though_nobody_had_come_to_that_yet(
    house: House, time_machine: Clock
) -> None:
    house.hear("@atlas before")
    time_machine.pass_(1)
    house.post(message("cleared", kind="Activity", object_name="history_cleared"))
    time_machine.pass_(1)
    house.hear("@atlas after")
    time_machine.pass_(30)
    house.work()
    assert [row.reason for row in house.deliveries()] == ["answered", "recorded", "answered"]


def test_what_was_asked_after_the_bot_had_left_and_come_back_is_answered_though_nobody_had_come_to_that_yet(
    house: House, time_machine: Clock
) -> None:
    asked(house)
    house.post(membership("Leave"))
    time_machine.pass_(1)
    house.hear("@atlas and now?")
    time_machine.pass_(30)
    house.work()
    assert [row.reason for row in house.deliveries()] == ["answered", "left", "answered"]


def test_a_room_is_bound_by_its_first_message(house: House) -> None:
    asked(house)
    room = rooms.get(house.instance.id, ROOM)
    assert room is not None
    assert rooms.bound(room.id) == [house.registration.id]


def test_a_streamed_answer_is_one_message(house: House) -> None:
    house.model.answer(
        stream(
            [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in ("Ber", "th ", "4.")]
            + [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        )
    )
    asked(house)
    assert house.talk.texts == ["Berth 4."]


def test_a_thread_has_a_history_of_its_own(house: House) -> None:
    asked(house)
    body = message("@atlas in the thread")
    body["object"]["threadId"] = 1200
    house.post(body)
    house.work()
    assert roles(house.asked()) == ["system", "user"]
    assert rows(RoomMessage)[-1].thread == 1200


def test_what_is_remembered_is_without_names_and_notices(house: House) -> None:
    house.bot("muse")
    house.model.say("Berth 4, tell @all.")
    asked(house, "@atlas and @muse: which?")
    remembered = [row.text for row in rows(RoomMessage) if row.role == "assistant"]
    assert remembered[0] == "Berth 4, tell @all."
    assert all(part.text.startswith("**") for part in rows(Part))
