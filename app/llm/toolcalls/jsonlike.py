"""Calls as JSON: objects and lists of them, or a name followed by a JSON object."""

from __future__ import annotations

import re
from typing import Any

from app.llm.base import ToolCall
from app.llm.toolcalls import lossless
from app.llm.toolcalls.lossless import Unreadable
from app.llm.toolcalls.source import Found, Reader, Source

NAME_KEYS = ("name", "tool_name", "tool", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")
ID_KEYS = ("id", "tool_call_id", "call_id")
KNOWN_KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, *ID_KEYS, "type", "index"))
WRAPPERS = ("tool_calls", "tool_call", "function_call")
BETWEEN = re.compile(r"[\s;,]*")
SURPLUS = re.compile(r"[\s\]}]*")
FENCE_END = re.compile(r"\s*```")
NAME = re.compile(r"[\w.:/-]{1,128}")
NOTATION_BETWEEN = re.compile(r"(?:\[call_id\][\w-]{0,64})?(?:\[args\])?\s*(?:```(?:json)?\s*)?")
BROKEN_CALL = re.compile(
    r"""[\[{\s]*["'](?:name|tool_name|tool)["']\s*:\s*["'](?P<name>[^"'\n]{1,128})["']\s*"""
    r"""(?:,\s*["'](?:arguments|parameters|args)["']\s*:\s*(?P<arguments>))?"""
)


def calls_of(value: Any, source: Source, *, strict: bool) -> tuple[ToolCall, ...] | None:
    """The calls that a JSON value means. `strict`: nothing but calls, each of a known tool; one odd entry voids all."""
    if isinstance(value, dict) and len(value) == 1 and (key := next(iter(value))) in WRAPPERS:
        value = value[key]
    entries = value if isinstance(value, list) else [value]
    calls = [call for entry in entries if (call := _call_of(entry, source, strict=strict))]
    return tuple(calls) if entries and len(calls) == len(entries) else None


def _call_of(entry: Any, source: Source, *, strict: bool) -> ToolCall | None:
    if not isinstance(entry, dict):
        return None
    inner = entry.get("function")
    body = inner if isinstance(inner, dict) else entry
    names = [body[key] for key in NAME_KEYS if key in body]
    arguments = [body[key] for key in ARGUMENT_KEYS if key in body]
    if len(names) != 1 or not isinstance(names[0], str) or not names[0].strip() or len(arguments) > 1:
        return None
    if strict and not (KNOWN_KEYS.issuperset(entry) and KNOWN_KEYS.issuperset(body) and source.knows(names[0])):
        return None
    if strict and not (arguments and _is_object(arguments[0])):
        return None
    ids = [entry[key] for key in ID_KEYS if isinstance(entry.get(key), str)]
    return ToolCall(ids[0] if ids else "", names[0], _text_of(arguments[0] if arguments else {}))


def _is_object(given: Any) -> bool:
    return isinstance(given, dict) or (isinstance(given, str) and given.lstrip().startswith("{"))


def _text_of(given: Any) -> str:
    if given is None:
        return ""
    return given if isinstance(given, str) else lossless.write(given)


def json_calls(source: Source, at: int, *, until: str = "") -> Found | None:
    """One or several JSON values that are calls; where one is broken, its name and what there is of its arguments."""
    calls: list[ToolCall] = []
    at = end = source.skip(at)
    while source.char(at) == "{" or (source.char(at) == "[" and not calls):
        try:
            value, stop = lossless.decode(source.text, at)
        except Unreadable as error:
            broken = _broken(source, at, error, until=until)
            return Found((*calls, *broken.calls), broken.end) if broken else None
        read = calls_of(value, source, strict=False)
        if read is None:
            break
        calls += read
        end = _after_surplus(source, stop)
        at = source.skip(stop, BETWEEN)
    return Found(tuple(calls), end) if calls else None


def _after_surplus(source: Source, at: int) -> int:
    """Some builds close more brackets than they opened: those go with the call when markup or nothing follows."""
    after = source.skip(at, SURPLUS)
    return after if source.char(after) in ("", "<", "[") else at


def _broken(source: Source, at: int, error: Unreadable, *, until: str) -> Found | None:
    """A call whose JSON can't be read: the model must be told, and the room must not see it."""
    end = source.find(until, at) if until else len(source.text)
    ended = error.reason == "ended"
    found = BROKEN_CALL.match(source.text, at, end)
    if found is None:
        return Found((ToolCall("", "", source.text[at:end], complete=False),), end) if ended else None
    return Found((ToolCall("", found["name"], source.text[found.end() : end], complete=not ended),), end)


def named_json(source: Source, at: int, *, until: str = "") -> Found | None:
    """A name and its JSON object; what stands between (Mistral's [ARGS], a line end, a fence) is notation."""
    named = NAME.match(source.text, source.skip(at))
    if named is None:
        return None
    between = NOTATION_BETWEEN.match(source.low, named.end())
    begin = between.end() if between else named.end()
    if source.char(begin) != "{":
        return None
    return with_arguments(source, named.group(), begin, until=until)


def with_arguments(source: Source, name: str, at: int, *, until: str = "", id: str = "") -> Found:
    """The call of `name` with the JSON object at `at`; where that is broken, what stands up to `until` goes with it."""
    try:
        value, end = lossless.decode(source.text, at)
    except Unreadable as error:
        end = source.find(until, at) if until else len(source.text)
        return Found((ToolCall(id, name, source.text[at:end], complete=error.reason != "ended"),), end)
    fence = FENCE_END.match(source.text, end)
    return Found((ToolCall(id, name, _text_of(value)),), fence.end() if fence else _after_surplus(source, end))


def after(marker: str, until: str = "") -> Reader:
    """A reader of the JSON calls that follow `marker`."""

    def read(source: Source, at: int) -> Found | None:
        return json_calls(source, at + len(marker), until=until)

    return read


def mistral(source: Source, at: int) -> Found | None:
    """[TOOL_CALLS] with a JSON list, or with name[ARGS]{...}."""
    begin = source.skip(at + len("[tool_calls]"))
    if source.char(begin) in ("{", "["):
        return json_calls(source, begin, until="[tool_calls]")
    return named_json(source, begin, until="[tool_calls]")


def token_call(source: Source, at: int) -> Found | None:
    """DeepSeek: function<sep>name and fenced JSON, or name<sep>JSON. Kimi: functions.name:0<argument_begin>JSON."""
    at += len("<|tool_call_begin|>")
    close = source.first(("<|tool_call_end|>", "<|tool_call_begin|>"), at)
    middle = source.first(("<|tool_call_argument_begin|>", "<|tool_sep|>"), at)
    if middle >= close:
        return named_json(source, at, until="<|tool_call_end|>")
    head = source.text[at:middle].strip()
    begin = source.skip(source.find("|>", middle + 2) + 2)
    until = "<|tool_call_end|>" if source.starts("<|tool_call_end|>", close) else "<|tool_call_begin|>"
    if source.char(begin) == "{":
        return with_arguments(source, head, begin, until=until, id=head if ":" in head else "")
    return named_json(source, begin, until=until)


def functionary(source: Source, at: int) -> Found | None:
    """>>>name, a line end, JSON."""
    line = source.find("\n", at)
    begin = source.skip(line)
    if source.char(begin) != "{":
        return None
    return with_arguments(source, source.text[at + 3 : line].strip(), begin, until=">>>")
