from __future__ import annotations

import json
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, current_app

from app.infra import clock, db
from app.infra.errors import Unavailable
from app.infra.i18n import say
from app.tools import call
from app.tools.base import Tool, ToolContext, ToolError, ToolResult

CONTEXT = ToolContext("example", "room1", "users/ada")


def made(run: Any, **extra: Any) -> Tool:
    return Tool("ping", "Pings.", {"type": "object"}, run, **extra)


def result(run: Any, *, seconds: float = 10.0, most_chars: int = 16_000, **extra: Any) -> ToolResult:
    return outcome(
        call.run(made(run, **extra), CONTEXT, {}, deadline=clock.monotonic() + seconds, most_chars=most_chars)
    )


def outcome(steps: Iterator[ToolResult | None]) -> ToolResult:
    *waited, last = steps
    assert not any(waited)
    assert last is not None
    return last


def error(found: ToolResult) -> dict[str, str]:
    assert found.is_error
    told = json.loads(found.text)
    assert told["ok"] is False
    assert isinstance(told["error"], dict)
    return told["error"]


def test_a_text_or_a_result_is_what_the_model_is_told() -> None:
    assert result(lambda *_: "pong") == ToolResult("pong")
    assert result(lambda *_: ToolResult("pong", sources=(("c", "n"),))) == ToolResult("pong", sources=(("c", "n"),))


def test_a_tool_gets_its_context_and_its_arguments() -> None:
    tool = made(lambda context, arguments: f"{context.person} {arguments['to']}")
    steps = call.run(tool, CONTEXT, {"to": "bob"}, deadline=clock.monotonic() + 5)
    assert outcome(steps).text == "users/ada bob"


def test_the_sentence_of_a_tool_is_told_and_its_detail_is_not() -> None:
    def run(*_: Any) -> str:
        raise ToolError(say("Give me a {thing}.", thing="date"), detail="internal")

    found = result(run)
    assert error(found) == {"code": "tool_error", "message": "Give me a date."}
    assert found.detail == "internal"


def test_an_error_of_the_house_is_told_by_its_sentence() -> None:
    def run(*_: Any) -> str:
        raise Unavailable(say("The database does not answer."))

    assert error(result(run)) == {"code": "unavailable", "message": "The database does not answer."}


def test_an_exception_tells_the_model_nothing_of_the_inside() -> None:
    def run(*_: Any) -> str:
        raise KeyError("/srv/secret/path token=abc")

    found = result(run)
    assert error(found)["code"] == "tool_failed"
    assert "secret" not in found.text
    assert "token=abc" in found.detail


def test_a_result_that_is_an_error_is_told_as_one() -> None:
    assert error(result(lambda *_: ToolResult("No such page.", is_error=True)))["message"] == "No such page."


def test_a_tool_without_anything_to_run_says_so() -> None:
    assert error(result(None))["code"] == "not_available"


def test_while_a_tool_works_there_is_a_tick_at_least_every_200_ms() -> None:
    release = threading.Event()
    steps = call.run(made(lambda *_: release.wait(5)), CONTEXT, {}, deadline=clock.monotonic() + 5)
    gaps = []
    for _ in range(4):
        begun = time.monotonic()
        assert next(steps) is None
        gaps.append(time.monotonic() - begun)
    release.set()
    assert max(gaps) < 0.2 + 0.15  # the machine is shared


def test_a_tool_that_hangs_is_left_when_its_time_is_up() -> None:
    release = threading.Event()
    begun = time.monotonic()
    found = result(lambda *_: release.wait(30), timeout=0.3)
    assert time.monotonic() - begun < 1
    assert error(found)["code"] == "timeout"
    release.set()


def test_the_deadline_of_the_turn_comes_before_the_tools_own() -> None:
    release = threading.Event()
    begun = time.monotonic()
    assert error(result(lambda *_: release.wait(30), seconds=0.3, timeout=60))["code"] == "timeout"
    assert time.monotonic() - begun < 1
    release.set()


def test_cancelling_leaves_a_tool_that_hangs_within_half_a_second() -> None:
    release = threading.Event()
    flag = threading.Event()
    steps = call.run(
        made(lambda *_: release.wait(30)), CONTEXT, {}, deadline=clock.monotonic() + 30, cancelled=flag.is_set
    )
    assert next(steps) is None
    flag.set()
    begun = time.monotonic()
    assert error(outcome(steps))["code"] == "cancelled"
    assert time.monotonic() - begun < 0.5
    release.set()


def test_a_tool_that_hangs_again_and_again_is_not_tried_any_more() -> None:
    release = threading.Event()
    codes = [error(result(lambda *_: release.wait(30), timeout=0.01))["code"] for _ in range(10)]
    assert codes == ["timeout"] * 8 + ["not_responding"] * 2
    release.set()
    for _ in range(100):
        if not any(thread.name.startswith(call.ABANDONED) for thread in threading.enumerate()):
            break
        time.sleep(0.02)
    assert result(lambda *_: "pong").text == "pong"


def test_a_generator_waits_by_itself_and_is_closed_with_the_call() -> None:
    closed = []

    def run(*_: Any) -> Iterator[None]:
        try:
            while True:
                yield None
        finally:
            closed.append(True)

    steps = call.run(made(run), CONTEXT, {}, deadline=clock.monotonic() + 5)
    assert next(steps) is None
    steps.close()  # type: ignore[attr-defined]
    assert closed == [True]


def test_what_a_generator_returns_is_the_result() -> None:
    def run(*_: Any) -> Any:
        yield None
        return "pong"

    def fails(*_: Any) -> Any:
        yield None
        raise ToolError(say("No."))

    assert result(run).text == "pong"
    assert error(result(fails))["message"] == "No."


def test_a_generator_that_waits_too_long_is_closed() -> None:
    def run(*_: Any) -> Any:
        while True:
            time.sleep(0.01)
            yield None

    assert error(result(run, timeout=0.1))["code"] == "timeout"


def test_fifty_megabytes_are_cut_without_being_copied() -> None:
    text = "x" * 50_000_000
    tracemalloc.start()
    found = result(lambda *_: text, most_chars=1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.text.startswith("x" * 1000 + "\n[cut here: these are the first 1000 of 50000000 characters")
    assert len(found.text) < 1200
    assert peak < 2_000_000


def test_fifty_megabytes_of_json_are_made_only_as_far_as_they_are_shown() -> None:
    found = result(lambda *_: {"rows": [{"a": "ü"}] * 2_000_000}, most_chars=1000)
    assert found.text.startswith('{"rows": [{"a": "ü"}')
    assert len(found.text) < 1200


def test_a_cut_keeps_a_character_whole() -> None:
    found = result(lambda *_: "😀" * 20, most_chars=10)
    assert found.text.startswith("😀" * 10 + "\n[cut")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"\x89PNG\r\n", "[6 bytes of binary data are left out]"),
        ("\x00\x01PNG" * 100, "[500 characters of binary data are left out]"),
        ("\ufffd" * 50, "[50 characters of binary data are left out]"),
        ("a\x07b\tc\n" + "x" * 100, "ab\tc\n" + "x" * 100),
        ("half \ud800 pair " + "x" * 100, "half  pair " + "x" * 100),
        ("", "[the tool returned nothing]"),
        (None, "[the tool returned nothing]"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (42, "42"),
    ],
)
def test_binary_data_never_reaches_the_model(value: Any, told: str) -> None:
    assert result(lambda *_: value).text == told


def test_a_value_that_is_no_json_is_a_failure_of_the_tool() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert error(result(lambda *_: ring))["code"] == "tool_failed"


def test_a_tool_has_a_database_session_of_its_own(app: Flask) -> None:
    with db.reading():
        found = result(lambda *_: f"{current_app.name} {db.in_transaction()}")
    assert found.text == "app False"


def test_a_tool_of_a_plugin_that_ends_its_thread_harms_nobody() -> None:
    def run(*_: Any) -> str:
        raise SystemExit

    found = result(run, timeout=0.5)
    assert error(found)["code"] in ("timeout", "tool_failed")
