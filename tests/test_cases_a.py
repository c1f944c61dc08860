"""Area a: tool calls as models and servers really write them, through real HTTP and the real loop (tests/cases/README.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.agent.events import AgentEvent, Finished, ModelAnswered, ToolRejected, ToolStarted
from app.agent.loop import run
from app.agent.turn import Turn
from app.llm.base import Message, TextDelta
from app.llm.chat import EndpointModel
from app.llm.urls import normalise
from app.tools.base import Tool
from tests.fakes.asserter import Asserter, Check
from tests.fakes.model_server import Asked, ModelServer, Reply, completion, fitting, stream

FOLDER = Path(__file__).with_name("cases")
CASES = [json.loads(line) for line in FOLDER.joinpath("a_toolcall.jsonl").open(encoding="utf-8")]
TOOLSETS = json.loads(FOLDER.joinpath("toolsets.json").read_text(encoding="utf-8"))
ASKED = (Message("system", "You are the harbour bot."), Message("user", "Please help."))


@dataclass
class Observed:
    """What the loop did with the answers of a case."""

    given: int
    requests: list[dict[str, Any]]
    events: list[AgentEvent] = field(default_factory=list)

    @property
    def executed(self) -> list[dict[str, Any]]:
        return [
            {"name": event.name, "arguments": event.arguments}
            for event in self.events
            if isinstance(event, ToolStarted)
        ]

    @property
    def rejected(self) -> list[dict[str, str]]:
        return [
            {"name": event.name, "reason": event.reason} for event in self.events if isinstance(event, ToolRejected)
        ]

    @property
    def finished(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last

    @property
    def next(self) -> str:
        """What came after the last given answer."""
        if len(self.requests) > self.given:
            return "model"
        if self.finished.ended == "empty":
            return "empty"
        return "incomplete" if self.finished.incomplete else "final"

    @property
    def streamed(self) -> str:
        """The visible text of the given answers as it was handed on while streaming."""
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def user_text(self) -> str:
        texts = [event.text for event in self.events if isinstance(event, ModelAnswered)]
        return texts[self.given - 1] if self.next == "model" else self.finished.text

    @property
    def everything(self) -> str:
        """All that could ever reach a person."""
        answers = [event.text for event in self.events if isinstance(event, ModelAnswered)]
        return "\n".join([*answers, self.finished.text, self.streamed])

    @property
    def following(self) -> list[dict[str, Any]]:
        """The messages of the request after the last given answer."""
        assert len(self.requests) > self.given, "there was no following request"
        return list(self.requests[self.given]["messages"])

    @property
    def echoed(self) -> list[dict[str, Any]]:
        """The calls of the last given answer, as they were sent back."""
        last = [message["tool_calls"] for message in self.following if message.get("tool_calls")][-1]
        assert isinstance(last, list)
        return last


@pytest.fixture(scope="module")
def asserter(request: pytest.FixtureRequest) -> Iterator[Asserter]:
    made = Asserter("a")
    yield made
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + made.summary())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_tool_call_of_the_field_is_understood(asserter: Asserter, case: dict[str, Any]) -> None:
    seen = play(case["input"])
    asserter.compare(case["id"], case["expect"], checks(seen, case["expect"]), blind=set())


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["input"]["mode"] == "response"], ids=lambda case: case["id"]
)
def test_the_same_answer_is_understood_when_it_is_streamed(case: dict[str, Any]) -> None:
    seen = play(case["input"], streamed=True)
    Asserter("a").compare(case["id"], case["expect"], checks(seen, case["expect"]), blind=set())


def play(given: dict[str, Any], *, streamed: bool = False) -> Observed:
    """One turn against a server that gives the answers of a case, and "ok" after them."""
    with ModelServer() as server:
        count = script(server, given, streamed=streamed)
        server.answer(lambda asked: fitting(asked, completion("ok")))
        model = EndpointModel("primary", normalise(server.url))
        tools = tuple(map(made, [*TOOLSETS[given["toolset"]], *given.get("extra_tools", ())]))
        as_stream = streamed or given["mode"] == "stream"
        events = list(run(Turn(model, "case-model", ASKED, tools, stream=as_stream)))
        return Observed(count, [asked.body for asked in server.chats], events)


def script(server: ModelServer, given: dict[str, Any], *, streamed: bool) -> int:
    """Queues the answers of a case; gives their number."""
    if given["mode"] == "stream":
        server.answer(stream(given["chunks"], done=given.get("ends") != "eof"))
        return 1
    bodies = given["bodies"] if given["mode"] == "turns" else [given["body"]]
    for body in bodies:
        server.answer(partial(as_asked, body) if streamed else Reply(json=body))
    return len(bodies)


def as_asked(body: dict[str, Any], asked: Asked) -> Reply:
    return fitting(asked, body)


def made(told: dict[str, Any]) -> Tool:
    function = told["function"]
    return Tool(function["name"], function.get("description", ""), function["parameters"], lambda *_: "ok")


def checks(seen: Observed, expect: dict[str, Any]) -> dict[str, Check]:
    """How each key of `expect` is compared."""

    def equal(actual: Any, wanted: Any) -> None:
        assert actual == wanted

    def executed(wanted: Any) -> None:
        assert seen.executed in [wanted, *expect.get("accept_executed", [])] or as_text()

    def rejected(wanted: Any) -> None:
        others = expect.get("accept_executed", [])
        ran = {call["name"] for call in seen.executed} if seen.executed in others else set()
        assert seen.rejected == [call for call in wanted if call["name"] not in ran] or as_text()

    def after(wanted: Any) -> None:
        assert seen.next in [wanted, *expect.get("accept_next", [])] or as_text()

    def as_text() -> bool:
        return bool(expect.get("accept_text_final")) and seen.next == "final" and not seen.executed + seen.rejected

    def contains(pieces: list[str]) -> None:
        assert not [piece for piece in pieces if piece not in seen.user_text]

    def absent(pieces: list[str]) -> None:
        assert not [piece for piece in pieces if piece in seen.everything]

    def ids(wanted: str) -> None:
        assert wanted == "unique_nonempty"
        found = [call["id"] for message in seen.following for call in message.get("tool_calls") or ()]
        assert found
        assert all(found)
        assert len(set(found)) == len(found)

    def pairs(wanted: bool) -> None:
        open_ids: list[str] = []
        for message in seen.following:
            if message["role"] == "tool":
                open_ids.remove(message["tool_call_id"])
            elif message.get("tool_calls"):
                assert not open_ids
                open_ids = [call["id"] for call in message["tool_calls"]]
        assert not open_ids

    def arguments_type(wanted: str) -> None:
        assert wanted == "string"
        assert all(isinstance(call["function"]["arguments"], str) for call in seen.echoed)

    return {
        "executed": executed,
        "rejected": rejected,
        "next": after,
        "accept_executed": lambda _: None,
        "accept_next": lambda _: None,
        "accept_text_final": lambda _: None,
        "requests": lambda wanted: equal(len(seen.requests), wanted),
        "user_text": lambda wanted: equal(seen.user_text.strip(), wanted.strip()),
        "user_text_contains": contains,
        "user_text_absent": absent,
        "ids": ids,
        "echo_pairs": pairs,
        "echo_ids": lambda wanted: equal([call["id"] for call in seen.echoed], wanted),
        "echo_arguments_type": arguments_type,
        "echo_arguments_decode_to": lambda wanted: equal(
            [json.loads(call["function"]["arguments"]) for call in seen.echoed], wanted
        ),
        "streamed_prefix": lambda wanted: equal(seen.streamed.startswith(wanted), True),
    }
