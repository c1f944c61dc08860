"""The steps of a turn, as they are written into the trace and counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.agent.events import AgentEvent, ModelAnswered, ModelAsked, ToolFinished, ToolRejected, ToolStarted
from app.llm.base import Attempt, Usage
from app.llm.endpoints import Resolved
from app.rooms.thinking.question import Question
from app.traces.record import Recorder
from app.usage import record as usage


class Steps:
    """The steps of one turn so far. `endpoint` and `model` are those that answered last, at first those that were chosen."""

    def __init__(self, question: Question, resolved: Resolved, trace: Recorder) -> None:
        self.endpoint = resolved.endpoint
        self.model = resolved.model
        self._question = question
        self._trace = trace
        self._model_calls = 0
        self._tool_calls = 0
        self._usage = Usage()

    def note(self, event: AgentEvent) -> None:
        """Writes a step into the trace, and counts the tokens of a model call. Never raises."""
        if isinstance(event, ModelAsked):
            self._model_calls += 1
            self._step("model_asked", event, name=self.endpoint)
        elif isinstance(event, Attempt):
            self._step("attempt", event, name=event.endpoint, milliseconds=event.milliseconds)
            if event.outcome == "ok":
                self.endpoint, self.model = event.endpoint, event.model
        elif isinstance(event, ModelAnswered):
            self._usage += event.usage
            self._step("model_answered", event, name=self.endpoint, milliseconds=event.milliseconds)
            self._count(event)
        elif isinstance(event, ToolStarted):
            self._tool_calls += 1
            self._step("tool_call", event, name=event.name)
        elif isinstance(event, ToolFinished):
            self._step("tool_result", event, name=event.name, milliseconds=event.milliseconds)
        elif isinstance(event, ToolRejected):
            self._step("tool_rejected", event, name=event.name)

    @property
    def figures(self) -> Mapping[str, Any]:
        """What the turn has cost so far, and whom it asked, by the names of traces.record.finish."""
        return {
            "endpoint": self.endpoint,
            "model": self.model,
            "model_calls": self._model_calls,
            "tool_calls": self._tool_calls,
            "prompt_tokens": self._usage.prompt_tokens,
            "completion_tokens": self._usage.completion_tokens,
            "total_tokens": self._usage.total_tokens,
        }

    def _step(self, kind: str, event: AgentEvent, *, name: str, milliseconds: int | None = None) -> None:
        self._trace.event(kind, name=name, milliseconds=milliseconds, payload=_fields(event))

    def _count(self, event: ModelAnswered) -> None:
        question = self._question
        usage.add(
            self._trace.turn_id,
            question.bot.id,
            instance_id=question.delivery.instance_id,
            endpoint=self.endpoint,
            model=self.model,
            usage=event.usage,
            actor=question.event.actor.key,
            timezone=question.place.instance.timezone,
        )


def _fields(event: AgentEvent) -> Mapping[str, Any]:
    known = {name: value for name, value in vars(event).items() if name not in ("name", "milliseconds", "usage")}
    tokens = getattr(event, "usage", None)
    return known if tokens is None else known | {"usage": vars(tokens)}
