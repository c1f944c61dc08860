"""The steps of a turn, as they are written into the trace and counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.agent.events import AgentEvent, ModelAnswered, ModelAsked, ToolFinished, ToolRejected, ToolStarted
from app.llm.base import Attempt
from app.llm.endpoints import Resolved
from app.rooms.thinking.question import Question
from app.traces.record import Recorder
from app.usage import record as usage


def note(question: Question, resolved: Resolved, trace: Recorder, event: AgentEvent) -> None:
    """Writes a step into the trace, and counts the tokens of a model call. Never raises."""
    if isinstance(event, ModelAsked):
        trace.event("model_asked", name=resolved.endpoint, payload=_fields(event))
    elif isinstance(event, Attempt):
        trace.event("attempt", name=event.endpoint, milliseconds=event.milliseconds, payload=_fields(event))
    elif isinstance(event, ModelAnswered):
        trace.event("model_answered", name=resolved.endpoint, milliseconds=event.milliseconds, payload=_fields(event))
        _count(question, resolved, trace.turn_id, event)
    elif isinstance(event, ToolStarted):
        trace.event("tool_call", name=event.name, payload=_fields(event))
    elif isinstance(event, ToolFinished):
        trace.event("tool_result", name=event.name, milliseconds=event.milliseconds, payload=_fields(event))
    elif isinstance(event, ToolRejected):
        trace.event("tool_rejected", name=event.name, payload=_fields(event))


def _fields(event: AgentEvent) -> Mapping[str, Any]:
    known = {name: value for name, value in vars(event).items() if name not in ("name", "milliseconds", "usage")}
    tokens = getattr(event, "usage", None)
    return known if tokens is None else known | {"usage": vars(tokens)}


def _count(question: Question, resolved: Resolved, turn_id: int | None, event: ModelAnswered) -> None:
    usage.add(
        turn_id,
        question.bot.id,
        instance_id=question.delivery.instance_id,
        endpoint=resolved.endpoint,
        model=resolved.model,
        usage=event.usage,
        actor=question.event.actor.key,
    )
