"""Another model where the chosen one can't be had, before the first visible text (product.md K1c).

Which failures count is the setting `fallback_on`: `connection` (nobody answers), or `availability` (also a model that is
not there, conflicts, rate limits and errors of the server). Each call asks the other model once at most; the one that
answered is asked first for the rest of the turn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

from app.llm import failures
from app.llm.base import ChatModel, ChatRequest, ErrorClass, ModelError, ModelEvent, TextDelta
from app.llm.limits.capacity import least
from app.llm.patience import PatientModel

CONNECTION = frozenset({ErrorClass.UNREACHABLE, ErrorClass.TIMEOUT})
ELIGIBLE: Mapping[str, frozenset[ErrorClass]] = {
    "connection": CONNECTION,
    # An answer of nothing, or a page of a proxy, is what an unavailable server looks like with the status 200.
    "availability": CONNECTION
    | {ErrorClass.MODEL_NOT_FOUND, ErrorClass.RATE_LIMIT, ErrorClass.UPSTREAM}
    | {ErrorClass.EMPTY_STREAM, ErrorClass.NOT_JSON},
}


@dataclass(frozen=True)
class Candidate:
    """A model that may answer: its name, who asks it, and its output budget."""

    model: str
    chat: ChatModel
    max_tokens: int | None = None

    def stream(self, request: ChatRequest, *, patient: bool) -> Iterator[ModelEvent]:
        """The answer of this candidate to `request`."""
        if isinstance(self.chat, PatientModel):
            return self.chat.stream(request, patient=patient)
        return self.chat.stream(request)

    def due_in(self, *, ahead: int = 0) -> float:
        """Seconds until it may be asked, after `ahead` others."""
        return self.chat.due_in(self.model, ahead=ahead) if isinstance(self.chat, PatientModel) else 0.0


class FallbackModel:
    """A ChatModel for one turn with two candidates."""

    def __init__(self, first: Candidate, second: Candidate, *, on: str) -> None:
        self.first = first
        self.second = second
        self._eligible = ELIGIBLE[on]
        self._order = (first, second)

    def stream(self, request: ChatRequest) -> Iterator[ModelEvent]:
        """See base.ChatModel. When both fail the error is that of the candidate that was asked first."""
        patient = ErrorClass.RATE_LIMIT not in self._eligible
        seen = _Seen()
        preferred, other = self._order
        try:
            yield from seen.events(preferred.stream(self._for(preferred, request), patient=patient))
            return
        except ModelError as error:
            if seen.text or error.error_class not in self._eligible:
                raise
            failed = error
        try:
            yield from seen.events(other.stream(self._for(other, request), patient=True))
        except ModelError as error:
            if seen.text:
                raise
            failed.detail = failures.masked(f"{failed.detail}; then {other.model}: {error.detail}", None)
            raise failed from error
        self._order = (other, preferred)

    def due_in(self, *, ahead: int = 0) -> float:
        """Seconds until one of them may be asked, after `ahead` others."""
        if ErrorClass.RATE_LIMIT not in self._eligible:
            return self._order[0].due_in(ahead=ahead)
        return min(candidate.due_in(ahead=ahead) for candidate in self._order)

    def _for(self, candidate: Candidate, request: ChatRequest) -> ChatRequest:
        if candidate is self.first:
            return request
        return replace(request, model=candidate.model, max_tokens=least(request.max_tokens, candidate.max_tokens))


class _Seen:
    """Whether anything was visible."""

    def __init__(self) -> None:
        self.text = False

    def events(self, stream: Iterator[ModelEvent]) -> Iterator[ModelEvent]:
        with closing(cast("Generator[ModelEvent, None, None]", stream)):
            for event in stream:
                self.text = self.text or (isinstance(event, TextDelta) and bool(event.text.strip()))
                yield event
