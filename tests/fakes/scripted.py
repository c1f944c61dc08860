"""A ChatModel that says what a test wrote down, and remembers what it was asked.

    model = ScriptedModel([tool("ping", {"to": "bob"})], "Pong.")
    events = list(run(Turn(model, "case-model", messages, tools=tools)))
    assert model.requests[1].messages[-1].role == "tool"

An answer is a text, a list of calls, a Completion, an exception to raise, or a function of the request that gives (or
yields) events. When the answers are used up the model says "ok".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from app.llm.base import ChatRequest, Completion, ModelEvent, TextDelta, ToolCall, Usage

USAGE = Usage(10, 5, 15)
Answer = str | list[ToolCall] | Completion | Exception | Callable[[ChatRequest], Iterable[ModelEvent]]


def tool(name: str, arguments: Mapping[str, Any] | str | None = None, *, id: str = "") -> ToolCall:
    """A native call."""
    return ToolCall(id, name, arguments if isinstance(arguments, str) else json.dumps(arguments or {}))


class ScriptedModel:
    """Gives its answers in order; `requests` is what it was asked, `closed` how often a stream was ended early."""

    def __init__(self, *answers: Answer, usage: Usage = USAGE) -> None:
        self.requests: list[ChatRequest] = []
        self.closed = 0
        self._answers = list(answers)
        self._usage = usage

    def stream(self, request: ChatRequest) -> Iterator[ModelEvent]:
        number = len(self.requests)
        self.requests.append(request)
        answer = self._answers[number] if number < len(self._answers) else "ok"
        try:
            yield from self._events(answer, request)
        except GeneratorExit:
            self.closed += 1
            raise

    def _events(self, answer: Answer, request: ChatRequest) -> Iterable[ModelEvent]:
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return answer(request)
        if isinstance(answer, list):
            return [Completion("", calls=tuple(answer), finish_reason="tool_calls", usage=self._usage)]
        if isinstance(answer, Completion):
            return [*_deltas(answer.text), answer]
        return [*_deltas(answer), Completion(answer, finish_reason="stop", usage=self._usage)]


def _deltas(text: str) -> list[TextDelta]:
    """The text word by word."""
    return [TextDelta(word) for word in text.replace(" ", " \0").split("\0") if word]
