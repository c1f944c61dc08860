from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from flask import Flask

from app.agent.events import Finished, ModelAsked, ToolFinished, ToolStarted
from app.agent.loop import run
from app.agent.turn import Turn
from app.llm.base import Message
from app.llm.endpoints import resolve
from app.settings import endpoints
from app.tools.base import Tool, ToolContext
from tests.fakes.small_model import SmallModel, small_model

__all__ = ["small_model"]
pytestmark = [pytest.mark.model, pytest.mark.timeout(240)]


def weather(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    return "Sunny, 20 degrees."


TOOL = Tool(
    name="get_weather",
    description="The weather of a city",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
    run=weather,
)


@pytest.mark.parametrize("streamed", [True, False])
def test_the_loop_runs_a_tool_that_a_real_model_calls_and_ends_with_its_answer(
    app: Flask, small_model: SmallModel, streamed: bool
) -> None:
    endpoints.save("primary", url=small_model.tools_url, model="m")
    question = (Message("system", "Answer in few words."), Message("user", "What is the weather in Paris?"))
    turn = Turn(
        resolve("primary:m").chat, "m", question, tools=(TOOL,), max_tokens=48, temperature=0.0, stream=streamed
    )
    events = list(run(turn))
    kinds = [type(event) for event in events if isinstance(event, ModelAsked | ToolStarted | ToolFinished | Finished)]
    assert kinds == [ModelAsked, ToolStarted, ToolFinished, ModelAsked, Finished]
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.text
    assert last.ended in ("answered", "length")
    assert last.tool_calls == 1
    assert last.usage.completion_tokens > 0
