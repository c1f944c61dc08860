"""Gemma 4: <|tool_call>call:name{key:<|"|>text<|"|>,other:3}<tool_call|>, an object without quotes of its own."""

from __future__ import annotations

import re
from typing import Any

from app.llm.base import ToolCall
from app.llm.toolcalls import lossless
from app.llm.toolcalls.lossless import MAX_DEPTH, Number, Unreadable
from app.llm.toolcalls.source import Found, Source

CALLED = re.compile(r"<\|tool_call>\s*call:(?P<name>[\w.:-]{1,128})\s*(?=\{)")
KEY_BEGUN = re.compile(r"""\s*["']?[\w.-]*["']?\s*\Z""")
KEY = re.compile(r"""\s*["']?(?P<key>[\w.-]{1,128})["']?\s*:\s*""")
BARE = re.compile(r"[^,\]}<]*")
QUOTE = '<|"|>'
END = "<tool_call|>"


def gemma(source: Source, at: int) -> Found | None:
    """The call that begins at `at`; what can't be read goes to the model as it is, up to the closing marker."""
    called = CALLED.match(source.low, at)
    if called is None:
        return None
    name = source.text[slice(*called.span("name"))]
    try:
        value, end = _object(source, called.end(), 0)
    except Unreadable as error:
        end = source.find(END, called.end())
        written = source.text[called.end() : end]
        return Found((ToolCall("", name, written, complete=error.reason != "ended"),), end)
    return Found((ToolCall("", name, lossless.write(value)),), end)


def _value(source: Source, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise Unreadable("wrong", f"it is nested more than {MAX_DEPTH} levels deep")
    if source.starts(QUOTE, at):
        begin = at + len(QUOTE)
        end = source.find(QUOTE, begin)
        if end == len(source.text):
            raise Unreadable("ended", "the text ends inside a string")
        return source.text[begin:end], end + len(QUOTE)
    if source.char(at) == "{":
        return _object(source, at, depth)
    if source.char(at) == "[":
        return _array(source, at, depth)
    return lossless.decode(source.text, at) if source.char(at) in ('"', "'") else _bare(source, at)


def _object(source: Source, at: int, depth: int) -> tuple[dict[str, Any], int]:
    made: dict[str, Any] = {}
    at = source.skip(at + 1)
    while source.char(at) != "}":
        key = KEY.match(source.text, at)
        if key is None:
            begun = KEY_BEGUN.match(source.text, at)
            raise _fault(source, begun.end() if begun else at, "a key is missing")
        made[key["key"]], at = _value(source, key.end(), depth + 1)
        at = _comma(source, at, "}")
    return made, at + 1


def _array(source: Source, at: int, depth: int) -> tuple[list[Any], int]:
    made: list[Any] = []
    at = source.skip(at + 1)
    while source.char(at) != "]":
        value, at = _value(source, at, depth + 1)
        made.append(value)
        at = _comma(source, at, "]")
    return made, at + 1


def _comma(source: Source, at: int, closer: str) -> int:
    at = source.skip(at)
    if source.char(at) == ",":
        return source.skip(at + 1)
    if source.char(at) != closer:
        raise _fault(source, at, f"{closer} is missing")
    return at


def _bare(source: Source, at: int) -> tuple[Any, int]:
    """A number, true, false, null, or a text that nobody quoted."""
    found = BARE.match(source.text, at)
    text = found.group().strip() if found else ""
    end = found.end() if found else at
    if not text or end == len(source.text):
        raise _fault(source, end, "a value is missing")
    if lossless.NUMBER.fullmatch(text):
        return Number(text), end
    return lossless.WORDS.get(text, text), end


def _fault(source: Source, at: int, detail: str) -> Unreadable:
    return Unreadable("ended" if at >= len(source.text) else "wrong", f"{detail} at character {at}")
