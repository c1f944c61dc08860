"""Area b: model servers as they are in the field, played by the scripted server (tests/cases/README.md)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app.agent import loop
from app.agent.events import Finished, ToolStarted
from app.agent.turn import Turn
from app.infra import clock
from app.llm import catalog, urls
from app.llm.base import ChatRequest, Completion, ErrorClass, Message, ModelError, ToolCall
from app.llm.endpoints import resolve
from app.settings import endpoints, store
from app.tools.base import Tool
from tests.fakes.asserter import Asserter, Check
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.naps import record_naps

__all__ = ["record_naps"]

CASES = [json.loads(line) for line in Path(__file__).with_name("cases").joinpath("b_provider.jsonl").open()]
# Due with the issue "Knowledge": vectors.
LATER = "embeddings"
# Theirs for ours, where the names differ.
CLASSES = {
    ErrorClass.UNREACHABLE: "upstream",
    ErrorClass.TIMEOUT: "upstream",
}


@dataclass
class Observed:
    """What came of the calls of a case."""

    completion: Completion | None = None
    error: ModelError | None = None
    finished: Finished | None = None
    executed: list[dict[str, Any]] = field(default_factory=list)
    model_ids: list[str] = field(default_factory=list)
    urls: dict[str, str] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    slept: float = 0.0

    @property
    def text(self) -> str:
        if self.finished is not None:
            return self.finished.text
        return self.completion.text if self.completion else self.error.text if self.error else ""

    @property
    def user_text(self) -> str:
        return str(self.error.sentence) if self.error else self.text

    @property
    def error_class(self) -> str | None:
        if self.finished is not None:
            return self.finished.error_class or None
        return CLASSES.get(self.error.error_class, str(self.error.error_class)) if self.error else None


@pytest.fixture(scope="module")
def asserter(request: pytest.FixtureRequest) -> Iterator[Asserter]:
    made = Asserter("b")
    yield made
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + made.summary())


@pytest.mark.parametrize("case", [case for case in CASES if case["kind"] != LATER], ids=lambda case: case["id"])
def test_a_model_server_of_the_field_is_understood(
    app: Flask, asserter: Asserter, slept: list[float], monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    freeze(monkeypatch, slept, case["input"].get("now"))
    asserter.compare(case["id"], case["expect"], checks(play(case, slept)), blind=set())


@pytest.mark.parametrize("case", [case for case in CASES if case["kind"] == LATER], ids=lambda case: case["id"])
def test_a_model_server_of_a_later_issue_is_reported(case: dict[str, Any]) -> None:
    pytest.skip(f'not yet due (issue "Knowledge"), not run: {case["kind"]}')


def freeze(monkeypatch: pytest.MonkeyPatch, slept: list[float], now: str | None) -> None:
    """Stops the wall clock at the moment of the case; only sleeping moves it."""
    if now is not None:
        begun = datetime.fromisoformat(now)
        monkeypatch.setattr(clock, "now", lambda: begun + timedelta(seconds=sum(slept)))


def play(case: dict[str, Any], slept: list[float]) -> Observed:
    """Runs the calls of a case against the scripted server, through the seams that the house itself uses."""
    given = case["input"]
    seen = Observed()
    with ModelServer() as server:
        for exchange in given.get("exchanges", ()):
            script(server, exchange)
        base = given["config"]["base_url"].replace("{port}", str(server.port))
        if given["call"] == "urls":
            found = urls.normalise(base)
            seen.urls = {"chat": found.chat, "models": found.models, "embeddings": found.embeddings}
            return seen
        endpoints.save("primary", url=base, key=given["config"].get("api_key"), model=given["config"]["model"])
        if "max_wait_s" in given:
            store.set("max_retry_wait", given["max_wait_s"])
        for _ in range(given.get("calls", 1)):
            one_call(given, seen)
        seen.requests = [asked.body for asked in server.requests]
        seen.slept = sum(slept)
    return seen


def script(server: ModelServer, exchange: dict[str, Any]) -> None:
    told = exchange["response"]
    body = told["raw"].encode() if "raw" in told else b""
    reply = Reply(told["status"], told.get("headers", {}), body, told.get("json"), told.get("chunk_bytes"))
    if "when" in exchange:
        server.rule(exchange["when"], reply)
    else:
        server.answer(reply)
        server.answer(reply, on="models")


def one_call(given: dict[str, Any], seen: Observed) -> None:
    if given["call"] == "models":
        options = catalog.models(refresh=True)
        # The endpoint's own default model stands in the list of choices whether it was listed or not.
        listed = endpoints.get("primary")
        assert listed is not None
        assert {option.model for option in options} >= {model.id for model in listed.models}
        seen.model_ids = [model.id for model in listed.models]
        return
    config = given["config"]
    resolved = resolve(f"primary:{config['model']}")
    messages = tuple(message(told) for told in given["messages"])
    streamed = given["call"] == "chat.stream"
    if "tools" in given:
        tools = tuple(map(tool, given["tools"]))
        run_loop(Turn(resolved.chat, resolved.model, messages, tools, stream=streamed), seen)
        return
    request = ChatRequest(
        model=resolved.model,
        messages=messages,
        temperature=config.get("temperature"),
        max_tokens=config.get("max_tokens"),
        stream=streamed,
    )
    try:
        *_, last = resolved.chat.stream(request)
    except ModelError as error:
        seen.error = error
    else:
        assert isinstance(last, Completion)
        seen.completion = last


def run_loop(turn: Turn, seen: Observed) -> None:
    for event in loop.run(turn):
        if isinstance(event, ToolStarted):
            seen.executed.append({"name": event.name, "arguments": event.arguments})
        if isinstance(event, Finished):
            seen.finished = event


def tool(told: dict[str, Any]) -> Tool:
    function = told["function"]
    return Tool(function["name"], function["description"], function["parameters"], lambda *_: "ok")


def message(told: dict[str, Any]) -> Message:
    content = told["content"]
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content)
    calls = [
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in told.get("tool_calls", ())
    ]
    return Message(told["role"], text, tuple(calls), told.get("tool_call_id", ""))


def checks(seen: Observed) -> dict[str, Check]:
    """How each key of `expect` is compared."""
    told = f"{seen.error.sentence} {seen.error.detail}" if seen.error else ""
    last = seen.requests[-1] if seen.requests else {}
    last = last if isinstance(last, dict) else {}
    limit = seen.error.limit_tokens if seen.error else None
    usage = seen.completion.usage if seen.completion else None
    tool_messages = [message for message in last.get("messages", ()) if message["role"] == "tool"]

    def same(actual: Any) -> Check:
        def check(wanted: Any) -> None:
            assert actual == wanted

        return check

    def holds(test: Any) -> Check:
        def check(wanted: Any) -> None:
            assert test(wanted), f"{wanted!r} does not hold for {seen}"

        return check

    return {
        "text": same(seen.text),
        "text_prefix": holds(lambda wanted: seen.text.startswith(wanted)),
        "reasoning": same(seen.completion.reasoning if seen.completion else None),
        "complete": same(seen.completion.complete if seen.completion else False),
        "executed": same(seen.executed),
        "wait_s_between": holds(lambda wanted: wanted[0] <= seen.slept <= wanted[1]),
        "usage": holds(lambda wanted: usage is not None and vars(usage) == wanted),
        "requests": same(len(seen.requests)),
        "requests_max": holds(lambda wanted: len(seen.requests) <= wanted),
        "max_identical_requests": holds(lambda wanted: max(Counter(map(json.dumps, seen.requests)).values()) <= wanted),
        "error_class": same(seen.error_class),
        "error_contains": holds(lambda wanted: wanted in told),
        "limit_tokens": same(limit),
        "limit_tokens_any_of": holds(lambda wanted: limit in wanted),
        "user_text_absent": holds(lambda wanted: not any(text in seen.user_text + told for text in wanted)),
        "user_text_max_chars": holds(lambda wanted: 0 < len(seen.user_text) <= wanted),
        "model_ids": same_set(seen.model_ids),
        "urls": same(seen.urls),
        "last_request_has": holds(lambda wanted: wanted.items() <= last.items()),
        "last_request_lacks": holds(lambda wanted: not set(wanted) & set(last)),
        "last_request_roles": same([message["role"] for message in last.get("messages", ())]),
        "last_request_contains": holds(lambda wanted: all(text in json.dumps(last) for text in wanted)),
        "last_tool_message": holds(lambda wanted: bool(tool_messages) and fits(tool_messages[-1], wanted)),
    }


def same_set(actual: list[str]) -> Check:
    def check(wanted: list[str]) -> None:
        assert sorted(actual) == sorted(wanted)

    return check


def fits(told: dict[str, Any], wanted: dict[str, Any]) -> bool:
    plain = {key: value for key, value in wanted.items() if key != "content_type"}
    typed = "content_type" not in wanted or isinstance(told.get("content"), str)
    return typed and plain.items() <= told.items()
