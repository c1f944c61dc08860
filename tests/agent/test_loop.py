from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.events import AgentEvent, Finished, ModelAsked, ToolFinished, ToolRejected, ToolStarted
from app.agent.loop import run
from app.agent.turn import Limits, Turn
from app.infra import clock
from app.infra.i18n import say
from app.llm.base import (
    ChatRequest,
    Completion,
    ErrorClass,
    Message,
    ModelError,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    Tick,
    ToolCall,
)
from app.tools.base import Tool, ToolContext, ToolError, ToolResult
from tests.fakes.scripted import Answer, ScriptedModel, tool

CONTEXT = ToolContext("example", "room1", "users/ada")
ASKED = (Message("system", "You are kind."), Message("user", "When does the gate open?"))
OBJECT = {"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": False}


class Toolbox:
    """Tools that note what they are called with."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Any]] = []

    def make(self, name: str, result: Any = "ok", *, parameters: Any = OBJECT, **extra: Any) -> Tool:
        def work(_: ToolContext, arguments: Any) -> Any:
            self.ran.append((name, dict(arguments)))
            if isinstance(result, Exception):
                raise result
            return result() if callable(result) else result

        return Tool(name, f"Does {name}.", parameters, work, **extra)


@pytest.fixture
def box() -> Toolbox:
    return Toolbox()


def turn(model: Any, *tools: Tool, **extra: Any) -> Turn:
    return Turn(model, "case-model", ASKED, tools, CONTEXT, **extra)


def until_told(*calls: ToolCall) -> Answer:
    """Calls tools as long as there are any."""
    wants = Completion("", calls=calls, finish_reason="tool_calls")
    return lambda request: [wants if request.tools else Completion("What I found.", finish_reason="stop")]


def finish(events: Iterator[AgentEvent]) -> Finished:
    *_, last = events
    assert isinstance(last, Finished)
    return last


def told(request: ChatRequest) -> list[Any]:
    """What the model is told of its calls, errors as their (code, message)."""
    return [json.loads(m.content)["error"]["code"] if m.content.startswith("{") else m.content for m in request.messages if m.role == "tool" and isinstance(m.content, str)]  # fmt: skip


def assert_sound(messages: tuple[Message, ...]) -> None:
    """Every tool message pairs with exactly one call before it, ids are unique, arguments decode in one step."""
    open_ids: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message.role == "tool":
            open_ids.remove(message.tool_call_id)
            continue
        assert not open_ids, "a call without a result"
        for call in message.tool_calls:
            assert call.id
            assert call.id not in seen
            seen.add(call.id)
            assert isinstance(call.arguments, str)
            assert isinstance(json.loads(call.arguments), dict)
        open_ids = [call.id for call in message.tool_calls]
    assert not open_ids


def test_an_answer_without_calls_ends_the_turn() -> None:
    model = ScriptedModel("It opens at nine.")
    events = list(run(turn(model)))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["It ", "opens ", "at ", "nine."]
    end = finish(iter(events))
    assert (end.text, end.ended, end.incomplete, end.notice) == ("It opens at nine.", "answered", False, None)
    assert (end.usage.total_tokens, end.model_calls, end.tool_calls) == (15, 1, 0)


def test_tools_are_run_in_order_and_the_model_is_told_what_they_gave(box: Toolbox) -> None:
    model = ScriptedModel([tool("a", {"q": "1"}), tool("b"), tool("a", {"q": "2"})], "Done.")
    events = list(run(turn(model, box.make("a", "from a"), box.make("b", ToolResult("from b", sources=(("c", "n"),))))))
    assert box.ran == [("a", {"q": "1"}), ("b", {}), ("a", {"q": "2"})]
    assert told(model.requests[1]) == ["from a", "from b", "from a"]
    kinds = [type(event) for event in events if not isinstance(event, Tick | TextDelta)]
    assert kinds[2:8] == [ToolStarted, ToolFinished] * 3
    assert [event.sources for event in events if isinstance(event, ToolFinished)][1] == (("c", "n"),)
    assert finish(iter(events)).tool_calls == 3
    assert_sound(model.requests[1].messages)


def test_the_preferred_tool_is_asked_for_in_the_first_step_only(box: Toolbox) -> None:
    model = ScriptedModel([tool("a")], "Done.")
    list(run(turn(model, box.make("a"), first_tool="a")))
    assert [request.tool_choice for request in model.requests] == ["a", None]
    other = ScriptedModel("Done.")
    list(run(turn(other, box.make("a"), first_tool="gone")))
    assert other.requests[0].tool_choice is None


def test_what_can_not_be_run_is_told_to_the_model_as_an_error(box: Toolbox) -> None:
    schema = {**OBJECT, "required": ["q"]}
    calls = [
        tool("gone", {}),
        tool("need", ""),
        tool("need", '{"q": "half'),
        tool("need", {"q": "x", "z": 1}),
        ToolCall("", "need", '{"q": "x"}', complete=False),
        tool("raises"),
        tool("says"),
        tool("need", {"q": "x"}),
    ]
    says = ToolError(say("Give me a {thing}.", thing="date"))
    raises = RuntimeError("password=hunter2")
    model = ScriptedModel(calls, "Done.")
    tools = (box.make("need", parameters=schema), box.make("raises", raises), box.make("says", says))
    events = list(run(turn(model, *tools)))
    rejected = [(event.name, event.reason) for event in events if isinstance(event, ToolRejected)]
    assert rejected == [
        ("gone", "unknown_tool"),
        ("need", "bad_arguments"),
        ("need", "truncated"),
        ("need", "bad_arguments"),
        ("need", "truncated"),
    ]
    assert told(model.requests[1]) == [
        "unknown_tool", "bad_arguments", "truncated", "bad_arguments", "truncated", "tool_failed", "tool_error", "ok",
    ]  # fmt: skip
    everything = json.dumps([str(message.content) for message in model.requests[1].messages])
    assert "hunter2" not in everything
    assert "Give me a date." in everything
    assert "The tools are: need, raises, says." in everything
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert "hunter2" in finished[0].detail
    assert "hunter2" not in finished[0].text
    assert_sound(model.requests[1].messages)


@pytest.mark.parametrize("written", ["functions.ping", "PING", "ping:0", "tools/ping", "ping<|channel|>commentary"])
def test_a_name_that_fits_one_tool_only_is_that_tool(box: Toolbox, written: str) -> None:
    model = ScriptedModel([tool(written)], "Done.")
    list(run(turn(model, box.make("ping"), box.make("pong"))))
    assert box.ran == [("ping", {})]
    assert model.requests[1].messages[-2].tool_calls[0].name == "ping"


def test_a_name_that_fits_two_tools_is_no_tool(box: Toolbox) -> None:
    model = ScriptedModel([tool("PING")], "Done.")
    list(run(turn(model, box.make("ping"), box.make("Ping"))))
    assert box.ran == []
    assert told(model.requests[1]) == ["unknown_tool"]


def test_ids_are_unique_over_the_turn_and_good_ones_are_kept(box: Toolbox) -> None:
    calls = [tool("a", {"q": str(n)}, id=id) for n, id in enumerate(["functions.a:0", "", "functions.a:0", "x"])]
    model = ScriptedModel(calls, [tool("a", {"q": "9"}, id="x")], "Done.")
    list(run(turn(model, box.make("a"))))
    ids = [call.id for message in model.requests[2].messages for call in message.tool_calls]
    assert ids[0] == "functions.a:0"
    assert ids[3] == "x"
    assert len(set(ids)) == len(ids) == 5
    assert_sound(model.requests[2].messages)


def test_an_unknown_name_goes_back_in_a_form_that_servers_accept(box: Toolbox) -> None:
    model = ScriptedModel([tool("rm -rf /; ünï" + "x" * 200)], "Done.")
    list(run(turn(model, box.make("a"))))
    name = model.requests[1].messages[-2].tool_calls[0].name
    assert name.isascii()
    assert len(name) == 64


def test_an_empty_answer_is_one_honest_notice() -> None:
    end = finish(run(turn(ScriptedModel(" \n"))))
    assert (end.text, end.ended, str(end.notice)) == ("", "empty", "The model gave no answer. Please ask again, perhaps in other words.")  # fmt: skip


def test_reasoning_alone_is_no_answer() -> None:
    model = ScriptedModel(lambda _: [ReasoningDelta("Hm."), Completion("", reasoning="Hm.", finish_reason="stop")])
    assert finish(run(turn(model))).ended == "empty"


def test_an_answer_that_the_output_limit_ended_is_delivered_and_marked() -> None:
    end = finish(run(turn(ScriptedModel(Completion("The gate opens", finish_reason="length", complete=False)))))
    assert (end.text, end.ended, end.incomplete) == ("The gate opens", "length", True)
    assert end.notice is not None
    end = finish(run(turn(ScriptedModel(Completion("", finish_reason="length", complete=False)))))
    assert (end.text, end.ended, end.incomplete) == ("", "empty", True)
    assert "ask for less" in str(end.notice)


def test_an_answer_that_was_cut_off_is_delivered_and_marked() -> None:
    end = finish(run(turn(ScriptedModel(Completion("The gate opens", complete=False)))))
    assert (end.text, end.ended, end.incomplete) == ("The gate opens", "cut", True)


def test_calls_of_an_answer_that_was_cut_are_refused_and_the_model_may_try_once_more(box: Toolbox) -> None:
    cut = Completion("I will write.", calls=(tool("a", {"q": "1"}), tool("a", {"q": "2"})), complete=False, finish_reason="length")  # fmt: skip
    model = ScriptedModel(cut, "Done.")
    assert finish(run(turn(model, box.make("a")))).text == "Done."
    assert told(model.requests[1]) == ["truncated", "truncated"]
    model = ScriptedModel(cut, cut, "never asked")
    end = finish(run(turn(model, box.make("a"))))
    assert (end.text, end.ended, end.incomplete, len(model.requests)) == ("I will write.", "length", True, 2)
    assert box.ran == []


@pytest.mark.parametrize(
    "cycle", [["a"], ["a", "b"], ["a", "b", "c"], ["a", "a", "b", "b"]], ids=lambda cycle: "".join(cycle)
)
def test_going_round_in_circles_is_stopped_before_it_is_run_again(box: Toolbox, cycle: list[str]) -> None:
    model = ScriptedModel(*(until_told(tool(name, {"q": "x"})) for _ in range(9) for name in cycle))
    limits = Limits(model_calls=50, tool_calls=50)
    end = finish(run(turn(model, box.make("a"), box.make("b"), box.make("c"), limits=limits)))
    assert [name for name, _ in box.ran] == cycle * 3
    last = model.requests[-1]
    assert last.tools == ()
    assert "repeated" in str(last.messages[-1].content)
    assert told(last)[-1] == "repetition"
    assert (end.ended, end.incomplete) == ("repetition", True)
    assert_sound(last.messages)


def test_long_arguments_that_differ_at_their_end_are_no_repetition(box: Toolbox) -> None:
    answers: list[Answer] = [[tool("a", {"q": "x" * 5000 + str(number)})] for number in range(8)]
    end = finish(run(turn(ScriptedModel(*answers, "Done."), box.make("a"))))
    assert end.ended == "answered"
    assert len(box.ran) == 8


def test_a_call_that_is_refused_again_and_again_is_a_repetition_too(box: Toolbox) -> None:
    model = ScriptedModel(*[until_told(tool("gone"))] * 20)
    end = finish(run(turn(model, box.make("a"))))
    assert (end.ended, len(model.requests)) == ("repetition", 5)


def test_the_same_call_three_times_in_one_answer_is_run_three_times(box: Toolbox) -> None:
    finish(run(turn(ScriptedModel([tool("a")] * 3, "Done."), box.make("a"))))
    assert len(box.ran) == 3


def test_the_last_model_call_that_is_allowed_is_made_without_tools(box: Toolbox) -> None:
    answers: list[Answer] = [[tool("a", {"q": str(number)})] for number in range(3)]
    model = ScriptedModel(*answers, "What I found.")
    end = finish(run(turn(model, box.make("a"), limits=Limits(model_calls=4))))
    assert [bool(request.tools) for request in model.requests] == [True, True, True, False]
    assert "Answer the newest question from what was found" in str(model.requests[-1].messages[-1].content)
    assert (end.text, end.ended, end.incomplete) == ("What I found.", "model_calls", True)
    assert end.model_calls == 4


def test_no_limit_of_a_caller_goes_beyond_fifty_model_calls(box: Toolbox) -> None:
    model = ScriptedModel(*(until_told(tool("a", {"q": str(number)})) for number in range(200)))
    end = finish(run(turn(model, box.make("a"), limits=Limits(model_calls=1000, tool_calls=1000))))
    assert len(model.requests) == 50
    assert end.ended == "model_calls"


def test_tool_calls_beyond_the_limit_are_refused_and_the_answer_is_made(box: Toolbox) -> None:
    calls = [tool("a", {"q": str(number)}) for number in range(6)]
    model = ScriptedModel(calls, "What I found.")
    end = finish(run(turn(model, box.make("a"), limits=Limits(tool_calls=4))))
    assert len(box.ran) == 4
    assert told(model.requests[1]) == ["ok"] * 4 + ["limit"] * 2
    assert model.requests[1].tools == ()
    assert (end.text, end.ended, end.incomplete) == ("What I found.", "tool_calls", True)
    assert_sound(model.requests[1].messages)


def test_using_exactly_the_allowed_tool_calls_is_no_reason_to_mark_the_answer(box: Toolbox) -> None:
    model = ScriptedModel([tool("a", {"q": str(number)}) for number in range(4)], "Done.")
    assert finish(run(turn(model, box.make("a"), limits=Limits(tool_calls=4)))).ended == "answered"


def test_a_thousand_calls_at_once_are_cut_down(box: Toolbox) -> None:
    model = ScriptedModel([tool("a", {"q": str(number)}) for number in range(1000)], "Done.")
    finish(run(turn(model, box.make("a"))))
    assert len(model.requests[1].messages) < 50
    assert_sound(model.requests[1].messages)


def test_calls_in_the_last_answer_do_not_count(box: Toolbox) -> None:
    last = Completion("Nine.", calls=(tool("a"),), finish_reason="tool_calls")
    model = ScriptedModel([tool("a", {"q": "1"})], last)
    end = finish(run(turn(model, box.make("a"), limits=Limits(model_calls=2))))
    assert (end.text, len(box.ran)) == ("Nine.", 1)


def test_a_model_that_fails_ends_the_turn_with_its_sentence(box: Toolbox) -> None:
    error = ModelError(ErrorClass.RATE_LIMIT, say("The model is busy."), detail="429 slow down")
    model = ScriptedModel([tool("a")], error)
    end = finish(run(turn(model, box.make("a"))))
    assert (end.text, end.ended, end.error_class, str(end.notice)) == ("", "error", "rate_limit", "The model is busy.")
    assert (end.detail, end.model_calls, end.usage.total_tokens) == ("429 slow down", 2, 15)


def test_what_was_visible_before_the_model_failed_stays() -> None:
    def half(_: ChatRequest) -> Iterator[ModelEvent]:
        yield TextDelta("The gate ")
        raise ModelError(ErrorClass.UPSTREAM, say("It broke."))

    end = finish(run(turn(ScriptedModel(half))))
    assert (end.text, end.ended, end.incomplete, str(end.notice)) == ("The gate", "error", True, "It broke.")


def test_a_stream_without_a_completion_is_an_answer_that_was_cut_off() -> None:
    end = finish(run(turn(ScriptedModel(lambda _: [TextDelta("The gate")]))))
    assert (end.text, end.ended) == ("The gate", "cut")


def waiting(_: ChatRequest) -> Iterator[ModelEvent]:
    while True:
        time.sleep(0.01)
        yield Tick()


def test_cancelling_while_the_model_is_silent_ends_the_turn_and_closes_its_stream() -> None:
    flag = threading.Event()
    threading.Timer(0.2, flag.set).start()
    model = ScriptedModel(waiting)
    begun = time.monotonic()
    end = finish(run(turn(model, cancelled=flag.is_set)))
    assert time.monotonic() - begun < 0.7
    assert (end.text, end.ended, model.closed) == ("", "cancelled", 1)


def test_cancelling_while_a_tool_hangs_ends_the_turn(box: Toolbox) -> None:
    release = threading.Event()
    flag = threading.Event()
    threading.Timer(0.2, flag.set).start()
    model = ScriptedModel([tool("a")])
    begun = time.monotonic()
    end = finish(run(turn(model, box.make("a", lambda: release.wait(30)), cancelled=flag.is_set)))
    assert time.monotonic() - begun < 0.7
    assert (end.ended, len(model.requests)) == ("cancelled", 1)
    release.set()


def test_cancelling_between_two_calls_runs_no_more_of_them(box: Toolbox) -> None:
    model = ScriptedModel([tool("a", {"q": "1"}), tool("a", {"q": "2"})])
    end = finish(run(turn(model, box.make("a"), cancelled=lambda: len(box.ran) > 0)))
    assert (end.ended, len(box.ran)) == ("cancelled", 1)


def test_closing_the_generator_closes_the_stream_of_the_model() -> None:
    model = ScriptedModel(waiting)
    events = run(turn(model))
    assert isinstance(next(events), ModelAsked)
    assert isinstance(next(events), Tick)
    events.close()  # type: ignore[attr-defined]
    assert model.closed == 1


def test_closing_the_generator_leaves_a_tool_that_hangs(box: Toolbox) -> None:
    release = threading.Event()
    events = run(turn(ScriptedModel([tool("a")]), box.make("a", lambda: release.wait(30))))
    while not isinstance(next(events), ToolStarted):
        pass
    assert isinstance(next(events), Tick)
    begun = time.monotonic()
    events.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begun < 0.5
    release.set()


class Clock:
    """A monotonic clock that goes on by itself at every tick of a model."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(clock, "monotonic", lambda: self.now)

    def silence(self, seconds: float) -> Any:
        def events(_: ChatRequest) -> Iterator[ModelEvent]:
            for _ in range(int(seconds)):
                self.now += 1
                yield Tick()
            yield Completion("Late.", finish_reason="stop")

        return events

    def words(self, seconds: float) -> Any:
        def events(_: ChatRequest) -> Iterator[ModelEvent]:
            for _ in range(int(seconds)):
                self.now += 1
                yield TextDelta("word ")
            yield Completion("word " * int(seconds), finish_reason="stop")

        return events


def test_when_the_time_is_nearly_up_the_answer_is_made_from_what_was_found(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_flies = Clock(monkeypatch)
    model = ScriptedModel([tool("a")], time_flies.silence(300), time_flies.words(10))
    end = finish(run(turn(model, box.make("a"), limits=Limits(seconds=100))))
    assert (end.text.strip(), end.ended, end.incomplete) == ("word " * 9 + "word", "wall_clock", True)
    assert "time" in str(model.requests[-1].messages[-1].content)
    assert time_flies.now <= 1100


def test_an_answer_that_is_being_written_gets_all_the_time_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    time_flies = Clock(monkeypatch)
    end = finish(run(turn(ScriptedModel(time_flies.words(95)), limits=Limits(seconds=100))))
    assert end.ended == "answered"
    end = finish(run(turn(ScriptedModel(time_flies.words(200)), limits=Limits(seconds=100))))
    assert (end.ended, end.incomplete, len(end.text.split())) == ("wall_clock", True, 100)


def test_a_model_that_never_answers_is_given_up_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    end = finish(run(turn(ScriptedModel(Clock(monkeypatch).silence(5000)), limits=Limits(seconds=10))))
    assert (end.text, end.ended, end.error_class) == ("", "error", "timeout")
    assert "did not answer in the time" in str(end.notice)


def test_no_limit_of_a_caller_goes_beyond_fifteen_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    time_flies = Clock(monkeypatch)
    finish(run(turn(ScriptedModel(time_flies.silence(100_000)), limits=Limits(seconds=1e9))))
    assert time_flies.now <= 1900


def test_a_tool_that_takes_the_rest_of_the_time_leaves_enough_for_an_answer(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_flies = Clock(monkeypatch)

    def hang(_: ToolContext, __: Any) -> Any:
        while True:
            time_flies.now += 1
            yield None

    model = ScriptedModel([tool("a")], "What I found.")
    end = finish(run(turn(model, replace(box.make("a"), run=hang, timeout=1000), limits=Limits(seconds=100))))
    assert (end.text, end.ended) == ("What I found.", "wall_clock")
    assert_sound(model.requests[-1].messages)


def test_results_are_capped(box: Toolbox) -> None:
    model = ScriptedModel([tool("a")], "Done.")
    list(run(turn(model, box.make("a", "x" * 1_000_000), limits=Limits(result_chars=100))))
    text = str(model.requests[1].messages[-1].content)
    assert text.startswith("x" * 100 + "\n[cut here")
    assert len(text) < 250


calls = st.builds(
    ToolCall,
    st.sampled_from(["", "x", "y", "call_1", "functions.a:0"]),
    st.sampled_from(["a", "b", "A", "gone", "", "functions.a"]),
    st.sampled_from(["", "{}", '{"q": "1"}', '{"q": ', "[]", "nonsense", '{"q": 1, "q": 2}', "null"])
    | st.just({"q": 1}),
    complete=st.booleans(),
)
completions = st.builds(
    Completion,
    st.sampled_from(["", "text", " "]),
    calls=st.lists(calls, max_size=5).map(tuple),
    finish_reason=st.sampled_from(["stop", "tool_calls", "length", None]),
    complete=st.booleans(),
)
failures = st.sampled_from([ModelError(ErrorClass.UPSTREAM, say("It broke."))])


@settings(max_examples=150, deadline=None)
@given(st.lists(completions | failures, max_size=8), st.integers(1, 8), st.integers(0, 8))
def test_whatever_a_model_does_the_turn_ends_once_within_its_limits(
    answers: list[Answer], model_calls: int, tool_calls: int
) -> None:
    box = Toolbox()
    model = ScriptedModel(*answers)
    limits = Limits(model_calls=model_calls, tool_calls=tool_calls)
    events = list(run(turn(model, box.make("a"), box.make("b", ToolError(say("No."))), limits=limits)))
    assert [isinstance(event, Finished) for event in events] == [False] * (len(events) - 1) + [True]
    end = finish(iter(events))
    assert len(model.requests) <= model_calls
    assert len(box.ran) <= tool_calls
    assert end.text.strip() or end.notice
    assert bool(end.text.strip()) or end.ended in ("empty", "error", "cancelled")
    for request in model.requests:
        assert_sound(request.messages)
