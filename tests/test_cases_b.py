"""Area b: model servers as they are in the field, played by the scripted server (tests/cases/README.md)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app.llm import catalog, urls
from app.llm.base import ChatRequest, Completion, ErrorClass, Message, ModelError, ToolCall
from app.llm.endpoints import resolve
from app.settings import endpoints
from tests.fakes.asserter import Asserter, Check
from tests.fakes.model_server import ModelServer, Reply

CASES = [json.loads(line) for line in Path(__file__).with_name("cases").joinpath("b_provider.jsonl").open()]
DUE = frozenset({"B01", "B02", "B03", "B04", "B05", "B12", "B13", "B17"})
ISSUES = {"B14": "Knowledge"}
LATER = "Whatever happens"
# Theirs for ours, where the names differ.
CLASSES = {
    ErrorClass.UNREACHABLE: "upstream",
    ErrorClass.TIMEOUT: "upstream",
}
BLIND = {"wait_s_between", "actions_published", "action", "executed", "vectors", "cosine_no_nan"}


@dataclass
class Observed:
    """What came of the calls of a case."""

    completion: Completion | None = None
    error: ModelError | None = None
    model_ids: list[str] = field(default_factory=list)
    urls: dict[str, str] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.completion.text if self.completion else self.error.text if self.error else ""

    @property
    def user_text(self) -> str:
        return str(self.error.sentence) if self.error else self.text


@pytest.fixture(scope="module")
def asserter(request: pytest.FixtureRequest) -> Iterator[Asserter]:
    made = Asserter("b")
    yield made
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + made.summary())


@pytest.mark.parametrize("case", [case for case in CASES if case["id"][:3] in DUE], ids=lambda case: case["id"])
def test_a_model_server_of_the_field_is_understood(app: Flask, asserter: Asserter, case: dict[str, Any]) -> None:
    asserter.compare(case["id"], case["expect"], checks(play(case)), blind=BLIND)


@pytest.mark.parametrize("case", [case for case in CASES if case["id"][:3] not in DUE], ids=lambda case: case["id"])
def test_a_model_server_of_a_later_issue_is_reported(app: Flask, case: dict[str, Any]) -> None:
    issue = ISSUES.get(case["id"][:3], LATER)
    if case["input"]["call"] not in ("chat", "chat.stream") or "tools" in case["input"]:
        pytest.skip(f'not yet due (issue "{issue}"), not run: {case["kind"]}')
    asserter = Asserter("b")
    try:
        asserter.compare(case["id"], case["expect"], checks(play(case)), blind=BLIND)
    except AssertionError as error:
        pytest.skip(f'not yet due (issue "{issue}"), does not hold: {case["kind"]}: {str(error).splitlines()[0]}')
    unseen = f", but not observed: {', '.join(asserter.not_observed)}" if asserter.not_observed else ""
    pytest.skip(f'not yet due (issue "{issue}"), holds already{unseen}: {case["kind"]}')


def play(case: dict[str, Any]) -> Observed:
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
        for _ in range(given.get("calls", 1)):
            one_call(given, seen)
        seen.requests = [asked.body for asked in server.requests]
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
    request = ChatRequest(
        model=resolved.model,
        messages=tuple(message(told) for told in given["messages"]),
        temperature=config.get("temperature"),
        max_tokens=config.get("max_tokens"),
        stream=given["call"] == "chat.stream",
    )
    try:
        *_, last = resolved.chat.stream(request)
    except ModelError as error:
        seen.error = error
    else:
        assert isinstance(last, Completion)
        seen.completion = last


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
    kind = CLASSES.get(seen.error.error_class, str(seen.error.error_class)) if seen.error else None
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
        "usage": holds(lambda wanted: usage is not None and vars(usage) == wanted),
        "requests": same(len(seen.requests)),
        "requests_max": holds(lambda wanted: len(seen.requests) <= wanted),
        "max_identical_requests": holds(lambda wanted: max(Counter(map(json.dumps, seen.requests)).values()) <= wanted),
        "error_class": same(kind),
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
