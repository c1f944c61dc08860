"""How much of a conversation fits into a model's context: the oldest exchanges go first, the newest message never goes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from app.infra.errors import ParleyError
from app.infra.i18n import say
from app.llm.base import Message, ToolCall

CHARACTERS_PER_TOKEN = 3.5
# What roles, names and separators cost beside the text.
TOKENS_PER_MESSAGE = 4
TOKENS_PER_TOOL = 12
TOKENS_PER_PICTURE = 1000
# Kept free for the answer where the model's context is known.
ANSWER_TOKENS = 1024
# What a model is supposed to take when nobody knows: its server will say when that was too much.
UNKNOWN_WINDOW = 32_000


class Described(Protocol):
    """What is sent of a tool: a tools.base.Tool or a llm.base.ToolSchema."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Any: ...


class ContextTooLong(ParleyError):
    """System message, tools and the newest message alone are more than the model takes; `tokens` is the estimate."""

    code = "context_too_long"
    status = 413

    def __init__(self, tokens: int, window: int) -> None:
        super().__init__(
            say(
                "This message is too long for my model: about {tokens} tokens with my instructions, and it takes "
                "{window}. Please send less at once, or choose a model with a larger context.",
                tokens=tokens,
                window=window,
            ),
            detail=f"about {tokens} tokens of {window}",
        )
        self.tokens = tokens
        self.window = window


def estimate(messages: Iterable[Message], tools: Iterable[Described] = ()) -> int:
    """Roughly how many tokens they are."""
    return sum(map(_message, messages)) + sum(map(_tool, tools))


def fit(
    system: Message,
    history: Sequence[Message],
    newest: Message,
    tools: Iterable[Described],
    *,
    budget: int,
    window: int | None = None,
) -> tuple[Message, ...]:
    """System, as much of the history (oldest first) as fits into `budget` tokens, and the newest message.

    `window` is the model's context in tokens where it is known. Raises ContextTooLong when all but the history exceeds it.
    """
    fixed = estimate((system, newest), tools)
    limit = max(budget, UNKNOWN_WINDOW) if window is None else window - min(ANSWER_TOKENS, window // 8)
    if fixed > limit:
        raise ContextTooLong(fixed, window or limit)
    room = min(budget, limit) - fixed
    kept: list[Message] = []
    for exchange in reversed(_exchanges(history)):
        room -= estimate(exchange)
        if room < 0:
            break
        kept[:0] = exchange
    return (system, *kept, newest)


def _exchanges(history: Sequence[Message]) -> list[list[Message]]:
    """A message of a person with what was answered to it: they stay or go together."""
    exchanges: list[list[Message]] = []
    for message in history:
        if message.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(message)
    return exchanges


def _message(message: Message) -> int:
    pictures = 0
    characters = sum(map(_call, message.tool_calls))
    if isinstance(message.content, str):
        characters += len(message.content)
    else:
        characters += sum(len(str(part.get("text") or "")) for part in message.content)
        pictures = sum(part.get("type") not in ("text", None) for part in message.content)
    return TOKENS_PER_MESSAGE + pictures * TOKENS_PER_PICTURE + _tokens(characters)


def _call(call: ToolCall) -> int:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments), default=str)
    return len(call.name) + len(arguments) + len(call.id)


def _tool(tool: Described) -> int:
    characters = len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters, default=str))
    return TOKENS_PER_TOOL + _tokens(characters)


def _tokens(characters: int) -> int:
    return -int(-characters // CHARACTERS_PER_TOKEN)
