"""What happens in a turn: the loop yields these, rooms collects them, the personal API streams them, traces keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.infra.i18n import Sentence
from app.llm.base import Attempt, ReasoningDelta, TextDelta, Tick, Usage

EndReason = Literal[
    "answered", "model_calls", "tool_calls", "wall_clock", "repetition", "length", "cut", "empty", "error", "cancelled"
]


@dataclass(frozen=True)
class ModelAsked:
    """A model call begins: its number (from 1), the messages and tools it was given."""

    number: int
    messages: int
    tools: int
    estimated_tokens: int


@dataclass(frozen=True)
class ModelAnswered:
    """A model call is over."""

    number: int
    text: str
    calls: int
    finish_reason: str | None
    usage: Usage
    milliseconds: int


@dataclass(frozen=True)
class ToolStarted:
    """A call is dispatched, with the arguments as they were read."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ToolFinished:
    """What the model was told. `sources` are the (collection, node) pairs that it came from; `detail` is for the trace."""

    id: str
    name: str
    text: str
    is_error: bool
    milliseconds: int
    sources: tuple[tuple[str, str], ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class ToolRejected:
    """A call that was not dispatched; the model was told why."""

    id: str
    name: str
    reason: Literal["bad_arguments", "truncated", "unknown_tool", "limit", "repetition"]
    detail: str


@dataclass(frozen=True)
class Finished:
    """The last event of every turn.

    `text` is the answer, empty only when `ended` is "error", "empty" or "cancelled"; `incomplete` says that it must be
    marked; `notice` is the sentence that goes with it or stands instead of it; `detail` is for the trace; `retry_after`
    is in how many seconds the model may be asked again, where a limit ended it that names a time.
    """

    text: str
    ended: EndReason
    incomplete: bool = False
    notice: Sentence | None = None
    error_class: str = ""
    detail: str = ""
    usage: Usage = field(default_factory=Usage)
    model_calls: int = 0
    tool_calls: int = 0
    retry_after: float | None = None


AgentEvent = (
    Tick
    | TextDelta
    | ReasoningDelta
    | Attempt
    | ModelAsked
    | ModelAnswered
    | ToolStarted
    | ToolFinished
    | ToolRejected
    | Finished
)
