"""Calls as Python, name(key="value", ...): parsed with the reader of literals, never evaluated."""

from __future__ import annotations

import re
from typing import Any

from app.llm.base import ToolCall
from app.llm.toolcalls import lossless
from app.llm.toolcalls.lossless import Unreadable
from app.llm.toolcalls.source import Found, Source

CALLED = re.compile(r"([\w.]{1,128})\(", re.ASCII)
KEYWORD = re.compile(r"([A-Za-z_]\w{0,127})\s*=\s*", re.ASCII)
BETWEEN = re.compile(r"[\s;,]*")
MOST_ARGUMENTS = 64


def python_calls(source: Source, at: int) -> Found | None:
    """One or several calls with keyword arguments that are literals, each perhaps in print(...), or all in a list."""
    at = source.skip(at)
    listed = source.char(at) == "["
    end = at + listed
    calls: list[ToolCall] = []
    while found := _call(source, source.skip(end, BETWEEN)):
        calls += found.calls
        end = found.end
    if listed:
        end = source.skip(end) + 1
        if source.text[end - 1 : end] != "]":
            return None
    return Found(tuple(calls), end) if calls else None


def _call(source: Source, at: int) -> Found | None:
    printed = source.starts("print(", at)
    named = CALLED.match(source.text, source.skip(at + len("print(")) if printed else at)
    name = named[1].removesuffix(".call") if named else ""
    if named is None or not source.knows(name):
        return None
    arguments: dict[str, Any] = {}
    at = source.skip(named.end())
    while (key := KEYWORD.match(source.text, at)) and len(arguments) < MOST_ARGUMENTS:
        try:
            arguments[key[1]], at = lossless.decode(source.text, key.end())
        except Unreadable:
            return None
        at = source.skip(at)
        if source.char(at) == ",":
            at = source.skip(at + 1)
    closing = ")" * (1 + printed)
    if not source.text.startswith(closing, at):
        return None
    return Found((ToolCall("", name, lossless.write(arguments)),), at + len(closing))
