"""The channel syntax of gpt-oss: <|channel|>NAME ...<|message|>BODY<|end|>. Only the final channel is for the room.

Some servers drop the control tokens and leave the rest: "analysisHm.assistantfinalIt is 14."
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from app.llm.base import ToolCall
from app.llm.toolcalls.jsonlike import with_arguments
from app.llm.toolcalls.source import Found, Source

LONGEST_HEADER = 300
HEADER = re.compile(
    r"(?:<\|start\|>(?P<role>[^<]{0,80}))?"
    r"(?:<\|channel\|>(?P<channel>[^<]{0,160})(?:<\|constrain\|>[^<]{0,40})?)?<\|message\|>"
)
RECIPIENT = re.compile(r"to=([^\s<]{1,128})")
ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>")


@dataclass(frozen=True)
class Header:
    """What a header announces, and where its body begins."""

    kind: Literal["text", "thought", "call"]
    recipient: str
    end: int
    is_preamble: bool = False
    """Words to the user before a call: shown only when nothing else is."""


def header(source: Source, at: int) -> Header | None:
    """The header at `at`, or None where none is (yet) complete."""
    found = HEADER.match(source.low, at, at + LONGEST_HEADER)
    if found is None:
        return None
    channel = (found["channel"] or "").split(" ")[0].strip()
    begin = found.start("role") if found["role"] is not None else found.start("channel")
    to = RECIPIENT.search(source.text, max(begin, at), found.end())
    recipient = to[1] if to else ""
    if channel == "commentary" and recipient not in ("", "user", "all"):
        return Header("call", recipient, found.end())
    kind: Literal["text", "thought"] = "text" if channel in ("final", "") else "thought"
    return Header(kind, "", found.end(), is_preamble=channel == "commentary")


def harmony_call(source: Source, at: int) -> Found | None:
    """The call whose header begins at `at`. Its body is the arguments, unread."""
    head = header(source, at)
    if head is None or head.kind != "call":
        return None
    end = source.first(ENDS, head.end)
    return Found((ToolCall("", head.recipient, source.text[head.end : end].strip()),), end)


@dataclass(frozen=True)
class Stripped:
    """What stands in a message whose control tokens were dropped, and where its text for the room begins."""

    thoughts: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    end: int


BEGINNINGS = ("analysis", "commentary to=")
NEXT = ("assistantfinal", "assistantanalysis", "assistantcommentary to=")
BARE_CALL = re.compile(r"(?:assistant)?commentary to=(?P<name>[\w.-]{1,128})(?: ?(?:json|code))?\s*(?=\{)")


def maybe_stripped(source: Source, at: int) -> bool | None:
    """Whether the message that begins at `at` may be such a one; None while too little of it is there to tell."""
    head = source.text[at : at + len(BEGINNINGS[-1])]
    if head.startswith(BEGINNINGS):
        return True
    return None if any(beginning.startswith(head) for beginning in BEGINNINGS) else False


def stripped(source: Source, at: int) -> Stripped | None:
    """Reads such a message; None when it is a text like any other."""
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    while at < len(source.text):
        if source.starts("assistantfinal", at):
            return Stripped(tuple(thoughts), tuple(calls), at + len("assistantfinal"))
        if called := BARE_CALL.match(source.low, at):
            name = source.text[slice(*called.span("name"))]
            if not source.knows(name):
                return None
            found = with_arguments(source, name, called.end())
            calls += found.calls
            at = source.skip(found.end)
            continue
        begin = source.text.find("analysis", at, at + len("assistantanalysis")) + len("analysis")
        end = source.first(NEXT, begin)
        if begin < len("analysis") or end == len(source.text):
            return None
        thoughts.append(source.text[begin:end])
        at = end
    return Stripped(tuple(thoughts), tuple(calls), at) if calls else None
