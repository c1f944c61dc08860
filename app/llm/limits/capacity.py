"""How much a model may write in one call: what its server says that it takes, less what it is given to read."""

from __future__ import annotations

import json
from dataclasses import dataclass

from app.llm.base import ChatRequest, Message

CHARACTERS_PER_TOKEN = 3.5
# What the estimate may be wrong by, where there is room for it.
MARGIN = 1024
# Less than this is no answer: then the server rather says that the context is too small.
LEAST_OUTPUT = 256


@dataclass(frozen=True)
class Capacity:
    """Tokens that a model reads and writes together, and writes at most; None where nobody said."""

    context: int | None = None
    output: int | None = None

    def within(self, *, context: int | None = None, output: int | None = None) -> Capacity:
        """The smaller of each."""
        return Capacity(least(self.context, context), least(self.output, output))


def clamped(request: ChatRequest, capacity: Capacity) -> int | None:
    """The output budget of `request` that fits. None stays None: the server knows its own limit better than a guess."""
    wanted = least(request.max_tokens, capacity.output)
    if request.max_tokens is None or wanted is None or capacity.context is None:
        return None if request.max_tokens is None else wanted
    left = capacity.context - estimate(request)
    return min(wanted, max(LEAST_OUTPUT, left - min(MARGIN, left // 2)))


def estimate(request: ChatRequest) -> int:
    """Roughly how many tokens the messages and tools of `request` are."""
    tools = sum(len(tool.name) + len(tool.description) + len(_json(tool.parameters)) for tool in request.tools)
    return round((sum(map(_characters, request.messages)) + tools) / CHARACTERS_PER_TOKEN)


def least(*numbers: int | None) -> int | None:
    """The smallest of those that are known."""
    return min((number for number in numbers if number is not None), default=None)


def _characters(message: Message) -> int:
    content = message.content if isinstance(message.content, str) else _texts(message)
    calls = sum(len(call.name) + len(call.id) + len(_json(call.arguments)) for call in message.tool_calls)
    return len(content) + calls


def _texts(message: Message) -> str:
    return "".join(part["text"] for part in message.content if isinstance(part, dict) and "text" in part)


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=dict)
