"""One endpoint's model as a turn asks it: within the limits, with its quirks in mind, and again where that can help.

An exchange that fails before anything was visible is made again when its refusal tells what the server does not take
(quirks), or when the server names a time to wait that is short enough. Each remedy is used once, so this ends.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

from app.infra import clock
from app.llm import payload
from app.llm.base import ChatRequest, Completion, ErrorClass, ModelError, ModelEvent, Route, TextDelta, Tick
from app.llm.chat import Call, EndpointModel
from app.llm.limits import buckets
from app.llm.limits.attempts import Attempts
from app.llm.limits.capacity import Capacity
from app.llm.quirks import memory, signs
from app.llm.quirks.base import Known, Quirk
from app.llm.quirks.shape import shaped
from app.llm.quirks.signs import Refusal
from app.llm.visible import names_of

TICK_SECONDS = 0.2
# So long anybody waits without being told.
SHORT_WAIT = 5.0
# The clock of the server may be a little behind.
WAIT_MARGIN = 0.1
MOST_WAITS = 3
MOST_HEALED = 6
WORTH_WAITING = frozenset({ErrorClass.RATE_LIMIT, ErrorClass.UPSTREAM})


@dataclass(frozen=True)
class Terms:
    """Under which conditions a model is asked: the budget of the turn, the limits of its endpoint, the longest wait in
    seconds, what the model can take, and whether it stands in for another."""

    attempts: Attempts
    rates: buckets.Limits = field(default_factory=dict)
    longest_wait: float = 60.0
    capacity: Capacity = field(default_factory=Capacity)
    route: Route = "selected"


class PatientModel:
    """A ChatModel for one turn. `model` makes the exchanges."""

    def __init__(self, model: EndpointModel, terms: Terms) -> None:
        self.model = model
        self.terms = terms
        self.asked = False
        self._known: dict[str, dict[Quirk, int]] = {}

    def stream(self, request: ChatRequest, *, patient: bool = True) -> Iterator[ModelEvent]:
        """See base.ChatModel. Without patience it waits SHORT_WAIT for our own limits at most, and for no server: there is
        somebody else to ask."""
        first, self.asked = not self.asked, True
        return _Asking(self, request, first=first, patient=patient).events()

    def due_in(self, name: str, *, ahead: int = 0) -> float:
        """Seconds until the model of this name may be asked, after `ahead` others."""
        return buckets.due_in(self.model.endpoint, name, self.terms.rates, ahead=ahead)

    def known(self, name: str) -> dict[Quirk, int]:
        """The quirks of the model of this name, read once a turn."""
        if name not in self._known:
            self._known[name] = memory.recall(self.model.endpoint, name, self.model.urls.chat)
        return self._known[name]

    def learn(self, name: str, learned: Known) -> None:
        """Keeps what a healed call has shown, for this turn and for everybody."""
        self.known(name).update(learned)
        memory.remember(self.model.endpoint, name, self.model.urls.chat, learned)


class _Asking:
    """One call of the loop: as many exchanges as it takes."""

    def __init__(self, owner: PatientModel, request: ChatRequest, *, first: bool, patient: bool) -> None:
        self._owner = owner
        self._terms = owner.terms
        self._request = request
        self._first = first
        self._patient = patient
        self._longest = owner.terms.longest_wait if patient else min(SHORT_WAIT, owner.terms.longest_wait)
        self._learned: dict[Quirk, int] = {}
        self._original: ModelError | None = None
        self._visible = False
        self._waited = 0.0
        self._waits = 0
        self._reason = "initial"

    def events(self) -> Iterator[ModelEvent]:
        while True:
            yield from self._admitted()
            request, body = self._form(self._learned)
            call = Call(
                self._owner.model,
                request,
                body,
                names=names_of(self._request),
                route=self._terms.route,
                reason=self._reason,
            )
            try:
                yield from self._watched(call)
                return
            except ModelError as error:
                failed = error
            refused = failed.error_class == ErrorClass.RATE_LIMIT
            named = failed.retry_after
            buckets.heed(self._endpoint, self._request.model, call.headers, named=named, refused=refused)
            yield from self._remedied(failed, Refusal(failed, request, body))

    def _admitted(self) -> Iterator[ModelEvent]:
        """Waits until the endpoint may be asked. Raises ModelError where that is not worth waiting for."""
        with_tools = bool(self._request.tools)
        attempts = self._terms.attempts
        # Nothing is counted for a call that won't be made.
        attempts.check(with_tools=with_tools)
        while (wait := buckets.take(self._endpoint, self._request.model, self._terms.rates)) > 0:
            longest = min(self._longest, SHORT_WAIT) if self._first else self._longest
            if not self._has_time(wait, longest):
                raise buckets.refused(wait)
            yield from waiting(wait)
            self._waited += wait
        attempts.take(with_tools=with_tools)

    def _watched(self, call: Call) -> Iterator[ModelEvent]:
        events = cast("Generator[ModelEvent, None, None]", call.events())
        with closing(events):
            for event in events:
                if isinstance(event, TextDelta) and event.text.strip():
                    self._visible = True
                if isinstance(event, Completion):
                    buckets.heed(self._endpoint, self._request.model, call.headers)
                    if self._learned:
                        self._owner.learn(self._request.model, self._learned)
                yield event

    def _remedied(self, error: ModelError, refusal: Refusal) -> Iterator[ModelEvent]:
        """Prepares the next exchange; raises the error when there is no sense in one."""
        if self._visible:
            raise error
        if self._original is not None:
            raise self._original
        if not self._terms.attempts.may_go_on(with_tools=bool(self._request.tools)):
            raise error
        if self._healed(signs.suspects(refusal), refusal):
            return
        if self._healed(signs.guesses(refusal), refusal):
            self._original = error
            return
        wait = error.retry_after
        may_wait = self._patient and self._waits < MOST_WAITS
        if not may_wait or error.error_class not in WORTH_WAITING or wait is None:
            raise error
        if not self._has_time(wait + WAIT_MARGIN, self._longest + WAIT_MARGIN):
            raise error
        self._reason = "waited"
        self._waits += 1
        yield from waiting(wait + WAIT_MARGIN)
        self._waited += wait

    def _healed(self, suspects: Iterator[tuple[Quirk, int]], refusal: Refusal) -> bool:
        """Takes the first remedy that was not tried and that changes what is sent."""
        if len(self._learned) >= MOST_HEALED:
            return False
        for quirk, value in suspects:
            learned = {**self._learned, quirk: value}
            if quirk not in self._learned and self._form(learned)[1] != refusal.body:
                self._learned, self._reason = learned, quirk.value
                return True
        return False

    def _form(self, learned: Known) -> tuple[ChatRequest, Mapping[str, Any]]:
        """The request as it is sent with what is known and what this call has learned."""
        known = {**self._owner.known(self._request.model), **learned}
        request = shaped(self._request, known, self._terms.capacity)
        return request, payload.body(request, known)

    def _has_time(self, seconds: float, longest: float) -> bool:
        deadline = self._request.deadline
        in_time = deadline is None or clock.monotonic() + seconds < deadline
        return self._longest > 0 and in_time and self._waited + seconds <= longest

    @property
    def _endpoint(self) -> str:
        return self._owner.model.endpoint


def waiting(seconds: float) -> Iterator[Tick]:
    """Waits, and gives a Tick at least every 200 ms."""
    end = clock.monotonic() + seconds
    while (left := min(seconds, end - clock.monotonic())) > 0:
        piece = min(TICK_SECONDS, left)
        clock.sleep(piece)
        seconds -= piece
        yield Tick()
