"""A ChatRequest as the JSON body of an OpenAI-compatible server."""

from __future__ import annotations

import json
from typing import Any

from app.llm.base import ChatRequest, Message, ToolCall


def body(request: ChatRequest) -> dict[str, Any]:
    """What is sent. Nothing is named that the request does not set: servers refuse what they do not know."""
    made: dict[str, Any] = {"model": request.model, "messages": [_message(message) for message in request.messages]}
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
        made["max_tokens"] = request.max_tokens
    if request.stream:
        made["stream"] = True
        made["stream_options"] = {"include_usage": True}
    return made


def _message(message: Message) -> dict[str, Any]:
    content = message.content if isinstance(message.content, str) else list(message.content)
    made: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        made["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call)}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        made["tool_call_id"] = message.tool_call_id
    return made


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
