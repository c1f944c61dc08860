from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask

from app.agent import loop
from app.agent.events import Finished
from app.agent.turn import Turn
from app.llm.base import (
    Attempt,
    ChatRequest,
    Completion,
    ErrorClass,
    Message,
    ModelError,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
)
from app.llm.endpoints import Resolved, resolve
from app.llm.fallback import FallbackModel
from app.llm.patience import PatientModel
from app.settings import endpoints, store
from app.settings.endpoints import ModelInfo
from tests.fakes.model_server import Asked, ModelServer, Reply, chunk, completion, fitting, stream

ASKED = (Message("system", "You are the harbour bot."), Message("user", "When does the gate open?"))
DEAD = "http://127.0.0.1:9/v1"


@pytest.fixture
def servers(app: Flask) -> Iterator[tuple[ModelServer, ModelServer]]:
    """The servers of `primary:main` and of `secondary:spare`, which stands in for it."""
    with ModelServer() as first, ModelServer() as second:
        endpoints.save("primary", url=first.url, model="main")
        endpoints.save("secondary", url=second.url)
        store.set("fallback_model", "secondary:spare")
        second.say("From the spare.")
        yield first, second


def request(resolved: Resolved, **how: Any) -> ChatRequest:
    return ChatRequest(**{"model": resolved.model, "messages": ASKED, "max_tokens": resolved.max_tokens, **how})


def ask(resolved: Resolved | None = None, **how: Any) -> list[ModelEvent]:
    resolved = resolved or resolve(None)
    return list(resolved.chat.stream(request(resolved, **how)))


def failure(**how: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(**how)
    return caught.value


def text(events: list[ModelEvent]) -> str:
    assert isinstance(events[-1], Completion)
    return events[-1].text


def refused(status: int, message: str = "no", **headers: str) -> Reply:
    return Reply(status=status, json={"error": {"message": message}}, headers=headers)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    "reply",
    [
        refused(404, "model 'main' not found"),
        refused(408),
        refused(409),
        refused(429),
        refused(500),
        refused(502),
        refused(503),
        refused(529, "overloaded"),
        Reply(body=b""),
        Reply(body=b"<html>Maintenance</html>"),
        stream([{"error": {"message": "overloaded", "code": 503}}]),
        stream([], done=False, cut_after=0),
    ],
)
def test_a_model_that_is_not_available_is_replaced(
    servers: tuple[ModelServer, ModelServer], reply: Reply, streamed: bool
) -> None:
    first, second = servers
    first.answer(reply)
    events = ask(stream=streamed)
    assert text(events) == "From the spare."
    assert second.chats[-1].body["model"] == "spare"
    attempts = [event for event in events if isinstance(event, Attempt)]
    assert [(each.endpoint, each.model, each.route) for each in attempts] == [
        ("primary", "main", "selected"),
        ("secondary", "spare", "fallback"),
    ]
    assert [each.outcome == "ok" for each in attempts] == [False, True]


@pytest.mark.parametrize("on", ["connection", "availability"])
def test_a_server_that_is_not_there_is_replaced(servers: tuple[ModelServer, ModelServer], on: str) -> None:
    store.set("fallback_on", on)
    endpoints.save("primary", url=DEAD)
    assert text(ask()) == "From the spare."


def test_a_server_that_does_not_answer_in_time_is_replaced(servers: tuple[ModelServer, ModelServer]) -> None:
    store.set("fallback_on", "connection")
    store.set("stream_timeout", 1)
    servers[0].answer(Reply(json=completion("too late"), delay_headers=5))
    assert text(ask()) == "From the spare."


@pytest.mark.parametrize("reply", [refused(404, "model 'main' not found"), refused(429), refused(500), refused(408)])
def test_on_connection_only_silence_counts(servers: tuple[ModelServer, ModelServer], reply: Reply) -> None:
    store.set("fallback_on", "connection")
    servers[0].answer(reply)
    if reply.status == 408:
        assert text(ask()) == "From the spare."
        return
    failure()
    assert not servers[1].chats


@pytest.mark.parametrize(
    "reply",
    [
        refused(400),
        refused(401),
        refused(403),
        refused(404, "no such page"),
        refused(422),
        refused(400, "maximum context length is 8192 tokens"),
        refused(413),
    ],
)
def test_a_request_that_is_wrong_is_wrong_everywhere(servers: tuple[ModelServer, ModelServer], reply: Reply) -> None:
    servers[0].answer(reply)
    failure(stream=False)
    assert len(servers[0].chats) == 1
    assert not servers[1].chats


def test_after_the_first_visible_text_nobody_else_is_asked(servers: tuple[ModelServer, ModelServer]) -> None:
    servers[0].answer(stream([chunk({"content": "The gate "}), {"error": {"code": 502, "message": "died"}}]))
    error = failure()
    assert (error.error_class, error.text) == (ErrorClass.UPSTREAM, "The gate ")
    assert not servers[1].chats


def test_thoughts_are_no_visible_text(servers: tuple[ModelServer, ModelServer]) -> None:
    servers[0].answer(stream([chunk({"reasoning": "Hm."}), {"error": {"code": 502, "message": "died"}}]))
    events = ask()
    assert text(events) == "From the spare."
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "Hm."
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "From the spare."


def test_when_both_fail_the_error_is_that_of_the_chosen_model(servers: tuple[ModelServer, ModelServer]) -> None:
    servers[0].answer(refused(503))
    servers[1].rule({}, refused(401, "bad key"))
    error = failure()
    assert (error.error_class, error.http_status) == (ErrorClass.UPSTREAM, 503)
    assert "spare" in error.detail
    assert "bad key" in error.detail
    assert (len(servers[0].chats), len(servers[1].chats)) == (1, 1)


def test_the_text_of_a_fallback_that_breaks_off_is_kept(servers: tuple[ModelServer, ModelServer]) -> None:
    servers[0].answer(refused(503))
    servers[1].rule({}, stream([chunk({"content": "The gate "}), {"error": {"code": 502, "message": "died"}}]))
    assert failure().text == "The gate "


def test_the_one_that_answered_is_asked_first_for_the_rest_of_the_turn(
    servers: tuple[ModelServer, ModelServer],
) -> None:
    first, second = servers
    first.answer(refused(503), Reply(json=completion("Here again.")))
    resolved = resolve(None)
    assert [text(ask(resolved)) for _ in range(3)] == ["From the spare."] * 3
    assert (len(first.chats), len(second.chats)) == (1, 3)
    second.rule({}, refused(503))
    assert text(ask(resolved)) == "Here again."
    assert text(ask()) == "Here again."


def test_both_share_the_budget_of_the_turn(servers: tuple[ModelServer, ModelServer]) -> None:
    store.set("max_model_attempts", 1)
    servers[0].answer(refused(503))
    assert failure().http_status == 503
    assert not servers[1].chats


def test_nobody_waits_for_a_server_when_there_is_another(
    servers: tuple[ModelServer, ModelServer], slept: list[float]
) -> None:
    servers[0].answer(refused(429, **{"Retry-After": "3"}))
    assert text(ask()) == "From the spare."
    assert not slept
    store.set("fallback_on", "connection")
    servers[0].answer(refused(429, **{"Retry-After": "3"}), Reply(json=completion("Now.")))
    assert text(ask()) == "Now."
    assert sum(slept) > 3


def test_a_limit_of_ours_is_a_reason_too(servers: tuple[ModelServer, ModelServer]) -> None:
    store.set("rate_limits", {"primary": {"day": 1}})
    assert resolve(None).due_in() == 0
    assert text(ask()) == "ok"
    assert resolve(None).due_in() == 0
    assert text(ask()) == "From the spare."
    store.set("rate_limits", {"*": {"day": 1}})
    assert text(ask()) == "From the spare."
    assert resolve(None).due_in() > 86_000
    error = failure()
    assert error.error_class == ErrorClass.RATE_LIMIT
    assert "again in 25 hours" in str(error.sentence)


def test_the_fallback_has_quirks_and_limits_of_its_own(servers: tuple[ModelServer, ModelServer]) -> None:
    endpoints.remember_models("primary", [ModelInfo("main", 100_000, 50_000)], None)
    endpoints.remember_models("secondary", [ModelInfo("spare", 8192, 1000)], None)
    servers[0].answer(refused(503))

    def script(asked: Asked) -> Reply:
        if "max_tokens" in asked.body:
            return refused(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return fitting(asked, completion("From the spare."))

    servers[1].rule({}, script)
    assert text(ask()) == "From the spare."
    assert servers[0].chats[-1].body["max_tokens"] == 32768
    assert servers[1].chats[-1].body["max_completion_tokens"] == 1000


@pytest.mark.parametrize("reference", ["primary:main", "main", "nowhere:x", "tertiary:"])
def test_a_fallback_that_is_none_is_left_out(servers: tuple[ModelServer, ModelServer], reference: str) -> None:
    endpoints.save("tertiary", url=DEAD)
    endpoints.remember_models("primary", [ModelInfo("main"), ModelInfo("nowhere:x")], None)
    store.set("fallback_model", reference)
    chat = resolve(None).chat
    assert isinstance(chat, PatientModel if reference != "nowhere:x" else FallbackModel)
    store.set("fallback_model", "")
    assert store.get("fallback_model") is None
    assert isinstance(resolve(None).chat, PatientModel)


def test_the_offline_model_can_stand_in_but_needs_nobody_itself(servers: tuple[ModelServer, ModelServer]) -> None:
    store.set("fallback_model", "offline:quote")
    servers[0].answer(refused(503))
    assert "no model is connected" in text(ask()).lower()
    assert not isinstance(resolve("offline:quote").chat, FallbackModel)


def test_a_whole_turn_is_answered_by_the_fallback(servers: tuple[ModelServer, ModelServer]) -> None:
    servers[0].answer(refused(500))
    resolved = resolve(None)
    *_, last = loop.run(Turn(resolved.chat, resolved.model, ASKED))
    assert isinstance(last, Finished)
    assert (last.text, last.ended, last.incomplete) == ("From the spare.", "answered", False)
