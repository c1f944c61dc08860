"""The table of everything in an answer that is not text for a reader: calls, reasoning, and leaked control tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from app.llm.toolcalls.gemma import gemma
from app.llm.toolcalls.harmony import harmony_call
from app.llm.toolcalls.jsonlike import after, functionary, mistral, token_call
from app.llm.toolcalls.python import python_calls
from app.llm.toolcalls.source import Found, Reader, Source
from app.llm.toolcalls.tagged import bare, block


def python_tag(source: Source, at: int) -> Found | None:
    """Llama: JSON, or a call written as Python, after the token."""
    at += len("<|python_tag|>")
    return after("")(source, at) or python_calls(source, at)


def python_list(source: Source, at: int) -> Found | None:
    """LFM2: a list of calls written as Python, or JSON, after the token."""
    at += len("<|tool_call_start|>")
    return python_calls(source, at) or after("")(source, at)


@dataclass(frozen=True)
class Notation:
    """A row: the marker (as in the shadow of a Source), what it is, who makes it, and how it is read.

    call: tools are called here, `read` tells which; opens: reasoning begins and lasts until `closer`; stray: a leftover
    that says nothing. A `token` is a control token that no prose contains: it is never shown, whatever comes of it.
    """

    marker: str
    kind: Literal["call", "opens", "closes", "stray", "channel"]
    token: bool
    read: Reader | None = None
    closer: str = ""


def _call(marker: str, read: Reader, *, token: bool = False) -> Notation:
    return Notation(marker, "call", token, read)


VENDORS = ("", "antml:", "minimax:", "seed:")
BLOCKS = (
    *(
        f"<{vendor}{name}>"
        for vendor in VENDORS
        for name in ("tool_call", "tool_calls", "function_call", "function_calls")
    ),
    "<|dsml|function_calls>",  # DeepSeek 3.2
    "<|dsml|tool_calls>",
)
CALLS = (
    *(_call(marker, block(marker), token="|" in marker) for marker in BLOCKS),
    *(
        _call(marker, bare)
        for marker in ("<function=", "<function name=", *(f"<{vendor}invoke name=" for vendor in VENDORS))
    ),
    _call("<|dsml|invoke name=", bare, token=True),
    _call("<functioncall>", after("<functioncall>", "</functioncall>")),
    _call("<toolcall>", after("<toolcall>", "</toolcall>")),  # Nemotron
    _call("[tool_request]", after("[tool_request]", "[end_tool_request]")),  # LM Studio
    _call("functools[", after("functools")),  # Firefunction 2
    _call(">>>", functionary),  # Functionary 3.2
    _call("[tool_calls]", mistral, token=True),
    _call("<|python_tag|>", python_tag, token=True),  # Llama
    _call("<|tool_call_begin|>", token_call, token=True),  # Kimi, DeepSeek
    _call("<|tool_call|>", after("<|tool_call|>", "<|/tool_call|>"), token=True),  # Granite, Phi 4
    _call("<|start_action|>", after("<|start_action|>", "<|end_action|>"), token=True),  # Command R
    _call("<|tool_call_start|>", python_list, token=True),  # LFM2
    _call("<|functioncallbegin|>", after("<|functioncallbegin|>", "<|functioncallend|>"), token=True),  # Doubao
    _call("<|action_start|><|plugin|>", after("<|action_start|><|plugin|>", "<|action_end|>"), token=True),  # InternLM
    _call("<|tool_call>", gemma, token=True),  # Gemma 4
    Notation("<|channel|>", "channel", True, harmony_call),  # gpt-oss
    Notation("<|start|>", "channel", True, harmony_call),
)
REASONING = (
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "seed:think")),
    ("[think]", "[/think]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi VL
    ("<|start_thinking|>", "<|end_thinking|>"),  # Command R
    ("<|channel>", "<channel|>"),  # Gemma 4
)
STRAY_TAGS = (
    *(f"</{marker[1:]}" for marker in BLOCKS if "|" not in marker),
    "</toolcall>",
    "</functioncall>",
    "[end_tool_request]",
)
STRAY_TOKENS = (
    *(f"</{marker[1:]}" for marker in BLOCKS if "|" in marker),
    "[/tool_calls]",
    "<tool_call|>",
    "<turn|>",
    *(
        f"<|{name}|>"
        for name in [
            "tool_calls_section_begin",
            "tool_calls_section_end",
            "tool_calls_begin",
            "tool_calls_end",
            "tool_call_end",
            "tool_sep",
            "tool_call_argument_begin",
            "/tool_call",
            "end_action",
            "functioncallend",
            "action_end",
            "eom_id",
            "eot_id",
            "im_end",
            "im_start",
            "endoftext",
            "end_of_text",
            "end_of_sentence",
            "end",
            "return",
            "call",
            "message",
            "constrain",
            "observation",
            "start_response",
            "end_response",
            "start_text",
            "end_text",
            "start_of_turn",
            "end_of_turn",
        ]
    ),
)
NOTATIONS: dict[str, Notation] = {
    notation.marker: notation
    for notation in (
        *CALLS,
        *(Notation(opener, "opens", "|" in opener, closer=closer) for opener, closer in REASONING),
        *(Notation(closer, "closes", "|" in closer) for _, closer in REASONING),
        *(Notation(tag, "stray", False) for tag in STRAY_TAGS),
        *(Notation(token, "stray", True) for token in STRAY_TOKENS),
    )
}
# The longest first: "<|tool_calls_begin|>" before what it begins with.
MARKERS = re.compile("|".join(re.escape(marker) for marker in sorted(NOTATIONS, key=len, reverse=True)))
BEGINNINGS = frozenset(marker[:length] for marker in NOTATIONS for length in range(1, len(marker)))
LONGEST_MARKER = max(map(len, NOTATIONS))


def held_back(low: str) -> int:
    """How many characters at the end of a shadow may be the beginning of a marker."""
    for length in range(min(len(low), LONGEST_MARKER - 1), 0, -1):
        if low[-length:] in BEGINNINGS:
            return length
    return 0
