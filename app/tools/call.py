"""Running one tool: on a helper thread, watched from here, so that a tool that hangs or fails harms nobody else."""

from __future__ import annotations

import inspect
import itertools
import json
import logging
import queue
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

from app.infra import clock, db
from app.infra.errors import ParleyError
from app.tools.base import Tool, ToolContext, ToolResult

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
RESULT_CHARS = 16_000
# So many calls of one tool may hang before it is not tried any more: each of them keeps a thread.
MOST_ABANDONED = 8
ABANDONED = "abandoned tool "
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
SAMPLE_CHARS = 2000
BINARY_SHARE = 0.05

Step = ToolResult | None


def run(
    tool: Tool,
    context: ToolContext,
    arguments: Mapping[str, Any],
    *,
    deadline: float,
    cancelled: Callable[[], bool] = lambda: False,
    most_chars: int = RESULT_CHARS,
) -> Iterator[Step]:
    """Yields None at least every 200 ms while the tool works, and its ToolResult last. Raises nothing of the tool's.

    `deadline` is on the monotonic clock; the tool's own timeout may come before it. Closing this generator, or
    `cancelled`, leaves the tool to itself at once. The result has at most `most_chars` characters and a mark.
    """
    until = min(deadline, clock.monotonic() + tool.timeout)
    if tool.run is None:
        yield failed("not_available", "This tool is not run here.")
    elif inspect.isgeneratorfunction(tool.run):
        yield from _stepped(tool, context, arguments, until=until, cancelled=cancelled, most_chars=most_chars)
    else:
        yield from _watched(tool, context, arguments, until=until, cancelled=cancelled, most_chars=most_chars)


def failed(code: str, message: str, *, detail: str = "") -> ToolResult:
    """A result that tells the model what went wrong; `detail` is for the trace and never reaches the model."""
    return ToolResult(error_text(code, message), is_error=True, detail=detail)


def error_text(code: str, message: str) -> str:
    """How every error is told to the model."""
    return json.dumps({"ok": False, "error": {"code": code, "message": message}}, ensure_ascii=False)


def _watched(
    tool: Tool,
    context: ToolContext,
    arguments: Mapping[str, Any],
    *,
    until: float,
    cancelled: Callable[[], bool],
    most_chars: int,
) -> Iterator[Step]:
    """The tool on a thread of its own."""
    if _abandoned(tool) >= MOST_ABANDONED:
        yield failed("not_responding", f"The tool {tool.name} does not answer at the moment. Go on without it.")
        return
    results: queue.SimpleQueue[ToolResult] = queue.SimpleQueue()
    elsewhere = db.elsewhere()

    def work() -> None:
        with elsewhere():
            results.put(_outcome(tool, context, arguments, most_chars=most_chars))

    thread = threading.Thread(target=work, name=f"tool {tool.name}", daemon=True)
    thread.start()
    try:
        while True:
            try:
                yield results.get(timeout=TICK_SECONDS)
                return
            except queue.Empty:
                pass
            if over := _over(tool, until=until, cancelled=cancelled):
                yield over
                return
            yield None
    finally:
        if thread.is_alive():
            thread.name = ABANDONED + tool.name


def _stepped(
    tool: Tool,
    context: ToolContext,
    arguments: Mapping[str, Any],
    *,
    until: float,
    cancelled: Callable[[], bool],
    most_chars: int,
) -> Iterator[Step]:
    """A tool that is a generator gives control back by itself; closing it closes what it waits for."""
    steps = cast("Generator[None, None, ToolResult | str]", tool.run(context, arguments) if tool.run else None)
    with closing(steps):
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                yield _shaped(stop.value, most_chars=most_chars)
                return
            except Exception as error:
                yield _failure(tool, error)
                return
            if over := _over(tool, until=until, cancelled=cancelled):
                yield over
                return
            yield None


def _over(tool: Tool, *, until: float, cancelled: Callable[[], bool]) -> ToolResult | None:
    if cancelled():
        return failed("cancelled", "The call was stopped.")
    if clock.monotonic() < until:
        return None
    message = f"The tool {tool.name} took too long and was left. Try something smaller, or go on without it."
    return failed("timeout", message, detail=f"{tool.name} of {tool.source} did not end in time")


def _outcome(tool: Tool, context: ToolContext, arguments: Mapping[str, Any], *, most_chars: int) -> ToolResult:
    try:
        return _shaped(tool.run(context, arguments) if tool.run else None, most_chars=most_chars)
    except Exception as error:
        return _failure(tool, error)


def _failure(tool: Tool, error: Exception) -> ToolResult:
    """What a tool raised: its own sentence where it has one, and nothing of the inside otherwise."""
    if isinstance(error, ParleyError):
        return failed(error.code, str(error.sentence), detail=error.detail)
    log.warning("the tool %s of %s failed", tool.name, tool.source, exc_info=error)
    message = f"The tool {tool.name} failed; what happened was recorded. Try it in another way, or go on without it."
    return failed("tool_failed", message, detail=f"{type(error).__name__}: {error}"[:SAMPLE_CHARS])


def _shaped(value: Any, *, most_chars: int) -> ToolResult:
    """A tool's answer as the model gets it: text, no bytes, no longer than it may be."""
    if isinstance(value, ToolResult):
        text = _text(value.text, most_chars)
        return replace(value, text=error_text("tool_error", text) if value.is_error else text)
    return ToolResult(_text(value, most_chars))


def _text(value: Any, most_chars: int) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes of binary data are left out]"
    if value is None or value == "":
        return "[the tool returned nothing]"
    if not isinstance(value, str):
        value = _json(value, most_chars)
    if _is_binary(value[:SAMPLE_CHARS]):
        return f"[{len(value)} characters of binary data are left out]"
    if len(value) <= most_chars:
        return CONTROL.sub("", value)
    mark = f"\n[cut here: these are the first {most_chars} of {len(value)} characters; ask for less at a time]"
    return CONTROL.sub("", value[:most_chars]) + mark


def _json(value: Any, most_chars: int) -> str:
    """A value as JSON, made only as far as it can be shown."""
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > most_chars:
            break
    return "".join(pieces)


def _is_binary(sample: str) -> bool:
    odd = sum(1 for _ in itertools.chain(CONTROL.finditer(sample), re.finditer("\ufffd", sample)))
    return "\x00" in sample or odd > len(sample) * BINARY_SHARE


def _abandoned(tool: Tool) -> int:
    return sum(thread.name == ABANDONED + tool.name for thread in threading.enumerate())
