"""The model that is always there: it answers by quoting what the search tools find, and says that it is none.

It sees the tool schemas of the request, calls each tool whose name contains "search" once with the last user text, then
quotes the passages that came, written as `[n] speaker, time: text`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.infra.i18n import say
from app.llm.base import ChatRequest, Completion, Message, ModelEvent, TextDelta, ToolCall, ToolSchema

MODEL = "quote"
COMMAND = "python manage.py endpoints set primary --url URL --model MODEL"
MOST_PASSAGES = 5
LONGEST_QUOTE = 500
LONGEST_QUERY = 2000
# A passage ends at the next one, or at an empty line, after which a tool may add what it wants to say.
PASSAGE = re.compile(r"^\[\d{1,4}\] (.+?)(?=\n\[\d{1,4}\] |\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class OfflineModel:
    """A ChatModel without a model; `bot` is the name it speaks under."""

    language: str = "en"
    bot: str = ""

    def stream(self, request: ChatRequest) -> Iterator[ModelEvent]:
        """See base.ChatModel; no network, no tokens."""
        asked, since = _last_question(request.messages)
        calls = tuple(_calls(request.tools, asked, since))
        if calls:
            yield Completion("", calls=calls, finish_reason="tool_calls", model=MODEL)
            return
        text = self._answer(_passages(since))
        yield TextDelta(text)
        yield Completion(text, finish_reason="stop", model=MODEL)

    def _answer(self, passages: list[str]) -> str:
        who = say("I am {bot}, and no model is connected, so I can only quote what I find.", bot=self.bot)
        nobody = say("No model is connected, so I can only quote what I find.")
        found = say("This is what was said before and seems to fit:")
        nothing = say("I found nothing that fits.")
        how = say("An administrator connects a model with this command:")
        parts = [(who if self.bot else nobody).text(self.language)]
        if passages:
            parts += [found.text(self.language), "\n".join(passages)]
        else:
            parts.append(nothing.text(self.language))
        parts += [how.text(self.language), f"`{COMMAND}`"]
        return "\n\n".join(parts)


def _last_question(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """The text of the last user message, and what came after it."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            return _text(messages[place].content), messages[place + 1 :]
    return "", messages


def _text(content: str | tuple[Mapping[str, Any], ...]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in content if isinstance(part.get("text"), str))


def _calls(tools: tuple[ToolSchema, ...], asked: str, since: tuple[Message, ...]) -> Iterator[ToolCall]:
    """A call of each search tool that was not called for this question."""
    called = {call.name for message in since for call in message.tool_calls}
    for tool in tools:
        name = _query_name(tool.parameters)
        if "search" in tool.name.lower() and tool.name not in called and name and asked.strip():
            arguments = json.dumps({name: asked.strip()[:LONGEST_QUERY]}, ensure_ascii=False)
            yield ToolCall(f"call_{secrets.token_hex(6)}", tool.name, arguments)


def _query_name(parameters: Mapping[str, Any]) -> str | None:
    """The parameter that takes the text: `query`, else the only required one that is a string."""
    properties = parameters.get("properties") or {}
    required = [name for name in parameters.get("required") or () if name in properties]
    if "query" in properties and set(required) <= {"query"}:
        return "query"
    return required[0] if len(required) == 1 and properties[required[0]].get("type") == "string" else None


def _passages(since: tuple[Message, ...]) -> list[str]:
    """The passages in the tool results, numbered through."""
    found = [
        match[1].strip()
        for message in since
        if message.role == "tool"
        for match in PASSAGE.finditer(_text(message.content))
    ]
    return [f"[{number}] {_short(text)}" for number, text in enumerate(found[:MOST_PASSAGES], start=1)]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 1] + "…"
