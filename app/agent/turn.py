"""What the loop is given: everything that a turn needs, chosen and checked by the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from app.llm.base import ChatModel, Message
from app.tools.base import Tool, ToolContext


@dataclass(frozen=True)
class Limits:
    """The bounds of a turn (product.md K7): counts, seconds of wall clock, characters of tool results."""

    model_calls: int = 24
    tool_calls: int = 24
    seconds: float = 300.0
    result_chars: int = 16_000
    repetitions: int = 3


HARD_MODEL_CALLS = 50
HARD_SECONDS = 900.0


@dataclass(frozen=True)
class Turn:
    """One run of the loop. `messages` begin with the system message and end with the newest user message.

    `model` is the ChatModel that the caller chose and `model_name` the name it is asked for; `first_tool` is preferred in
    the first step only (K9); `cancelled` is asked at every event.
    """

    model: ChatModel
    model_name: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    context: ToolContext = field(default_factory=lambda: ToolContext(instance="", room="", person=""))
    limits: Limits = field(default_factory=Limits)
    first_tool: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool = True
    cancelled: Callable[[], bool] = lambda: False
