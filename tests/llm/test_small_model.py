from __future__ import annotations

import json

import pytest
from flask import Flask
from jsonschema import validate

from app.llm import catalog
from app.llm.base import ChatRequest, Completion, ErrorClass, Message, ModelError, TextDelta, ToolSchema
from app.llm.endpoints import resolve
from app.settings import endpoints
from tests.fakes.small_model import SmallModel

pytestmark = [pytest.mark.model, pytest.mark.timeout(240)]
ASKED = (Message("system", "Answer in few words."), Message("user", "Name a colour."))
WEATHER = ToolSchema(
    "get_weather",
    "The weather of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


def ask(reference: str, request: ChatRequest) -> tuple[str, Completion]:
    shown = []
    for event in resolve(reference).chat.stream(request):
        if isinstance(event, TextDelta):
            shown.append(event.text)
        last = event
    assert isinstance(last, Completion)
    return "".join(shown), last


def test_a_real_model_is_listed_and_answers_streamed_and_whole(app: Flask, small_model: SmallModel) -> None:
    endpoints.save("primary", url=small_model.url)
    result = catalog.test("primary")
    assert result.ok, result.message
    assert len(result.models) == 1
    reference = f"primary:{result.models[0]}"
    for streamed in (True, False):
        request = ChatRequest(resolve(reference).model, ASKED, max_tokens=24, temperature=0.0, stream=streamed)
        shown, last = ask(reference, request)
        assert last.text
        assert shown == last.text
        assert last.usage.prompt_tokens > 0
        assert last.usage.completion_tokens > 0
        assert last.complete is (last.finish_reason == "stop")


def test_a_real_server_says_when_a_conversation_is_too_long(app: Flask, small_model: SmallModel) -> None:
    endpoints.save("primary", url=small_model.url, model="m")
    with pytest.raises(ModelError) as caught:
        ask("primary:m", ChatRequest("m", (Message("user", "colour " * 6000),), max_tokens=8))
    assert caught.value.error_class == ErrorClass.CONTEXT_OVERFLOW
    assert caught.value.limit_tokens


@pytest.mark.parametrize("streamed", [True, False])
def test_a_real_model_calls_a_tool_through_the_shim(app: Flask, small_model: SmallModel, streamed: bool) -> None:
    endpoints.save("primary", url=small_model.tools_url, model="m")
    question = (Message("user", "What is the weather in Paris?"),)
    _, last = ask("primary:m", ChatRequest("m", question, (WEATHER,), temperature=0.0, stream=streamed))
    (call,) = last.calls
    assert call.name == "get_weather"
    validate(json.loads(str(call.arguments)), dict(WEATHER.parameters))
    told = (
        *question,
        Message("assistant", "", last.calls),
        Message("tool", "Sunny, 20 degrees.", tool_call_id=call.id),
    )
    shown, last = ask("primary:m", ChatRequest("m", told, (WEATHER,), max_tokens=24, stream=streamed))
    assert last.text
    assert not last.calls
