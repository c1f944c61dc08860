"""The quirks that are known."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Quirk(StrEnum):
    """How a model server differs from what is usual."""

    COMPLETION_TOKENS = "max_completion_tokens"
    """The output budget is called max_completion_tokens, not max_tokens."""
    NO_OUTPUT_LIMIT = "no_output_limit"
    """It takes no output budget under any name."""
    OUTPUT_TOKENS = "output_tokens"
    """It refuses an output budget above this number of tokens."""
    CONTEXT_TOKENS = "context_tokens"
    """Messages and output budget together may not be more than this number of tokens."""
    NO_TEMPERATURE = "no_temperature"
    NO_STREAM = "no_stream"
    NO_STREAM_OPTIONS = "no_stream_options"
    NO_TOOLS = "no_tools"
    """It knows no tools: they are described in the system message, and called in the text."""
    NO_TOOL_CHOICE = "no_tool_choice"
    NO_TOOL_ROLE = "no_tool_role"
    """It takes no tool calls and results in the conversation: they are written as text."""
    TOOL_NAMES = "tool_names"
    """The result of a tool must bear the tool's name."""
    SHORT_IDS = "short_ids"
    """The ids of calls have exactly nine letters and digits."""
    NO_SYSTEM = "no_system"
    """It knows no system role: its text goes into the first message of the user."""
    SYSTEM_FIRST = "system_first"
    """Only the first message may be a system message."""
    ALTERNATE = "alternate"
    """User and assistant must take turns, beginning with the user."""
    NULL_CONTENT = "null_content"
    """An assistant's message without a text has the content null, not an empty text."""
    FILLED_CONTENT = "filled_content"
    """No message may be without a text."""


Known = Mapping[Quirk, int]
"""Quirks with their numbers; 0 where there is nothing to count."""

NONE: Known = {}
