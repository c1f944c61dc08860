"""A ChatRequest as the JSON body of an OpenAI-compatible server."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from app.llm.base import ChatRequest, Message, ToolCall
from app.llm.quirks.base import NONE, Known, Quirk
from app.llm.quirks.conversation import called

SHORT_ID = 9
# Stands where a server takes no message without a text.
NO_TEXT = "[no text]"


def body(request: ChatRequest, known: Known = NONE) -> dict[str, Any]:
    """What is sent. Nothing is named that the request does not set: servers refuse what they do not know.

    Of the quirks in `known` only those count that are about the names and forms of fields; see quirks.shape for the rest.
    """
    names = called(request.messages)
    messages = [_message(message, known, names.get(message.tool_call_id)) for message in request.messages]
    made: dict[str, Any] = {"model": request.model, "messages": messages}
    if request.tools:
        made["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
        if request.tool_choice:
            made["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice}}
    if request.temperature is not None:
        made["temperature"] = request.temperature
    if request.max_tokens is not None:
        made["max_completion_tokens" if Quirk.COMPLETION_TOKENS in known else "max_tokens"] = request.max_tokens
    if request.stream:
        made["stream"] = True
        if Quirk.NO_STREAM_OPTIONS not in known:
            made["stream_options"] = {"include_usage": True}
    return made


def _message(message: Message, known: Known, tool: str | None) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": _content(message, known)}
    if message.tool_calls:
        made["tool_calls"] = [
            {
                "id": _id(call.id, known),
                "type": "function",
                "function": {"name": call.name, "arguments": arguments(call)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        made["tool_call_id"] = _id(message.tool_call_id, known)
        if tool and Quirk.TOOL_NAMES in known:
            made["name"] = tool
    return made


def _content(message: Message, known: Known) -> str | list[Any] | None:
    if not isinstance(message.content, str):
        return list(message.content)
    if message.content.strip():
        return message.content
    if Quirk.FILLED_CONTENT in known:
        return NO_TEXT
    return None if message.role == "assistant" and Quirk.NULL_CONTENT in known else message.content


def _id(id: str, known: Known) -> str:
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:SHORT_ID] if Quirk.SHORT_IDS in known else id


def arguments(call: ToolCall) -> str:
    """The arguments as a text that decodes to an object in one step, whatever the model wrote; strict servers need it."""
    value: Any = call.arguments
    for _ in range(2):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            break
    if not isinstance(value, dict) and not hasattr(value, "keys"):
        return "{}"
    return json.dumps(dict(value), ensure_ascii=False)
