"""Calls that are a whole message, with nothing else around: JSON, JSON or tool_code in a fence, Python calls in a list,
and a tool's name in a line of its own before an object."""

from __future__ import annotations

import re

from app.llm.base import ToolCall
from app.llm.toolcalls import lossless
from app.llm.toolcalls.jsonlike import KNOWN_KEYS, WRAPPERS, calls_of, named_json
from app.llm.toolcalls.lossless import Unreadable
from app.llm.toolcalls.python import python_calls
from app.llm.toolcalls.source import Source

# So much of a message is enough to tell that it can't be a call.
ENOUGH = 300
FENCE = re.compile(r"(`{3,})[ \t]*([a-z_]*)[ \t]*\n")
JSON_FENCES = ("", "json", "tool_call", "tool_calls")
PYTHON_FENCES = ("tool_code",)
KEYS = (*KNOWN_KEYS, *WRAPPERS)
BETWEEN = re.compile(r"[\s;,]*")
WORD = re.compile(r"[\w.]*", re.ASCII)


def possible(source: Source, at: int) -> bool | None:
    """Whether the message that begins at `at` may be a call; None while too little of it is there to tell."""
    text = source.text[at : at + ENOUGH]
    told = _possible(text, source) if source.names else False
    return False if told is None and len(text) == ENOUGH else told


def _possible(text: str, source: Source) -> bool | None:
    if text[0] in "{[":
        return _begins_calls(text, source)
    if text[0] != "`":
        return _begins_named(text, source)
    fence = FENCE.match(text.lower())
    if fence is None:
        head = text.lower().lstrip("`").strip(" \t")
        begun = "\n" not in text and any(name.startswith(head) for name in (*JSON_FENCES, *PYTHON_FENCES))
        return None if begun else False
    inside = text[fence.end() :].lstrip()
    if not inside:
        return None
    if fence[2] in PYTHON_FENCES:
        return _begins_python(inside.removeprefix("[").lstrip(), source)
    return _begins_calls(inside, source) if fence[2] in JSON_FENCES and inside[0] in "{[" else False


def _begins_calls(text: str, source: Source) -> bool | None:
    inside = text[1:].lstrip()
    if not inside:
        return None
    if text[0] == "[":
        return _begins_calls(inside, source) if inside[0] == "{" else _begins_python(inside, source)
    if inside[0] not in "\"'":
        return False
    key, closed, _ = inside[1:].partition(inside[0])
    if closed:
        return key in KEYS
    return None if any(known.startswith(key) for known in KEYS) else False


def _begins_named(text: str, source: Source) -> bool | None:
    """A tool's name alone in the first line, then an object."""
    line, ended, rest = text.partition("\n")
    if not ended:
        return None if any(name.startswith(line) for name in source.names) else False
    if line not in source.names:
        return False
    return rest.lstrip()[:1] == "{" if rest.strip() else None


def _begins_python(text: str, source: Source) -> bool | None:
    word = WORD.match(text)
    name = word.group() if word else ""
    if len(name) == len(text):
        return None
    return text[len(name)] == "(" and (name == "print" or source.knows(name.removesuffix(".call")))


def whole_message(source: Source, at: int, end: int) -> tuple[ToolCall, ...] | None:
    """The calls that the text from `at` to `end` is, or None when it is a text."""
    if possible(source, at) is not True:
        return None
    if source.char(at) == "`":
        return _fences(source, at, end)
    if source.char(at) in ("{", "["):
        return _python(source, at, end) or _json(source, at, end)
    return _named(source, at, end)


def _fences(source: Source, at: int, end: int) -> tuple[ToolCall, ...] | None:
    """One or several fences, each of them nothing but calls."""
    calls: list[ToolCall] = []
    while at < end:
        fence = FENCE.match(source.low, at, end)
        if fence is None:
            return None
        close = source.find("\n" + fence[1], fence.end() - 1)
        stop = min(close, end)
        inside = _python if fence[2] in PYTHON_FENCES else _json if fence[2] in JSON_FENCES else None
        found = inside(source, fence.end(), stop) if inside else None
        if found is None:
            return None
        calls += found
        at = source.skip(min(close + 1 + len(fence[1]), end))
    return tuple(calls)


def _named(source: Source, at: int, end: int) -> tuple[ToolCall, ...] | None:
    found = named_json(source, at)
    whole = found is not None and found.calls[0].complete and source.skip(found.end) >= end
    return found.calls if found is not None and whole else None


def _json(source: Source, at: int, end: int) -> tuple[ToolCall, ...] | None:
    calls: list[ToolCall] = []
    at = source.skip(at)
    while at < end:
        if source.char(at) not in ("{", "["):
            return None
        try:
            value, at = lossless.decode(source.text, at)
        except Unreadable:
            return None
        found = calls_of(value, source, strict=True)
        if found is None:
            return None
        calls += found
        at = source.skip(at, BETWEEN)
    return tuple(calls) or None


def _python(source: Source, at: int, end: int) -> tuple[ToolCall, ...] | None:
    found = python_calls(source, at)
    return found.calls if found and source.skip(found.end) >= end else None
