"""A model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.infra import clock, http, netguard
from app.infra.http import Exchange, Head, HttpError
from app.infra.netguard import Guard
from app.llm import failures, payload
from app.llm.answers import Answer, Body
from app.llm.base import Attempt, ChatRequest, ErrorClass, ModelError, ModelEvent, Route, Tick
from app.llm.sse import LineTooLong
from app.llm.urls import Urls
from app.llm.visible import names_of

ANSWER_BYTES = 4 * 1024 * 1024
ERROR_BYTES = 64 * 1024
CONNECT_SECONDS = 10.0
# After the last word some servers keep the connection open without saying that they are done.
SILENCE_SECONDS = 2.0
# What ends a stream arrives with its last word or right after; waiting for it keeps the connection for the next call.
GRACE_SECONDS = 0.05


@dataclass(frozen=True)
class EndpointModel:
    """The models of one endpoint; `stream_seconds` and `whole_seconds` are the wall clock of a call, at most."""

    endpoint: str
    urls: Urls
    key: str | None = field(default=None, repr=False)
    stream_seconds: float = 240.0
    whole_seconds: float = 90.0
    guard: Guard = netguard.ADMIN

    def stream(self, request: ChatRequest) -> Iterator[ModelEvent]:
        """One call, streamed or not as the request says; the events are the same. See base.ChatModel."""
        return Call(self, request, payload.body(request)).events()

    def seconds(self, request: ChatRequest) -> float:
        """How long a call may take: the setting, or what is left until the deadline of the turn."""
        most = self.stream_seconds if request.stream else self.whole_seconds
        return most if request.deadline is None else min(most, request.deadline - clock.monotonic())


class Call:
    """One exchange with the server: what is sent, what has come, and how it ended.

    `body` is `request` as the server takes it; `names` are the tools that the answer may name, by default those of the
    request. `route` and `reason` are for the trace; `status` and `headers` are those of the answer once they came.
    """

    def __init__(
        self,
        model: EndpointModel,
        request: ChatRequest,
        body: Mapping[str, Any],
        *,
        names: frozenset[str] | None = None,
        route: Route = "selected",
        reason: str = "initial",
    ) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self._request = request
        self._sent = body
        self._model = model
        self._route: Route = route
        self._reason = reason
        self._answer = Answer(names_of(request) if names is None else names, key=model.key)
        self._body = Body()
        self._quiet_since = clock.monotonic()

    def events(self) -> Iterator[ModelEvent]:
        """All events, the Attempt and the Completion last. Raises ModelError after the Attempt."""
        begun = clock.monotonic()
        try:
            last = yield from self._answered()
        except ModelError as error:
            yield self._attempt(begun, outcome=error.error_class, detail=error.detail)
            raise
        yield self._attempt(begun, outcome="ok")
        yield last

    def _attempt(self, begun: float, *, outcome: str, detail: str = "") -> Attempt:
        return Attempt(
            self._model.endpoint,
            self._request.model,
            outcome,
            round((clock.monotonic() - begun) * 1000),
            status=self.status,
            detail=detail,
            route=self._route,
            reason=self._reason,
        )

    def _answered(self) -> Generator[ModelEvent, None, ModelEvent]:
        seconds = self._model.seconds(self._request)
        if seconds <= 0:
            raise failures.made(ErrorClass.TIMEOUT, "no time was left for this call")
        cut = False
        try:
            yield from self._exchange(seconds)
        except HttpError as error:
            # The connection broke in the middle: what came is an answer without an end.
            cut = error.kind == "reset" and self._answer.begun
            if not cut:
                raise failures.of_http(error, key=self._model.key, text=self._answer.text) from error
        except LineTooLong as error:
            raise failures.made(ErrorClass.TOO_LARGE, str(error), text=self._answer.text) from error
        ended = not cut and not self._body.broken and (self._body.done or self._ended)
        *before, completion = self._answer.finish(ended=ended, model=self._request.model)
        yield from before
        return completion

    @property
    def _ended(self) -> bool:
        return self._answer.finish_reason is not None or not self._body.is_stream

    def _exchange(self, seconds: float) -> Iterator[ModelEvent]:
        with self._open(seconds) as exchange:
            events = exchange.events()
            for event in events:
                if isinstance(event, Head):
                    self.status, self.headers = event.status, event.headers
                    if not 200 <= event.status < 300:
                        raise (yield from self._refusal(event, events))
                elif event is None:
                    yield Tick()
                else:
                    yield from self._take(event)
                if self._body.done:
                    exchange.close(grace=GRACE_SECONDS)
                    break
                if self._is_silent(event):
                    break
            for value in self._body.finish():
                yield from self._answer.take(value)

    def _open(self, seconds: float) -> Exchange:
        accept = "text/event-stream, application/json" if self._request.stream else "application/json"
        headers = {"Accept": accept}
        if self._model.key:
            headers["Authorization"] = f"Bearer {self._model.key}"
        return http.exchange(
            "POST",
            self._model.urls.chat,
            guard=self._model.guard,
            headers=headers,
            json=self._sent,
            timeout=(CONNECT_SECONDS, seconds),
            total_seconds=seconds,
            max_bytes=ANSWER_BYTES,
        )

    def _take(self, piece: bytes) -> Iterator[ModelEvent]:
        for value in self._body.feed(piece):
            yield from self._answer.take(value)

    def _is_silent(self, event: object) -> bool:
        """True when the answer is over but the server says nothing about it for a while."""
        if event is not None or self._answer.finish_reason is None:
            self._quiet_since = clock.monotonic()
            return False
        return clock.monotonic() - self._quiet_since > SILENCE_SECONDS

    def _refusal(self, head: Head, events: Iterator[Head | bytes | None]) -> Generator[ModelEvent, None, ModelError]:
        body = b""
        try:
            for event in events:
                if event is None:
                    yield Tick()
                elif isinstance(event, bytes):
                    body += event
                if len(body) > ERROR_BYTES:
                    break
        except HttpError:
            pass  # the status says enough
        return failures.of_answer(head.status, body, head.headers, key=self._model.key)
