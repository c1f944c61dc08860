"""The agent loop: ask the model, run the tools that it calls, tell it what they gave, until it answers.

A generator of events. Whoever collects them may close it at any moment: the socket or the tool that it waits for is
closed with it. At a limit, or when it only repeats itself, one last call without tools makes the answer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import cast

from app.agent.events import AgentEvent, Finished, ModelAnswered, ModelAsked, ToolFinished, ToolStarted
from app.agent.progress import Over, Planned, Progress
from app.agent.turn import Turn
from app.infra import clock
from app.llm.base import Completion, ErrorClass, ModelError, ModelEvent, TextDelta, Tick
from app.tools import call
from app.tools.base import ToolResult
from app.tools.call import error_text

Events = Generator[AgentEvent, None, None]


def run(turn: Turn) -> Iterator[AgentEvent]:
    """Runs one turn; the last event is Finished, whatever the model or a tool does."""
    progress = Progress(turn)
    try:
        yield (yield from _answer(progress))
    except Over as over:
        yield progress.over(over)
    except ModelError as error:
        yield progress.failed(error)


def _answer(progress: Progress) -> Generator[AgentEvent, None, Finished]:
    try:
        while progress.may_go_on():
            completion = yield from _ask(progress, with_tools=True)
            if not completion.calls:
                return progress.answered(completion)
            for planned in progress.plan(completion):
                yield from _do(progress, planned)
            if progress.cut_again():
                return progress.answered(completion)
    except Over as over:
        if not progress.can_sum_up(over):
            raise
        progress.limit = over.why
    except ModelError as error:
        # The exchanges with model servers are used up, but for the one that is kept for the last call.
        if error.error_class != ErrorClass.ATTEMPTS or not progress.tool_calls:
            raise
        progress.limit = "model_calls"
    progress.begin_last_call()
    completion = yield from _ask(progress, with_tools=False)
    return progress.answered(completion)


def _ask(progress: Progress, *, with_tools: bool) -> Generator[AgentEvent, None, Completion]:
    """One call of the model: its events pass through, its Completion is the result."""
    progress.heard = []
    progress.check()
    request = progress.request(with_tools=with_tools)
    progress.model_calls += 1
    number, begun = progress.model_calls, clock.monotonic()
    yield ModelAsked(number, len(request.messages), len(request.tools), progress.estimated_tokens(request))
    completion: Completion | None = None
    with closing(cast("Generator[ModelEvent, None, None]", progress.turn.model.stream(request))) as events:
        for event in events:
            if isinstance(event, Completion):
                completion = event
                continue
            if isinstance(event, TextDelta):
                progress.heard.append(event.text)
            yield event
            progress.check()
    answer = completion or Completion("".join(progress.heard), complete=False)
    progress.usage += answer.usage
    yield ModelAnswered(
        number, answer.text, len(answer.calls), answer.finish_reason, answer.usage, _milliseconds(begun)
    )
    return answer


def _do(progress: Progress, planned: Planned) -> Events:
    """One call of a tool: run, or refused; the model is told either."""
    progress.heard = []
    progress.check()
    if rejected := progress.refused(planned):
        progress.answer(planned, error_text(rejected.reason, rejected.detail))
        yield rejected
        return
    progress.tool_calls += 1
    begun = clock.monotonic()
    yield ToolStarted(planned.id, planned.name, planned.arguments)
    result = yield from _result(progress, planned)
    progress.answer(planned, result.text)
    yield ToolFinished(
        planned.id,
        planned.name,
        result.text,
        result.is_error,
        _milliseconds(begun),
        sources=result.sources,
        detail=result.detail,
    )


def _result(progress: Progress, planned: Planned) -> Generator[AgentEvent, None, ToolResult]:
    turn = progress.turn
    assert planned.tool is not None
    running = call.run(
        planned.tool,
        turn.context,
        planned.arguments,
        deadline=progress.deadlines.tools,
        most_chars=turn.limits.result_chars,
    )
    with closing(cast("Generator[ToolResult | None, None, None]", running)) as steps:
        for step in steps:
            if step is not None:
                return step
            yield Tick()
            progress.check()
    return call.failed("tool_failed", "The tool gave no result.")


def _milliseconds(begun: float) -> int:
    return round((clock.monotonic() - begun) * 1000)
