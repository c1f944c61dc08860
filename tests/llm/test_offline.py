from __future__ import annotations

import json

import pytest

from app.llm.base import ChatRequest, Completion, Message, TextDelta, ToolCall, ToolSchema
from app.llm.offline import COMMAND, OfflineModel

SEARCH = ToolSchema(
    "room_search_messages",
    "s",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
)
CLOCK = ToolSchema("current_time", "t", {"type": "object", "properties": {"timezone": {"type": "string"}}})
ASKED = (Message("system", "You are Guide."), Message("user", "What is Parley?"))


def answer(*messages: Message, tools: tuple[ToolSchema, ...] = (SEARCH, CLOCK), bot: str = "Guide") -> Completion:
    *_, last = OfflineModel(bot=bot).stream(ChatRequest("quote", messages, tools))
    assert isinstance(last, Completion)
    return last


def found(text: str) -> tuple[Message, ...]:
    call = ToolCall("c1", "room_search_messages", '{"query": "What is Parley?"}')
    return (*ASKED, Message("assistant", "", (call,)), Message("tool", text, tool_call_id="c1"))


def test_each_search_tool_is_called_once_with_the_question() -> None:
    first = answer(*ASKED)
    assert (first.text, first.finish_reason) == ("", "tool_calls")
    (call,) = first.calls
    assert call.name == "room_search_messages"
    assert json.loads(str(call.arguments)) == {"query": "What is Parley?"}
    assert not answer(*found("nothing")).calls


def test_the_passages_are_quoted_with_their_speakers() -> None:
    text = answer(
        *found(
            "Only this room's conversations.\n\n[1] Bob, 2026-07-01 10:00: Parley puts bots\ninto rooms.\n"
            "[2] Ada, 2026-07-02 11:00: It runs on our own server.\n\nThat is all."
        )
    ).text
    assert "I am Guide" in text
    assert "[1] Bob, 2026-07-01 10:00: Parley puts bots into rooms." in text
    assert "[2] Ada, 2026-07-02 11:00: It runs on our own server." in text
    assert "That is all." not in text
    assert "no model is connected" in text
    assert COMMAND in text


def test_nothing_found_is_said() -> None:
    text = answer(*found("Nothing was found.")).text
    assert "I found nothing" in text
    assert COMMAND in text


def test_without_search_tools_it_answers_at_once() -> None:
    request = ChatRequest("quote", ASKED, (CLOCK,))
    events = list(OfflineModel().stream(request))
    assert isinstance(events[0], TextDelta)
    assert isinstance(events[-1], Completion)
    assert events[0].text == events[-1].text
    assert "No model is connected" in events[-1].text


def test_long_and_many_passages_are_shortened() -> None:
    text = answer(*found("\n".join(f"[{n}] Bob, now: {'x' * 3000}" for n in range(1, 30)))).text
    assert text.count("Bob, now") == 5
    assert len(text) < 4000


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}, "text"),
        ({"type": "object", "properties": {"query": {"type": "string"}}}, "query"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, None),
        ({"type": "object", "properties": {"query": {}, "file": {}}, "required": ["query", "file"]}, None),
        ({"type": "object"}, None),
    ],
)
def test_the_question_goes_where_the_schema_takes_it(parameters: dict[str, object], name: str | None) -> None:
    calls = answer(*ASKED, tools=(ToolSchema("wiki_search", "s", parameters),)).calls
    assert [list(json.loads(str(call.arguments))) for call in calls] == ([[name]] if name else [])


def test_an_earlier_turn_does_not_count_as_asked() -> None:
    again = (*found("[1] Bob, now: a"), Message("assistant", "done"), Message("user", "And now?"))
    (call,) = answer(*again).calls
    assert json.loads(str(call.arguments)) == {"query": "And now?"}


@pytest.mark.parametrize(
    ("language", "words"), [("en", "no model is connected"), ("de", "kein Modell verbunden"), ("fr", "aucun modèle")]
)
def test_it_speaks_three_languages(language: str, words: str) -> None:
    request = ChatRequest("quote", found("[1] Bob, now: Parley puts bots into rooms."), (SEARCH,))
    *_, last = OfflineModel(language=language, bot="Guide").stream(request)
    assert isinstance(last, Completion)
    for part in (words, "Guide", "[1] Bob, now: Parley puts bots into rooms.", COMMAND):
        assert part in last.text
