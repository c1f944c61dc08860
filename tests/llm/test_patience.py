from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from app.agent import loop
from app.agent.events import Finished
from app.agent.turn import Turn
from app.infra import clock
from app.llm import urls
from app.llm.base import (
    Attempt,
    ChatRequest,
    Completion,
    ErrorClass,
    Message,
    ModelError,
    ModelEvent,
    TextDelta,
    Tick,
    ToolCall,
    ToolSchema,
)
from app.llm.chat import EndpointModel
from app.llm.limits.attempts import Attempts
from app.llm.limits.capacity import Capacity
from app.llm.patience import PatientModel, Terms
from app.llm.quirks import memory
from app.llm.quirks.base import Quirk
from app.tools.base import Tool
from tests.fakes.model_server import Asked, ModelServer, Reply, chunk, completion, fitting, stream, tool_call

PING = ToolSchema("ping", "Says pong.", {"type": "object", "properties": {}})
ASKED = (Message("system", "You are the harbour bot."), Message("user", "When does the gate open?"))
CALLED = (*ASKED, Message("assistant", "", (ToolCall("c1", "ping", "{}"),)), Message("tool", "4", tool_call_id="c1"))


def patient(server: ModelServer, *, attempts: int = 24, **terms: Any) -> PatientModel:
    return PatientModel(EndpointModel("primary", urls.normalise(server.url)), Terms(Attempts(attempts), **terms))


def request(**how: Any) -> ChatRequest:
    return ChatRequest(**{"model": "case-model", "messages": ASKED, **how})


def ask(asked: PatientModel, **how: Any) -> tuple[Completion, list[ModelEvent]]:
    events = list(asked.stream(request(**how)))
    assert isinstance(events[-1], Completion)
    return events[-1], events


def failure(model: PatientModel, *, patient: bool = True, **how: Any) -> tuple[ModelError, list[ModelEvent]]:
    seen: list[ModelEvent] = []
    with pytest.raises(ModelError) as caught:
        seen.extend(model.stream(request(**how), patient=patient))
    return caught.value, seen


def error(message: str, status: int = 400, **headers: str) -> Reply:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, json={"error": {"message": message}}, headers=told)


def refuse(server: ModelServer, test: Callable[[dict[str, Any]], bool], message: str, status: int = 400) -> None:
    """Answers "Nine." to every request that the test lets pass."""

    def script(asked: Asked) -> Reply:
        return error(message, status) if test(asked.body) else fitting(asked, completion("Nine."))

    server.answer(script)


def has(key: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: key in body


def has_role(role: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: any(message["role"] == role for message in body["messages"])


def roles(server: ModelServer) -> list[str]:
    return [message["role"] for message in server.chats[-1].body["messages"]]


FULL: dict[str, Any] = {
    "messages": CALLED,
    "tools": (PING,),
    "tool_choice": "ping",
    "temperature": 0.2,
    "max_tokens": 500,
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("test", "message", "quirk"),
    [
        (
            has("max_tokens"),
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'",
            Quirk.COMPLETION_TOKENS,
        ),
        (lambda body: body["max_tokens"] > 100, "max_tokens must be at most 100", Quirk.OUTPUT_TOKENS),
        (has("temperature"), "Unsupported value: 'temperature'", Quirk.NO_TEMPERATURE),
        (has("tools"), "this model does not support tools", Quirk.NO_TOOLS),
        (has("tool_choice"), "tool_choice is not supported", Quirk.NO_TOOL_CHOICE),
        (has_role("tool"), "Only user and assistant roles are supported!", Quirk.NO_TOOL_ROLE),
        (has_role("system"), "System role not supported", Quirk.NO_SYSTEM),
        (
            lambda body: any(m["role"] == "tool" and "name" not in m for m in body["messages"]),
            "function_response.name: Name cannot be empty.",
            Quirk.TOOL_NAMES,
        ),
        (
            lambda body: any(m.get("tool_call_id", "123456789") == "c1" for m in body["messages"]),
            "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9.",
            Quirk.SHORT_IDS,
        ),
        (
            lambda body: any(m["content"] == "" for m in body["messages"]),
            "messages: text content blocks must be non-empty",
            Quirk.NULL_CONTENT,
        ),
    ],
)
def test_one_retry_heals_and_the_next_call_needs_none(
    app: Flask,
    model_server: ModelServer,
    test: Callable[[dict[str, Any]], bool],
    message: str,
    quirk: Quirk,
    streamed: bool,
) -> None:
    refuse(model_server, test, message)
    last, events = ask(patient(model_server), stream=streamed, **FULL)
    assert (last.text, last.complete, len(model_server.chats)) == ("Nine.", True, 2)
    attempts = [event for event in events if isinstance(event, Attempt)]
    assert [(attempt.outcome, attempt.reason) for attempt in attempts] == [
        ("tools_unsupported" if quirk == Quirk.NO_TOOLS or quirk == Quirk.NO_TOOL_CHOICE else "bad_request", "initial"),
        ("ok", quirk.value),
    ]
    # Another process, another turn.
    assert ask(patient(model_server), stream=streamed, **FULL)[0].text == "Nine."
    assert len(model_server.chats) == 3
    assert set(memory.recall("primary", "case-model", urls.normalise(model_server.url).chat)) == {quirk}


@pytest.mark.parametrize(
    ("test", "message", "quirk"),
    [
        (has("stream_options"), "Unrecognized request argument supplied: stream_options", Quirk.NO_STREAM_OPTIONS),
        (has("stream_options"), "Bad Request", Quirk.NO_STREAM_OPTIONS),
        (has("stream"), "Streaming is not supported for this model", Quirk.NO_STREAM),
    ],
)
def test_a_refused_stream_is_healed(
    app: Flask, model_server: ModelServer, test: Callable[[dict[str, Any]], bool], message: str, quirk: Quirk
) -> None:
    refuse(model_server, test, message)
    for number in (2, 3):
        last, _ = ask(patient(model_server))
        assert (last.text, len(model_server.chats)) == ("Nine.", number)
    assert set(memory.recall("primary", "case-model", urls.normalise(model_server.url).chat)) == {quirk}


def test_a_server_with_all_quirks_at_once_is_understood_in_the_end(app: Flask, model_server: ModelServer) -> None:
    for key, message in (
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        ("temperature", "Unsupported value: 'temperature'"),
        ("tools", "tools are not supported"),
        ("stream_options", "Unknown field stream_options"),
    ):
        model_server.rule({"body_has": key}, error(message))
    model_server.rule({"role_present": "system"}, error("System role not supported"))
    model_server.rule({"roles_not_alternating": True}, error("Conversation roles must alternate"))
    model_server.say("Nine.")
    assert ask(patient(model_server), **FULL)[0].text == "Nine."
    assert len(model_server.chats) == 6
    body = model_server.chats[-1].body
    assert set(body) == {"model", "messages", "max_completion_tokens", "stream"}
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    ask(patient(model_server), **FULL)
    assert len(model_server.chats) == 7


def test_a_server_that_always_refuses_is_not_asked_for_ever(app: Flask, model_server: ModelServer) -> None:
    model_server.answer(
        error("max_tokens, temperature, stream_options, tools, system, roles must alternate: unsupported")
    )
    assert failure(patient(model_server), **FULL)[0].error_class == ErrorClass.TOOLS_UNSUPPORTED
    assert len(model_server.chats) <= 7
    bodies = [str(asked.body) for asked in model_server.chats]
    assert len(set(bodies)) == len(bodies)
    assert not memory.recall("primary", "case-model", urls.normalise(model_server.url).chat)


def test_a_guess_that_did_not_help_tells_the_first_error(app: Flask, model_server: ModelServer) -> None:
    model_server.answer(error("Bad Request"), error("something else", 500))
    told, _ = failure(patient(model_server))
    assert (told.error_class, told.detail, len(model_server.chats)) == (
        ErrorClass.BAD_REQUEST,
        "HTTP 400 Bad Request",
        2,
    )


def test_a_call_in_the_text_is_read_where_tools_can_not_be_given(app: Flask, model_server: ModelServer) -> None:
    model_server.rule({"body_has": "tools"}, error("does not support tools"))
    model_server.say('<tool_call>{"name": "ping", "arguments": {}}</tool_call>')
    last, events = ask(patient(model_server), tools=(PING,))
    assert [call.name for call in last.calls] == ["ping"]
    assert not [event for event in events if isinstance(event, TextDelta)]
    system = model_server.chats[-1].body["messages"][0]
    assert system["role"] == "system"
    assert "Says pong." in system["content"]


def test_a_quirk_of_one_model_is_none_of_another(app: Flask, model_server: ModelServer) -> None:
    refuse(
        model_server, lambda body: body["model"] == "case-model" and "temperature" in body, "temperature: unsupported"
    )
    ask(patient(model_server), temperature=0.2)
    ask(patient(model_server), temperature=0.2, model="other")
    assert model_server.chats[-1].body["temperature"] == 0.2


def test_nothing_is_asked_again_after_visible_text(app: Flask, model_server: ModelServer) -> None:
    model_server.answer(
        stream([chunk({"content": "The gate "}), {"error": {"code": 400, "message": "stream_options unsupported"}}])
    )
    told, _ = failure(patient(model_server))
    assert (told.text, len(model_server.chats)) == ("The gate ", 1)


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_names_a_time_is_asked_again_after_it(
    app: Flask, model_server: ModelServer, slept: list[float], status: int
) -> None:
    model_server.answer(error("slow down", status, Retry_After="3"))
    model_server.say("Nine.")
    last, events = ask(patient(model_server))
    assert (last.text, len(model_server.chats)) == ("Nine.", 2)
    assert 3 <= sum(slept) < 4
    assert max(slept) <= 0.2
    assert sum(isinstance(event, Tick) for event in events) >= len(slept)
    assert [event.reason for event in events if isinstance(event, Attempt)] == ["initial", "waited"]


@pytest.mark.parametrize(
    ("headers", "terms", "how"),
    [
        ({}, {}, {}),
        ({"Retry_After": "61"}, {}, {}),
        ({"Retry_After": "3"}, {"longest_wait": 2.0}, {}),
        ({"Retry_After": "0"}, {"longest_wait": 0.0}, {}),
        ({"Retry_After": "3"}, {}, {"seconds": 2.0}),
        ({"Retry_After": "3"}, {"attempts": 1}, {}),
    ],
)
def test_a_wait_that_is_too_long_is_told_at_once(
    app: Flask, model_server: ModelServer, slept: list[float], headers: Any, terms: Any, how: Any
) -> None:
    model_server.answer(error("slow down", 429, **headers))
    deadline = clock.monotonic() + how["seconds"] if how else None
    told, _ = failure(patient(model_server, **terms), deadline=deadline)
    wanted = float(headers["Retry_After"]) if headers else None
    assert (told.error_class, told.retry_after) == (ErrorClass.RATE_LIMIT, wanted)
    assert (len(model_server.chats), slept) == (1, [])


def test_waiting_has_an_end(app: Flask, model_server: ModelServer, slept: list[float]) -> None:
    model_server.answer(error("slow down", 429, Retry_After="3"))
    failure(patient(model_server))
    assert len(model_server.chats) == 4
    model_server.requests.clear()
    before = sum(slept)
    model_server.answer(error("slow down", 429, Retry_After="40"))
    failure(patient(model_server))
    assert len(model_server.chats) == 2
    assert sum(slept) - before < 60


def test_a_wait_can_be_interrupted(app: Flask, model_server: ModelServer) -> None:
    model_server.answer(error("slow down", 429, Retry_After="30"))
    events = patient(model_server).stream(request())
    begun = time.monotonic()
    for event in events:
        if isinstance(event, Tick) and time.monotonic() - begun > 0.5:
            break
    events.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begun < 1.5
    assert len(model_server.chats) == 1


def test_closing_the_stream_hangs_up(app: Flask, model_server: ModelServer) -> None:
    model_server.answer(stream([chunk({"content": "Nine "})], done=False, hang=True))
    events = patient(model_server).stream(request())
    assert isinstance(next(event for event in events if not isinstance(event, Tick)), TextDelta)
    begun = time.monotonic()
    events.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begun < 0.5


def test_exchanges_of_a_turn_are_counted_over_all_its_calls(app: Flask, model_server: ModelServer) -> None:
    model = patient(model_server, attempts=4)
    for _ in range(3):
        ask(model, tools=(PING,))
    told, seen = failure(model, tools=(PING,))
    assert (told.error_class, seen, len(model_server.chats)) == (ErrorClass.ATTEMPTS, [], 3)
    # The call that sums up what was found is still possible.
    ask(model)
    assert failure(model)[0].error_class == ErrorClass.ATTEMPTS


def test_a_turn_whose_exchanges_are_used_up_says_what_it_has_found(app: Flask, model_server: ModelServer) -> None:
    model_server.rule(
        {"body_has": "tools"}, lambda asked: fitting(asked, completion(None, calls=[tool_call("ping", {})]))
    )
    model_server.say("Pong, as far as I know.")
    ping = Tool("ping", "Says pong.", dict(PING.parameters), lambda *_: "pong")
    *_, last = loop.run(Turn(patient(model_server, attempts=3), "case-model", ASKED, (ping,)))
    assert isinstance(last, Finished)
    assert (last.text, last.ended, last.incomplete) == ("Pong, as far as I know.", "model_calls", True)
    assert len(model_server.chats) == 3


def test_the_budget_of_a_turn_has_a_hard_bound() -> None:
    assert [Attempts(most).left for most in (-1, 0, 1, 24, 48, 1000)] == [1, 1, 1, 24, 48, 48]


def test_a_retry_that_is_not_allowed_any_more_tells_the_error(app: Flask, model_server: ModelServer) -> None:
    refuse(model_server, has("temperature"), "temperature: unsupported")
    told, _ = failure(patient(model_server, attempts=1), temperature=0.2)
    assert (told.error_class, len(model_server.chats)) == (ErrorClass.BAD_REQUEST, 1)


def test_a_limit_counts_exchanges_not_calls(app: Flask, model_server: ModelServer, slept: list[float]) -> None:
    refuse(model_server, has("temperature"), "temperature: unsupported")
    ask(patient(model_server, rates={"day": 3}), temperature=0.2)
    ask(patient(model_server, rates={"day": 3}), temperature=0.2)
    told, seen = failure(patient(model_server, rates={"day": 3}), temperature=0.2)
    assert (told.error_class, seen, len(model_server.chats)) == (ErrorClass.RATE_LIMIT, [], 3)
    assert told.retry_after is not None
    assert 86_000 < told.retry_after < 88_000
    assert str(told.sentence).endswith("again in 25 hours.")
    assert not slept


def test_a_short_wait_for_a_limit_is_nobody_s_concern(
    app: Flask, model_server: ModelServer, slept: list[float]
) -> None:
    for _ in range(3):
        ask(patient(model_server, rates={"second": 1}))
    assert len(model_server.chats) == 3
    assert 1.5 < sum(slept) < 2.2


def test_a_turn_that_has_begun_waits_longer_than_one_that_has_not(
    app: Flask, model_server: ModelServer, slept: list[float]
) -> None:
    rates = {"minute": 2}
    model = patient(model_server, rates=rates)
    ask(model)
    clock.sleep(10)
    ask(model)
    told, _ = failure(patient(model_server, rates=rates))
    assert told.retry_after is not None
    assert 45 < told.retry_after < 51
    ask(model)
    assert sum(slept) > 55


def test_who_has_somebody_else_to_ask_waits_only_for_a_moment(
    app: Flask, model_server: ModelServer, slept: list[float]
) -> None:
    model_server.answer(error("slow down", 429, Retry_After="3"))
    assert failure(patient(model_server), patient=False)[0].retry_after == 3
    assert not slept


def test_a_model_with_nothing_left_is_left_alone(app: Flask, model_server: ModelServer, slept: list[float]) -> None:
    told = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"}
    model_server.answer(Reply(json=completion("Nine."), headers=told), Reply(json=completion("Ten.")))
    model = patient(model_server)
    ask(model, stream=False)
    refused, _ = failure(patient(model_server), stream=False)
    assert refused.retry_after == pytest.approx(20, abs=1)
    assert len(model_server.chats) == 1
    assert ask(model, stream=False)[0].text == "Ten."
    assert sum(slept) == pytest.approx(20, abs=1)


def test_the_time_that_a_refusal_names_counts_more_than_its_headers(
    app: Flask, model_server: ModelServer, slept: list[float]
) -> None:
    told = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "40s"}
    model_server.answer(error("slow down", 429, Retry_After="3", **told))
    model_server.say("Nine.")
    assert ask(patient(model_server))[0].text == "Nine."
    assert 3 <= sum(slept) < 4


def test_a_guess_that_broke_off_after_some_text_tells_why(app: Flask, model_server: ModelServer) -> None:
    model_server.answer(error("Bad Request"))
    model_server.answer(stream([chunk({"content": "The gate "}), {"error": {"code": 502, "message": "died"}}]))
    told, _ = failure(patient(model_server))
    assert (told.error_class, told.text) == (ErrorClass.UPSTREAM, "The gate ")


def test_the_time_until_a_call_is_told_beforehand(app: Flask, model_server: ModelServer) -> None:
    model = patient(model_server, rates={"day": 1})
    assert model.due_in("case-model") == 0
    ask(model)
    assert model.due_in("case-model") > 86_000


@pytest.mark.parametrize(
    ("capacity", "wanted", "sent"),
    [
        (Capacity(), 32768, 32768),
        (Capacity(), None, None),
        (Capacity(output=4096), 32768, 4096),
        (Capacity(output=4096), None, None),
        (Capacity(context=8192), 32768, 8192 - 1024 - 12),
        (Capacity(context=8192, output=100), 32768, 100),
        (Capacity(context=8), 32768, 256),
    ],
)
def test_the_output_budget_fits_into_the_model(
    app: Flask, model_server: ModelServer, capacity: Capacity, wanted: int | None, sent: int | None
) -> None:
    ask(patient(model_server, capacity=capacity), max_tokens=wanted)
    assert model_server.chats[-1].body.get("max_tokens") == (sent if sent is None else pytest.approx(sent, abs=5))


def test_a_context_that_is_learned_bounds_the_answer(app: Flask, model_server: ModelServer) -> None:
    def script(asked: Asked) -> Reply:
        if asked.body["max_tokens"] < 8000:
            return fitting(asked, completion("Nine."))
        return error(
            "'max_tokens' is too large: 32768. This model's maximum context length is 8192 tokens and your request has "
            "14 input tokens."
        )

    model_server.answer(script)
    ask(patient(model_server), max_tokens=32768)
    assert len(model_server.chats) == 2
    assert 7000 < model_server.chats[-1].body["max_tokens"] < 7200
    ask(patient(model_server), max_tokens=32768)
    assert len(model_server.chats) == 3


def test_many_turns_at_once_learn_the_same(app: Flask, model_server: ModelServer) -> None:
    refuse(model_server, has("temperature"), "temperature: unsupported")
    texts: list[str] = []

    def one() -> None:
        with app.app_context():
            texts.append(ask(patient(model_server), temperature=0.2)[0].text)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert texts == ["Nine."] * 8
    assert len(memory.recall("primary", "case-model", urls.normalise(model_server.url).chat)) == 1


RULES: dict[Quirk, tuple[dict[str, Any], str]] = {
    Quirk.COMPLETION_TOKENS: ({"body_has": "max_tokens"}, "Use 'max_completion_tokens' instead of 'max_tokens'"),
    Quirk.NO_TEMPERATURE: ({"body_has": "temperature"}, "Unsupported value: 'temperature'"),
    Quirk.NO_STREAM_OPTIONS: ({"body_has": "stream_options"}, "Unknown field stream_options"),
    Quirk.NO_TOOLS: ({"body_has": "tools"}, "tools are not supported"),
    Quirk.NO_SYSTEM: ({"role_present": "system"}, "System role not supported"),
    Quirk.ALTERNATE: ({"roles_not_alternating": True}, "Conversation roles must alternate"),
    Quirk.NULL_CONTENT: ({"assistant_content_null": False}, "assistant content must be null, not empty"),
    Quirk.TOOL_NAMES: ({"tool_message_lacks": "name"}, "tool message: name is missing"),
}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(quirks=st.lists(st.sampled_from(sorted(RULES)), unique=True, max_size=5), streamed=st.booleans())
def test_any_mixture_of_quirks_is_healed_by_one_retry_each(app: Flask, quirks: list[Quirk], streamed: bool) -> None:
    # Where calls are written as text no message is without one, and this server waits for null in vain.
    assume(Quirk.NULL_CONTENT not in quirks or not {Quirk.ALTERNATE, Quirk.NO_TOOLS} & set(quirks))
    messages = (*CALLED, Message("assistant", "It is four."), Message("user", "And?"), Message("user", "Now?"))
    how: dict[str, Any] = {**FULL, "messages": messages, "stream": streamed}
    with ModelServer() as server:
        for quirk in quirks:
            when, message = RULES[quirk]
            server.rule(when, error(message))
        server.say("Nine.")
        memory.forget("primary")
        assert ask(patient(server), **how)[0].text == "Nine."
        # Strict turns are two quirks: messages in a row, and the roles of tools.
        first = len(server.chats)
        assert first <= len(quirks) + 1 + (Quirk.ALTERNATE in quirks)
        assert ask(patient(server), **how)[0].text == "Nine."
        assert len(server.chats) == first + 1
