"""Where a turn stands: its conversation with the model, its counters and its clock, and how it can end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.agent import budget, policy, prompt
from app.agent.events import EndReason, Finished, ToolRejected
from app.agent.turn import Turn
from app.infra import clock
from app.infra.i18n import Sentence, say
from app.llm.base import ChatRequest, Completion, Message, ModelError, ToolCall, ToolSchema, Usage
from app.tools import arguments, registry
from app.tools.base import Tool
from app.tools.call import error_text

Refusal = Literal["bad_arguments", "truncated", "unknown_tool", "limit", "repetition"]

# What a model writes at once beyond this is left out: it has lost itself.
MOST_CALLS_AT_ONCE = 32
# So often an answer may be cut in the middle of its calls before the turn ends.
MOST_CUT = 2
NOTICES: Mapping[EndReason, Sentence] = {
    "model_calls": say("This answer is incomplete: finding it took more steps than are allowed."),
    "tool_calls": say("This answer is incomplete: finding it took more steps than are allowed."),
    "wall_clock": say("This answer is incomplete: finding it took longer than is allowed."),
    "repetition": say("This answer is incomplete: the same step was tried again and again."),
    "length": say("This answer is incomplete: it became longer than the model may write."),
    "cut": say("This answer is incomplete: the model stopped in the middle of it."),
}
EMPTY = say("The model gave no answer. Please ask again, perhaps in other words.")
EMPTY_BY_LENGTH = say("The model wrote until its limit and came to no answer. Please ask for less at once.")
TOO_SLOW = say("The model did not answer in the time that is allowed. Please ask again later, or ask for less.")
STOPPED = say("Stopped.")
TOLD_LIMIT = "No more tools are run for this answer: its limit is reached."
TOLD_REPETITION = "This was called before with the same arguments, again and again. No more tools are run."
TOLD_TRUNCATED = "The output limit ended your answer in the middle of this call, so it was not run. Write less at once."
TOLD_OPEN = "The call was not finished."


class Over(Exception):
    """The turn ends in the middle of something: somebody cancelled it, or its time is up."""

    def __init__(self, why: Literal["cancelled", "wall_clock"]) -> None:
        super().__init__(why)
        self.why: Literal["cancelled", "wall_clock"] = why


@dataclass(frozen=True)
class Planned:
    """A call under its own id, with its tool and the arguments as read, or with why it is refused."""

    id: str
    name: str
    tool: Tool | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    written: str | Mapping[str, Any] = ""
    refusal: Refusal | None = None
    detail: str = ""


class Progress:
    """The state of one turn. `heard` are the pieces that the model call of now has shown; `limit` is why no more tools run."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.messages = list(turn.messages)
        self.schemas = tuple(ToolSchema(tool.name, tool.description, tool.parameters) for tool in turn.tools)
        self.model_calls = 0
        self.tool_calls = 0
        self.usage = Usage()
        self.heard: list[str] = []
        self.limit: EndReason | None = None
        self.deadlines = policy.Deadlines.of(turn.limits)
        self._circles = policy.Circles(turn.limits.repetitions)
        self._cut = 0
        self._ids = {call.id for message in turn.messages for call in message.tool_calls}
        self._open: list[str] = []
        self._is_last = False

    def check(self) -> None:
        """Raises Over when the turn was cancelled or its time is up; asked at every event.

        An answer that is being written gets the time of the last call too.
        """
        if self.turn.cancelled():
            raise Over("cancelled")
        spoken = self.heard or self._is_last
        if clock.monotonic() >= (self.deadlines.answer if spoken else self.deadlines.tools):
            raise Over("wall_clock")

    def may_go_on(self) -> bool:
        """Whether the model may be asked once more with its tools; the last call allowed is the one without."""
        if self.schemas and self.model_calls + 1 >= policy.most_model_calls(self.turn.limits):
            self.limit = self.limit or "model_calls"
        return self.limit is None

    def request(self, *, with_tools: bool) -> ChatRequest:
        """The next call of the model."""
        turn = self.turn
        first = self.model_calls == 0 and with_tools and any(tool.name == turn.first_tool for tool in turn.tools)
        return ChatRequest(
            turn.model_name,
            tuple(self.messages),
            self.schemas if with_tools else (),
            tool_choice=turn.first_tool if first else None,
            temperature=turn.temperature,
            max_tokens=turn.max_tokens,
            stream=turn.stream,
            deadline=self.deadlines.answer,
        )

    def begin_last_call(self) -> None:
        """Tells the model to answer without tools; calls that were not run get an answer first."""
        for id in self._open:
            self.messages.append(Message("tool", error_text("limit", TOLD_OPEN), tool_call_id=id))
        self._open = []
        self._is_last = True
        self.messages.append(prompt.last_call(self.limit or "model_calls"))

    # Calls

    def plan(self, completion: Completion) -> Iterator[Planned]:
        """The calls of an answer in order, after both went into the conversation; each must be answered."""
        self._cut += not completion.complete
        calls = completion.calls[:MOST_CALLS_AT_ONCE]
        planned = [self._planned(call, complete=completion.complete) for call in calls]
        echoed = tuple(ToolCall(one.id, _safe(one.name), _dumped(one.arguments)) for one in planned)
        self.messages.append(Message("assistant", completion.text, tool_calls=echoed))
        self._open = [one.id for one in planned]
        yield from planned

    def refused(self, planned: Planned) -> ToolRejected | None:
        """Why a call must not run, None when it may; a limit or a circle ends the use of tools in this turn."""
        if self.limit is not None:
            return ToolRejected(planned.id, planned.name, "limit", TOLD_LIMIT)
        if self._circles.closes(planned.name, planned.written if planned.refusal else planned.arguments):
            self.limit = "repetition"
            return ToolRejected(planned.id, planned.name, "repetition", TOLD_REPETITION)
        if planned.refusal is not None:
            return ToolRejected(planned.id, planned.name, planned.refusal, planned.detail)
        if self.tool_calls >= self.turn.limits.tool_calls:
            self.limit = "tool_calls"
            return ToolRejected(planned.id, planned.name, "limit", TOLD_LIMIT)
        return None

    def answer(self, planned: Planned, text: str) -> None:
        """Tells the model what became of a call."""
        self.messages.append(Message("tool", text, tool_call_id=planned.id))
        self._open.remove(planned.id)

    def _planned(self, call: ToolCall, *, complete: bool) -> Planned:
        id = self._own_id(call.id)
        tool = registry.meant(call.name, self.turn.tools)
        if tool is None and call.name:
            names = ", ".join(known.name for known in self.turn.tools) or "none"
            detail = f"There is no tool {call.name[:80]!r}. The tools are: {names}."
            return Planned(id, call.name, written=call.arguments, refusal="unknown_tool", detail=detail)
        if tool is None or not complete:
            return Planned(id, call.name, written=call.arguments, refusal="truncated", detail=TOLD_TRUNCATED)
        try:
            return Planned(id, tool.name, tool, arguments.read(call, tool.parameters))
        except arguments.ArgumentsRefused as refused:
            return Planned(id, tool.name, written=call.arguments, refusal=refused.reason, detail=refused.detail)

    def _own_id(self, wanted: str) -> str:
        """An id that no other call of the conversation has; the model's own where that is one."""
        id, number = wanted, len(self._ids)
        while not id or id in self._ids:
            number += 1
            id = f"call_{number}"
        self._ids.add(id)
        return id

    # Ends

    def can_sum_up(self, over: Over) -> bool:
        """Whether a last call makes sense: there is something to tell, and nobody waits for the end."""
        return over.why == "wall_clock" and not self.heard and not self._is_last and self.tool_calls > 0

    def cut_again(self) -> bool:
        """True when answers were cut in the middle of their calls too often."""
        return self._cut >= MOST_CUT

    def answered(self, completion: Completion) -> Finished:
        """The end by an answer without calls, or by the last one whose calls don't count."""
        if self._is_last and self.limit is not None:
            return self._with_text(completion.text, self.limit)
        if completion.complete:
            return self._with_text(completion.text, "answered")
        return self._with_text(completion.text, "length" if completion.finish_reason == "length" else "cut")

    def over(self, over: Over) -> Finished:
        """The end by cancelling or by the clock."""
        if over.why == "cancelled":
            return self._end("", "cancelled", notice=STOPPED)
        if text := "".join(self.heard):
            return self._with_text(text, "wall_clock")
        return self._end("", "error", notice=TOO_SLOW, error_class="timeout", detail="the turn's time was up")

    def failed(self, error: ModelError) -> Finished:
        """The end by a model that failed; what was visible before stays."""
        text = (error.text or "".join(self.heard)).strip()
        kind = error.error_class.value
        return self._end(
            text,
            "error",
            incomplete=bool(text),
            notice=error.sentence,
            error_class=kind,
            detail=error.detail,
            retry_after=error.retry_after,
        )

    def _with_text(self, text: str, ended: EndReason) -> Finished:
        if text.strip():
            return self._end(text, ended, incomplete=ended in NOTICES, notice=NOTICES.get(ended))
        notice = EMPTY_BY_LENGTH if ended == "length" else EMPTY
        return self._end("", "empty", incomplete=ended in NOTICES, notice=notice, detail=f"no text ({ended})")

    def _end(self, text: str, ended: EndReason, **more: Any) -> Finished:
        return Finished(text, ended, usage=self.usage, model_calls=self.model_calls, tool_calls=self.tool_calls, **more)

    def estimated_tokens(self, request: ChatRequest) -> int:
        """Roughly how much is sent."""
        return budget.estimate(request.messages, request.tools)


def _dumped(given: Mapping[str, Any]) -> str:
    return json.dumps(given, ensure_ascii=False)


def _safe(name: str) -> str:
    """A name that servers take back: an unknown tool's may hold anything."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"
