from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import responses
from hypothesis import given, settings
from hypothesis import strategies as st

from app.infra import clock
from app.llm import chat, urls
from app.llm.base import (
    Attempt,
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
    ToolSchema,
    Usage,
)
from app.llm.chat import EndpointModel
from tests.fakes.model_server import (
    ModelServer,
    Reply,
    chunk,
    completion,
    endless,
    sse,
    stream,
    tool_call,
)
from tests.fakes.raw_server import RawServer, read_request

KEY = "canary-key-1234"
PING = ToolSchema("ping", "p", {"type": "object", "properties": {}})


def model(url: str, **how: Any) -> EndpointModel:
    return EndpointModel("primary", urls.normalise(url), key=KEY, **how)


def request(**how: Any) -> ChatRequest:
    messages = (Message("system", "You are the harbour bot."), Message("user", "When does the gate open?"))
    return ChatRequest(**{"model": "case-model", "messages": messages, **how})


def events(server: ModelServer, **how: Any) -> list[ModelEvent]:
    return list(model(server.url).stream(request(**how)))


def answer(server: ModelServer, **how: Any) -> Completion:
    last = events(server, **how)[-1]
    assert isinstance(last, Completion)
    return last


def failure(server: ModelServer, **how: Any) -> tuple[ModelError, list[ModelEvent]]:
    seen: list[ModelEvent] = []
    with pytest.raises(ModelError) as caught:
        seen.extend(model(server.url).stream(request(**how)))
    return caught.value, seen


@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_comes_the_same_way_streamed_or_whole(model_server: ModelServer, streamed: bool) -> None:
    model_server.say("The gate opens at nine.", usage={"prompt_tokens": 21, "completion_tokens": 4})
    seen = [event for event in events(model_server, stream=streamed) if not isinstance(event, Tick)]
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "The gate opens at nine."
    attempt, last = seen[-2:]
    assert isinstance(attempt, Attempt)
    assert (attempt.endpoint, attempt.model, attempt.outcome, attempt.status) == ("primary", "case-model", "ok", 200)
    expected = Completion("The gate opens at nine.", finish_reason="stop", usage=Usage(21, 4, 25), model="case-model")
    assert last == expected


def test_the_request_says_what_was_asked_for_and_nothing_else(model_server: ModelServer) -> None:
    model_server.say("ok")
    events(model_server, stream=False)
    asked = model_server.chats[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "case-model",
        "messages": [
            {"role": "system", "content": "You are the harbour bot."},
            {"role": "user", "content": "When does the gate open?"},
        ],
    }


def test_everything_that_a_request_may_say_is_sent(model_server: ModelServer) -> None:
    messages = (
        Message("user", ({"type": "text", "text": "look"},)),
        Message("assistant", "", tool_calls=(ToolCall("c1", "ping", '{"a": 1'), ToolCall("c2", "ping", {"b": "å"}))),
        Message("assistant", "", tool_calls=(ToolCall("c3", "ping", '"{\\"c\\": 2}"'),)),
        Message("tool", "pong", tool_call_id="c1"),
    )
    events(model_server, messages=messages, tools=(PING,), tool_choice="ping", temperature=0.2, max_tokens=500)
    body = model_server.chats[0].body
    assert body["messages"][0]["content"] == [{"type": "text", "text": "look"}]
    calls = body["messages"][1]["tool_calls"] + body["messages"][2]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ["{}", '{"b": "å"}', '{"c": 2}']
    assert body["messages"][3] == {"role": "tool", "content": "pong", "tool_call_id": "c1"}
    assert body["tools"] == [
        {"type": "function", "function": {"name": "ping", "description": "p", "parameters": dict(PING.parameters)}}
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "ping"}}
    assert (body["temperature"], body["max_tokens"]) == (0.2, 500)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "Nine.", "reasoning_content": "Look."}, "Nine.", "Look."),
        ({"content": "Nine.", "reasoning": "Look."}, "Nine.", "Look."),
        ({"content": "Nine.", "reasoning": "Look.", "reasoning_content": "Look."}, "Nine.", "Look."),
        ({"content": "Nine.", "reasoning_details": [{"type": "reasoning.text", "text": "Look."}]}, "Nine.", "Look."),
        ({"content": "<think>Look.</think>\n\nNine."}, "Nine.", "Look."),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Look."}]}, {"text": "Nine."}]},
            "Nine.",
            "Look.",
        ),
        ({"content": [{"type": "text", "text": "Ni"}, {"type": "text", "text": "ne."}, 3, None]}, "Nine.", ""),
        ({"content": None, "refusal": "No."}, "No.", ""),
        ({"content": "", "reasoning": "only thoughts"}, "", "only thoughts"),
    ],
)
def test_reasoning_and_text_are_kept_apart(
    model_server: ModelServer,
    message: dict[str, Any],
    text: str,
    reasoning: str,
    streamed: bool,
) -> None:
    rest = {key: value for key, value in message.items() if key != "content"}
    model_server.say(message["content"], **rest)
    seen = events(model_server, stream=streamed)
    last = seen[-1]
    assert isinstance(last, Completion)
    assert (last.text, last.reasoning, last.complete) == (text, reasoning, True)
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == text
    assert "".join(event.text for event in seen if isinstance(event, ReasoningDelta)) == reasoning


@pytest.mark.parametrize("streamed", [True, False])
def test_native_calls_are_read(model_server: ModelServer, streamed: bool) -> None:
    model_server.call("ping", {"a": 1}, text="One moment.")
    last = answer(model_server, tools=(PING,), stream=streamed)
    assert last.calls == (ToolCall("call_1", "ping", '{"a": 1}'),)
    assert (last.text, last.finish_reason) == ("One moment.", "tool_calls")


def test_calls_written_as_text_are_read(model_server: ModelServer) -> None:
    model_server.say('<tool_call>{"name": "ping", "arguments": {}}</tool_call>')
    seen = events(model_server, tools=(PING,))
    assert not [event for event in seen if isinstance(event, TextDelta)]
    last = seen[-1]
    assert isinstance(last, Completion)
    assert [call.name for call in last.calls] == ["ping"]


def test_native_calls_win_over_those_in_the_text(model_server: ModelServer) -> None:
    model_server.call("ping", {}, text='<tool_call>{"name": "ping", "arguments": {"b": 2}}</tool_call>')
    last = answer(model_server, tools=(PING,))
    assert [(call.name, call.arguments) for call in last.calls] == [("ping", "{}")]
    assert last.text == ""


def test_a_legacy_function_call_is_read(model_server: ModelServer) -> None:
    model_server.say(None, function_call={"name": "ping", "arguments": "{}"}, finish_reason="function_call")
    assert [call.name for call in answer(model_server, tools=(PING,), stream=False).calls] == ["ping"]


@pytest.mark.parametrize("raw", [b'{"choices": "x"}', b"[]", b"3", b'"text"', b"null", b'{"a": 1}', b"<html>hi</html>"])
@pytest.mark.parametrize("streamed", [True, False])
def test_what_is_no_answer_is_told(model_server: ModelServer, raw: bytes, streamed: bool) -> None:
    model_server.answer(Reply(body=raw, headers={"Content-Type": "application/json"}))
    error, seen = failure(model_server, stream=streamed)
    assert error.error_class in (ErrorClass.NOT_JSON, ErrorClass.EMPTY_STREAM)
    assert isinstance(seen[-1], Attempt)
    assert seen[-1].outcome == error.error_class


def test_a_whole_body_is_accepted_where_a_stream_was_asked_for(model_server: ModelServer) -> None:
    model_server.answer(Reply(json=completion("Nine.", calls=[tool_call("ping", {})])))
    last = answer(model_server, tools=(PING,), stream=True)
    assert (last.text, [call.name for call in last.calls], last.usage.total_tokens) == ("Nine.", ["ping"], 15)


def test_a_stream_is_accepted_where_a_whole_body_was_asked_for(model_server: ModelServer) -> None:
    model_server.answer(stream([chunk({"content": "Nine."}), chunk(finish_reason="stop")]))
    assert answer(model_server, stream=False).text == "Nine."


def test_the_content_type_need_not_be_right(model_server: ModelServer) -> None:
    model_server.answer(
        Reply(body=sse([chunk({"content": "Nine."}, finish_reason="stop")]), headers={"Content-Type": "text/plain"})
    )
    assert answer(model_server).text == "Nine."


@pytest.mark.parametrize(
    ("reply", "complete"),
    [
        (stream([chunk({"content": "Nine."}), chunk(finish_reason="stop")], done=False), True),
        (stream([chunk({"content": "Nine."})], done=True), True),
        (stream([chunk({"content": "Nine."})], done=False), False),
        (stream([chunk({"content": "Nine."}), chunk(finish_reason="length")]), False),
        (stream([chunk({"content": "Nine."}), chunk(finish_reason="content_filter")]), False),
        (stream([chunk({"content": "Nine."}), '{"choices": [{"del'], done=False), False),
        (stream([chunk({"content": "Nine."}), '{"choices": [{"del', chunk(finish_reason="stop")]), False),
        (stream([chunk({"content": "Nine."}), chunk({"content": " Ten."})], cut_after=200), False),
    ],
)
def test_an_answer_is_complete_only_when_its_end_came(
    model_server: ModelServer,
    reply: Reply,
    complete: bool,
) -> None:
    model_server.answer(reply)
    last = answer(model_server)
    assert (last.text, last.complete) == ("Nine.", complete)


@pytest.mark.parametrize(
    "reply",
    [
        stream([], done=False),
        stream([]),
        stream([{**chunk(), "choices": []}]),
        stream([{**chunk(), "choices": None}, chunk({"role": "assistant", "content": ""})], done=False),
        Reply(headers={"Content-Type": "text/event-stream"}, body=b": ping\n\n"),
        Reply(json={"id": "x", "object": "chat.completion", "choices": []}),
    ],
)
def test_an_answer_of_nothing_is_an_error(model_server: ModelServer, reply: Reply) -> None:
    model_server.answer(reply)
    assert failure(model_server)[0].error_class == ErrorClass.EMPTY_STREAM


def test_an_empty_answer_with_an_end_is_no_error(model_server: ModelServer) -> None:
    model_server.say("")
    last = answer(model_server)
    assert (last.text, last.complete, last.finish_reason) == ("", True, "stop")


@pytest.mark.parametrize(
    "chunks",
    [
        [{**chunk(), "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}],
        [{**chunk(), "choices": [], "usage": {"input_tokens": 3, "output_tokens": 4}}],
        [{**chunk(), "choices": None, "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}}],
        [{"usage": {"prompt_tokens": 3.0, "completion_tokens": 4, "total_tokens": None}}],
    ],
)
def test_usage_is_counted_where_it_comes_last(model_server: ModelServer, chunks: list[Any]) -> None:
    model_server.answer(stream([chunk({"content": "Nine."}), chunk(finish_reason="stop"), *chunks]))
    assert answer(model_server).usage == Usage(3, 4, 7)


@pytest.mark.parametrize(
    "usage", [None, "x", [], {"prompt_tokens": -1}, {"prompt_tokens": True}, {"total_tokens": 1e99}]
)
def test_a_usage_that_is_none_counts_nothing(model_server: ModelServer, usage: Any) -> None:
    model_server.answer(Reply(json={**completion("Nine."), "usage": usage}))
    assert answer(model_server).usage == Usage()


def test_an_error_after_some_text_keeps_the_text(model_server: ModelServer) -> None:
    model_server.answer(stream([chunk({"content": "The gate "}), {"error": {"code": 502, "message": f"died {KEY}"}}]))
    error, seen = failure(model_server)
    assert (error.error_class, error.text, error.permanent) == (ErrorClass.UPSTREAM, "The gate ", False)
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["The gate "]
    assert KEY not in error.detail
    assert len(model_server.chats) == 1


def test_an_error_after_the_end_of_the_answer_changes_nothing(model_server: ModelServer) -> None:
    model_server.answer(stream([chunk({"content": "Nine."}, finish_reason="stop"), {"error": {"message": "late"}}]))
    assert answer(model_server).complete


@pytest.mark.parametrize(
    ("status", "kind", "permanent"),
    [(401, ErrorClass.AUTH, True), (429, ErrorClass.RATE_LIMIT, False), (503, ErrorClass.UPSTREAM, False)],
)
def test_a_refusal_has_a_class_and_no_secret(
    model_server: ModelServer,
    status: int,
    kind: ErrorClass,
    permanent: bool,
) -> None:
    body = {"error": {"message": f"<b>no</b> {KEY} at {model_server.url}" + "x" * 5000}}
    model_server.answer(Reply(status=status, json=body, headers={"Retry-After": "7"}))
    error, seen = failure(model_server)
    assert (error.error_class, error.permanent, error.http_status, error.retry_after) == (kind, permanent, status, 7)
    assert KEY not in error.detail
    assert len(error.detail) <= 500
    assert model_server.url not in str(error.sentence)
    assert seen == [Attempt("primary", "case-model", kind, seen[0].milliseconds, status, error.detail)]  # type: ignore[union-attr]


def test_an_endless_error_page_is_cut(model_server: ModelServer) -> None:
    model_server.answer(Reply(status=500, body=endless(50)))
    assert failure(model_server)[0].error_class == ErrorClass.UPSTREAM


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=endless(50)),
        Reply(body=endless(50, piece=b"data: " + b"x" * 60_000), headers={"Content-Type": "text/event-stream"}),
        Reply(body=endless(50, piece=sse([chunk({"content": "x" * 3000})], done=False) * 16)),
        Reply(body=endless(50, piece=b'{"a":"' + b"x" * 60_000)),
    ],
)
def test_an_answer_of_50_megabytes_is_stopped(model_server: ModelServer, reply: Reply) -> None:
    model_server.answer(reply)
    assert failure(model_server)[0].error_class == ErrorClass.TOO_LARGE


def test_an_answer_that_takes_too_long_ends_at_the_deadline(model_server: ModelServer) -> None:
    model_server.answer(Reply(body=sse([chunk({"content": "x"})] * 500), delay_chunk=0.02, chunk_bytes=40))
    begun = time.monotonic()
    error, seen = failure(model_server, deadline=clock.monotonic() + 0.6)
    assert error.error_class == ErrorClass.TIMEOUT
    assert time.monotonic() - begun < 1.2
    assert error.text == "".join(event.text for event in seen if isinstance(event, TextDelta))


def test_a_deadline_that_has_passed_asks_nobody(model_server: ModelServer) -> None:
    assert failure(model_server, deadline=clock.monotonic() - 1)[0].error_class == ErrorClass.TIMEOUT
    assert not model_server.requests


def test_a_server_that_never_says_that_it_is_done_is_left(
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat, "SILENCE_SECONDS", 0.3)
    model_server.answer(stream([chunk({"content": "Nine."}), chunk(finish_reason="stop")], done=False, hang=True))
    begun = time.monotonic()
    last = answer(model_server)
    assert (last.text, last.complete) == ("Nine.", True)
    assert time.monotonic() - begun < 2


def test_ticks_come_while_the_model_thinks(model_server: ModelServer) -> None:
    model_server.answer(Reply(json=completion("Nine."), delay_headers=0.7))
    times = [time.monotonic()]
    ticks = 0
    for event in model(model_server.url).stream(request()):
        times.append(time.monotonic())
        ticks += isinstance(event, Tick)
    assert ticks >= 2
    assert max(later - earlier for earlier, later in zip(times, times[1:], strict=False)) < 0.4


def closing(stream_: Iterator[ModelEvent], after: int) -> float:
    for _ in range(after):
        next(stream_)
    begun = time.monotonic()
    stream_.close()  # type: ignore[attr-defined]
    return time.monotonic() - begun


def hanging_up(gone: threading.Event, head: bytes) -> Any:
    def handler(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(head)
        connection.settimeout(5)
        if connection.recv(1) == b"":
            gone.set()

    return handler


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n" + sse([chunk({"content": "Nine "})], done=False),
        b"HTTP/1.1 500 Oops\r\nContent-Length: 9999\r\n\r\n{",
    ],
)
def test_closing_the_stream_hangs_up_at_once(head: bytes) -> None:
    gone = threading.Event()
    with RawServer(hanging_up(gone, head)) as server:
        assert closing(model(server.url).stream(request()), after=2) < 0.5
        assert gone.wait(0.5)


def test_one_connection_serves_several_calls() -> None:
    answers = sse([chunk({"content": "Nine."}), chunk(finish_reason="stop")])

    def handler(connection: socket.socket) -> None:
        while read_request(connection):
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
            connection.sendall(head + b"%x\r\n%s\r\n" % (len(answers), answers))
            connection.sendall(b"0\r\n\r\n")

    with RawServer(handler) as server:
        for _ in range(3):
            assert list(model(server.url).stream(request()))[-1].text == "Nine."  # type: ignore[union-attr]
        assert server.accepted == 1


PIECES = ["Nine", " <", "think>", "</think>", "a", "\n", "`", "æ漢😀", '{"a": 1}', " "]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12), st.integers(1, 60))
def test_every_cut_of_the_bytes_gives_the_same_answer(pieces: list[str], chunk_bytes: int) -> None:
    calls = [
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "ping", "arguments": part}}]} for part in "{}"
    ]
    body = sse([*(chunk({"content": text}) for text in pieces), *map(chunk, calls), chunk(finish_reason="stop")])
    with ModelServer() as server:
        server.answer(Reply(body=body, chunk_bytes=chunk_bytes), Reply(body=body))
        cut, whole = answer(server, tools=(PING,)), answer(server, tools=(PING,))
    assert cut == whole
    assert [call.arguments for call in cut.calls] == ["{}"]


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (requests.ConnectTimeout(KEY), ErrorClass.TIMEOUT),
        (requests.ReadTimeout("x"), ErrorClass.TIMEOUT),
        (requests.ConnectionError("x"), ErrorClass.UNREACHABLE),
        (requests.exceptions.SSLError("x"), ErrorClass.UNREACHABLE),
    ],
)
@responses.activate
def test_what_breaks_on_the_way_has_a_class(raised: Exception, kind: ErrorClass) -> None:
    responses.post("https://models.example.test/v1/chat/completions", body=raised)
    with pytest.raises(ModelError) as caught:
        list(model("https://models.example.test").stream(request()))
    assert caught.value.error_class == kind
    assert KEY not in caught.value.detail


def test_a_key_that_can_not_stand_in_a_header_is_told_without_showing_it(model_server: ModelServer) -> None:
    broken = EndpointModel("primary", urls.normalise(model_server.url), key=KEY + "\n")
    with pytest.raises(ModelError) as caught:
        list(broken.stream(request()))
    assert KEY not in caught.value.detail + repr(broken)
