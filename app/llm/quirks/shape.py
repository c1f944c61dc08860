"""A request as a server with these quirks takes it: its messages, its tools and its numbers."""

from __future__ import annotations

from dataclasses import replace

from app.llm.base import ChatRequest
from app.llm.limits.capacity import Capacity, clamped
from app.llm.quirks import conversation
from app.llm.quirks.base import Known, Quirk


def shaped(request: ChatRequest, known: Known, capacity: Capacity) -> ChatRequest:
    """What is asked instead of `request`; the fields of its body that only differ in name are left to payload."""
    messages = request.messages
    tools = request.tools
    if Quirk.NO_TOOLS in known:
        messages, tools = conversation.described(messages, tools), ()
    if Quirk.NO_TOOL_ROLE in known or Quirk.NO_TOOLS in known:
        messages = conversation.tools_as_text(messages)
    if Quirk.NO_SYSTEM in known:
        messages = conversation.without_system(messages)
    if Quirk.SYSTEM_FIRST in known:
        messages = conversation.system_first(messages)
    if Quirk.ALTERNATE in known:
        messages = conversation.alternating(messages)
    made = replace(
        request,
        messages=messages,
        tools=tools,
        tool_choice=None if Quirk.NO_TOOL_CHOICE in known or not tools else request.tool_choice,
        temperature=None if Quirk.NO_TEMPERATURE in known else request.temperature,
        stream=request.stream and Quirk.NO_STREAM not in known,
    )
    if Quirk.NO_OUTPUT_LIMIT in known:
        return replace(made, max_tokens=None)
    room = capacity.within(context=known.get(Quirk.CONTEXT_TOKENS), output=known.get(Quirk.OUTPUT_TOKENS))
    return replace(made, max_tokens=clamped(made, room))
