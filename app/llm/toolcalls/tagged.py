"""Calls as markup: <tool_call> blocks, <function=name> with <parameter=key>, <invoke name=...>, <arg_key>/<arg_value>."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from app.llm.base import ToolCall
from app.llm.toolcalls.jsonlike import json_calls, with_arguments
from app.llm.toolcalls.source import Found, Reader, Source

FUNCTION = re.compile(r"""<function(?:=|\s+name=)["']?(?P<name>[^>"'\n]{1,128})["']?\s*>""")
INVOKE = re.compile(r"""<(?P<prefix>\|dsml\||[\w-]{1,32}:)?invoke\s+name=["'](?P<name>[^"'\n]{1,128})["']\s*>""")
GLM_NAME = re.compile(r"[\w.:/-]{1,128}")
GLM_KEY = re.compile(r"(?:<arg_key>\s*){1,8}(?P<key>[^<]{1,128})(?:</arg_key>\s*){1,8}(?:<arg_value>)")
# A text that speaks of markup may hold a closing tag; beyond so many of them the first one is taken.
MOST_CLOSERS = 8


@dataclass(frozen=True)
class Dialect:
    """The tags of one notation. `framed`: whether a line end inside the tags belongs to them, "each" or only "both"."""

    parameter: re.Pattern[str]
    open: str
    close: str
    open_call: str
    close_call: str
    framed: Literal["each", "both"]


QWEN = Dialect(
    re.compile(r"""<parameter(?:=|\s+name=)["']?(?P<name>[^>"'\n]{1,128})["']?\s*>"""),
    "<parameter",
    "</parameter>",
    "<function",
    "</function>",
    "each",
)


def _invoke_dialect(prefix: str) -> Dialect:
    parameter = re.compile(rf"""<{re.escape(prefix)}parameter\s+name=["'](?P<name>[^"'\n]{{1,128}})["'][^>\n]*>""")
    names = (f"<{prefix}parameter", f"</{prefix}parameter>", f"<{prefix}invoke", f"</{prefix}invoke>")
    return Dialect(parameter, *names, "both")


def block(marker: str) -> Reader:
    """A reader of what stands between `marker` (an opening tag) and its closing tag."""
    closing = "</" + marker[1:]

    def read(source: Source, at: int) -> Found | None:
        begin = source.skip(at + len(marker))
        if begin == len(source.text):
            return Found((), begin)
        if source.char(begin) in ("{", "["):
            return json_calls(source, begin, until=closing)
        if found := _several(source, begin, known_only=False):
            return found
        return _glm(source, begin, closing)

    return read


def bare(source: Source, at: int) -> Found | None:
    """Function or invoke markup that no block announced: only what names tools of this turn."""
    return _several(source, at, known_only=True)


def _several(source: Source, at: int, *, known_only: bool) -> Found | None:
    calls: list[ToolCall] = []
    end = at
    while opened := FUNCTION.match(source.low, at) or INVOKE.match(source.low, at):
        name = source.text[slice(*opened.span("name"))].strip()
        if known_only and not source.knows(name):
            break
        found = _one(source, opened, name)
        calls += found.calls
        end = found.end
        at = source.skip(end)
    return Found(tuple(calls), end) if calls else None


def _one(source: Source, opened: re.Match[str], name: str) -> Found:
    dialect = QWEN if opened.re is FUNCTION else _invoke_dialect(opened["prefix"] or "")
    at = source.skip(opened.end())
    if source.char(at) == "{":
        found = with_arguments(source, name, at, until=dialect.close_call)
        return Found(found.calls, _over(source, found.end, dialect.close_call))
    values: dict[str, Any] = {}
    complete = True
    while parameter := dialect.parameter.match(source.low, at):
        key = source.text[slice(*parameter.span("name"))].strip()
        stop, at = _value_end(source, parameter.end(), dialect)
        _put(values, key, _unframed(source.text[parameter.end() : stop], dialect.framed))
        complete = stop < len(source.text)
        at = source.skip(at)
    end = _over(source, at, dialect.close_call)
    # Markup that stops without any closing tag was cut: there may have been more parameters.
    complete = complete and (end > at or at < len(source.text))
    return Found((ToolCall("", name, values, complete=complete, textual=True),), end)


def _value_end(source: Source, at: int, dialect: Dialect) -> tuple[int, int]:
    """Where a value ends and where the text goes on, also when its closing tag was forgotten or is quoted in it."""
    close = _closing(source, at, dialect)
    sibling = source.find("\n" + dialect.open, at)
    if sibling < close:
        return sibling, sibling
    end = source.find(dialect.close_call, at)
    if end < close and (close == len(source.text) or source.find(dialect.open_call, end) < close):
        return end, end
    return close, close + len(dialect.close)


def _closing(source: Source, at: int, dialect: Dialect) -> int:
    """The closing tag after which the markup goes on; one that is followed by other text is part of the value."""
    first = close = source.find(dialect.close, at)
    for _ in range(MOST_CLOSERS):
        if close == len(source.text) or _goes_on(source, close + len(dialect.close)):
            return close
        close = source.find(dialect.close, close + 1)
    return first


def _goes_on(source: Source, at: int) -> bool:
    return source.char(source.skip(at)) in ("", "<")


def _glm(source: Source, at: int, closing: str) -> Found | None:
    """A name, then <arg_key>k</arg_key><arg_value>v</arg_value> as often as needed; stray tags in between are seen."""
    named = GLM_NAME.match(source.text, at)
    if named is None:
        return None
    at = source.skip(named.end())
    values: dict[str, Any] = {}
    while key := GLM_KEY.match(source.low, at):
        stop = _glm_value_end(source, key.end(), closing)
        _put(values, source.text[slice(*key.span("key"))].strip(), source.text[key.end() : stop])
        at = source.skip(_over(source, stop, "</arg_value>"))
    at = source.skip(_over(source, at, "</arg_value>"))
    end = _over(source, at, closing)
    if end > at or (source.starts("<", at) and not source.starts("<arg_", at)):
        return Found((ToolCall("", named.group(), values, textual=True),), end)
    if at < len(source.text) and not source.starts("<arg_", at):
        return None
    end = min(source.find(closing, at) + len(closing), len(source.text))
    return Found((ToolCall("", named.group(), values, complete=False, textual=True),), end)


def _glm_value_end(source: Source, at: int, closing: str) -> int:
    """The closing tag after which another key or the end comes; one in the middle of a text is part of the value."""
    limit = source.find(closing, at)
    close = first = source.first(("</arg_value>", "<arg_key>"), at)
    for _ in range(MOST_CLOSERS):
        if close >= limit or source.starts("<arg_key>", close) or _goes_on(source, close + len("</arg_value>")):
            return min(close, limit)
        close = source.first(("</arg_value>", "<arg_key>"), close + 1)
    return min(first, limit)


def _over(source: Source, at: int, piece: str) -> int:
    """The place after `piece`, which may be missing."""
    begin = source.skip(at)
    return begin + len(piece) if source.starts(piece, begin) else at


def _put(values: dict[str, Any], key: str, value: str) -> None:
    """A key that comes again makes a list: none of its values is lost."""
    if key not in values:
        values[key] = value
    elif isinstance(values[key], list):
        values[key].append(value)
    else:
        values[key] = [values[key], value]


def _unframed(value: str, framed: str) -> str:
    if framed == "each":
        return value.removeprefix("\n").removesuffix("\n")
    if len(value) > 1 and value[0] == value[-1] == "\n":
        return value[1:-1]
    return value
