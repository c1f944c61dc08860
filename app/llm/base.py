"""What a conversation with a model is made of, and the one seam behind which every model stands (`ChatModel`).

Shapes follow OpenAI's chat completions; what differs between servers is settled in this package and never above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from app.infra.errors import ParleyError
from app.infra.i18n import Sentence

Role = Literal["system", "user", "assistant", "tool"]
Route = Literal["selected", "fallback"]


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it. `arguments` is its JSON text, unread; `complete` is False when the text ended early.

    `arguments` may also be a mapping where the notation of the model names the parameters itself (XML forms); their
    values are then texts still to be coerced by the schema (`textual` is True).
    """

    id: str
    name: str
    arguments: str | Mapping[str, Any]
    complete: bool = True
    textual: bool = False


@dataclass(frozen=True)
class Message:
    """One message. `content` is plain text, or OpenAI content parts where a message carries more than text."""

    role: Role
    content: str | tuple[Mapping[str, Any], ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True)
class ToolSchema:
    """A function that the model may call: `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class ChatRequest:
    """One completion. `tool_choice` is the name of a preferred tool; `deadline` is on the monotonic clock, in seconds."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool = True
    deadline: float | None = None


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call; zero where the server told nothing."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
        )


@dataclass(frozen=True)
class Tick:
    """Nothing happened for a while (at most 200 ms): the caller may look at its clock and its cancel flag."""


@dataclass(frozen=True)
class TextDelta:
    """A piece of the answer, already free of reasoning and of tool-call markup."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """A piece of the model's thinking; never shown in a room."""

    text: str


@dataclass(frozen=True)
class Attempt:
    """One physical HTTP exchange is over. `outcome` is "ok" or an ErrorClass; `milliseconds` is its wall time.

    `reason` is why it was made: "initial", "waited", or the name of the quirk that was healed; `route` tells the model
    that was asked for ("selected") from the one that stands in for it ("fallback").
    """

    endpoint: str
    model: str
    outcome: str
    milliseconds: int
    status: int | None = None
    detail: str = ""
    route: Route = "selected"
    reason: str = "initial"


@dataclass(frozen=True)
class Completion:
    """The whole answer of one call, always the last event.

    `text` is visible text; `complete` is False when the stream was cut or a limit ended it (`finish_reason` length);
    `calls` are native calls, or those read from the text.
    """

    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    complete: bool = True
    usage: Usage = field(default_factory=Usage)
    model: str = ""


ModelEvent = Tick | TextDelta | ReasoningDelta | Attempt | Completion


class ErrorClass(StrEnum):
    """Why a model call failed."""

    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    CONTEXT_OVERFLOW = "context_overflow"
    BAD_REQUEST = "bad_request"
    UPSTREAM = "upstream"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    MODEL_NOT_FOUND = "model_not_found"
    TOOLS_UNSUPPORTED = "tools_unsupported"
    NOT_JSON = "not_json"
    EMPTY_STREAM = "empty_stream"
    NOT_ALLOWED = "not_allowed"
    NOT_CONFIGURED = "not_configured"
    ATTEMPTS = "attempts"


PASSING = frozenset({ErrorClass.RATE_LIMIT, ErrorClass.UPSTREAM, ErrorClass.UNREACHABLE, ErrorClass.TIMEOUT})


class ModelError(ParleyError):
    """A model call failed. `sentence` is for the room; `detail` (masked, capped) for the trace.

    `text` is what was visible before it failed; `retry_after` in seconds, `limit_tokens` and `param` (the field of the
    request that it refused) where the server named them.
    """

    code = "model_error"
    status = 502

    def __init__(
        self,
        error_class: ErrorClass,
        sentence: Sentence,
        *,
        detail: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        limit_tokens: int | None = None,
        param: str = "",
        text: str = "",
    ) -> None:
        super().__init__(sentence, detail=detail)
        self.error_class = error_class
        self.permanent = error_class not in PASSING
        self.http_status = status
        self.retry_after = retry_after
        self.limit_tokens = limit_tokens
        self.param = param
        self.text = text


class ChatModel(Protocol):
    """A model that can answer. Endpoints and `offline` are ChatModels."""

    def stream(self, request: ChatRequest) -> Iterator[ModelEvent]:
        """Yields events, a Tick at least every 200 ms, and a Completion last. Raises ModelError.

        Closing the generator closes the connection within 500 ms.
        """
        ...
