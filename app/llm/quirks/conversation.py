"""Conversations rewritten for servers that take less than all roles in any order; nothing that was said is lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.llm.base import Message, ToolCall, ToolSchema

Content = str | tuple[Mapping[str, Any], ...]

BETWEEN = "\n\n"
# What stands for a beginning that was left out, where the user must speak first.
BEFORE = "[...]"
TOOLS = (
    "You have the tools below; each line gives a name, a description and the JSON Schema of the arguments. To call one, "
    "write nothing but a block of this form, one for each call; you get the result in the next message:\n"
    '<tool_call>{"name": "NAME", "arguments": {}}</tool_call>\n\n'
)


def described(messages: Sequence[Message], tools: Iterable[ToolSchema]) -> tuple[Message, ...]:
    """Tools told in the system message, for a model that is given none."""
    lines = [
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}, ensure_ascii=False
        )
        for tool in tools
    ]
    if not lines:
        return tuple(messages)
    told = TOOLS + "\n".join(lines)
    if messages and messages[0].role == "system":
        first = replace(messages[0], content=joined(messages[0].content, told))
        return (first, *messages[1:])
    return (Message("system", told), *messages)


def tools_as_text(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Calls as the assistant's text, and their results as messages of the user; several results become one message."""
    names = called(messages)
    made: list[Message] = []
    after_result = False
    for message in messages:
        is_result = message.role == "tool"
        if is_result:
            message = Message("user", _result(message, names.get(message.tool_call_id, "")))
            if after_result:
                message = replace(message, content=joined(made.pop().content, message.content))
        elif message.tool_calls:
            message = Message(message.role, joined(message.content, "\n".join(map(_call, message.tool_calls))))
        made.append(message)
        after_result = is_result
    return tuple(made)


def system_first(messages: Sequence[Message]) -> tuple[Message, ...]:
    """One system message at the beginning; what later ones say is said by the user."""
    begin = 0
    while begin < len(messages) and messages[begin].role == "system":
        begin += 1
    head = [_merged(messages[:begin])] if begin else []
    rest = (replace(message, role="user") if message.role == "system" else message for message in messages[begin:])
    return (*head, *rest)


def without_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """What the system says stands at the beginning of the first message of the user."""
    first, *rest = system_first(messages) or (None,)
    if first is None or first.role != "system":
        return tuple(messages)
    if rest and rest[0].role == "user":
        return (replace(rest[0], content=joined(first.content, rest[0].content)), *rest[1:])
    return (replace(first, role="user"), *rest)


def alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    """After at most one system message user and assistant take turns, beginning with the user; a call and its results
    stay between them."""
    made: list[Message] = []
    for message in system_first(messages):
        last = made[-1] if made else None
        if last is not None and last.role == message.role in ("user", "assistant") and not last.tool_calls:
            made[-1] = replace(message, content=joined(last.content, message.content))
        elif message.role == "assistant" and (last is None or last.role == "system"):
            made += [Message("user", BEFORE), message]
        else:
            made.append(message)
    return tuple(made)


def called(messages: Iterable[Message]) -> dict[str, str]:
    """The name of the tool of each call, by its id."""
    return {call.id: call.name for message in messages for call in message.tool_calls}


def joined(first: Content, second: Content) -> Content:
    """Two contents as one; parts stay parts."""
    if isinstance(first, str) and isinstance(second, str):
        return BETWEEN.join(filter(None, (first, second)))
    return (*_parts(first), *_parts(second))


def _parts(content: Content) -> Iterator[Mapping[str, Any]]:
    if not isinstance(content, str):
        yield from content
    elif content:
        yield {"type": "text", "text": content}


def _merged(messages: Sequence[Message]) -> Message:
    content: Content = ""
    for message in messages:
        content = joined(content, message.content)
    return replace(messages[0], content=content)


def _call(call: ToolCall) -> str:
    # The arguments go back as they were written: the model knows its own words.
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments), default=str)
    return f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {arguments or "{}"}}}</tool_call>'


def _result(message: Message, name: str) -> Content:
    text = message.content if isinstance(message.content, str) else json.dumps(list(message.content), default=str)
    # What a tool found is data: it must not end its own block and go on in the words of the user.
    text = text.replace("</tool_response", "</ tool_response")
    return f'<tool_response name="{name}">\n{text}\n</tool_response>'
