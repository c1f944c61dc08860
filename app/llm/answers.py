"""An answer as it is put together: from the chunks of a stream or from one body, in all the shapes that servers use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.llm import failures
from app.llm.base import Completion, ErrorClass, ModelEvent, ReasoningDelta, TextDelta, Usage
from app.llm.fragments import Fragments
from app.llm.sse import SseParser
from app.llm.visible import VisibleText

DONE = "[DONE]"
# Servers send the same thought under two names; the first that says something counts.
REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
CUT_REASONS = frozenset({"length", "max_tokens", "model_length", "content_filter", "incomplete", "error"})
ANSWER_FIELDS = frozenset({"choices", "usage", "id", "object"})
LONGEST_NUMBER = 2**53


class Body:
    """Bytes of an answer become chunk objects, whether they are a stream or one JSON text (their own look decides).

    `done`: the mark of the end came. `broken`: an event was half JSON, so something of the answer is missing.
    """

    def __init__(self) -> None:
        self.done = False
        self.broken = False
        self._begin: bytes | None = b""
        self._json: list[bytes] | None = None
        self._parser = SseParser()

    def feed(self, piece: bytes) -> Iterator[Any]:
        """The objects that are whole now; a str stands for one that is no JSON. Raises sse.LineTooLong."""
        if self._begin is not None:
            self._begin = (self._begin + piece).lstrip(b"\xef\xbb\xbf \t\r\n")
            if not self._begin:
                return
            piece, self._begin = self._begin, None
            # Error pages and JSON come under any content type.
            self._json = [] if piece[:1] in (b"{", b"[", b"<") else None
        if self._json is not None:
            self._json.append(piece)
        else:
            yield from self._events(self._parser.feed(piece))

    def finish(self) -> Iterator[Any]:
        """What was still open when the answer was over."""
        if self._json is not None:
            yield _parsed(b"".join(self._json).decode("utf-8", "replace"))
        else:
            yield from self._events(self._parser.finish())

    @property
    def is_stream(self) -> bool:
        return self._json is None

    def _events(self, events: Iterable[Any]) -> Iterator[Any]:
        for event in events:
            for value in _values(event.data):
                if value == DONE or self.done:
                    self.done = True
                elif isinstance(value, dict):
                    yield {"error": value, **value} if event.name == "error" and "choices" not in value else value
                elif event.name == "error":
                    yield {"error": value}
                elif isinstance(value, str) and value.startswith("{"):
                    self.broken = True


class Answer:
    """Collects one answer; `names` are the tools that it may call."""

    def __init__(self, names: frozenset[str], *, key: str | None) -> None:
        self.finish_reason: str | None = None
        self._key = key
        self._text = VisibleText(names)
        self._shown: list[str] = []
        self._reasoning: list[str] = []
        self._fragments = Fragments(names)
        self._usage = Usage()
        self._model = ""

    @property
    def text(self) -> str:
        """What was visible up to now."""
        return "".join(self._shown)

    @property
    def begun(self) -> bool:
        """True when something came that a person or a tool would notice."""
        return bool(self._shown or self._fragments)

    def take(self, value: Any) -> Iterator[ModelEvent]:
        """One chunk, or one whole body. Raises ModelError for an error object and for what is no answer."""
        if not isinstance(value, dict) or not (ANSWER_FIELDS & value.keys() or _is_error(value)):
            raise failures.made(ErrorClass.NOT_JSON, str(value), key=self._key)
        if _is_error(value) and self.finish_reason is None:
            raise failures.in_stream(value, key=self._key, text=self.text)
        self._note(value)
        choice = _first(value.get("choices"))
        if choice is None:
            return
        whole = choice.get("message")
        part = whole if isinstance(whole, dict) else choice.get("delta")
        if isinstance(part, dict):
            yield from self._part(part, whole=part is whole)
        elif isinstance(choice.get("text"), str):
            yield from self._visible(choice["text"])
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason

    def finish(self, *, ended: bool, model: str) -> Iterator[ModelEvent]:
        """The answer is over; `ended` is False when its end was missing. Raises ModelError when nothing came at all."""
        reading = self._text.finish()
        ended = ended and self.finish_reason not in CUT_REASONS
        calls = self._fragments.calls(ended=ended) or reading.calls
        self._reasoning.append(reading.reasoning)
        reasoning = "".join(self._reasoning)
        if not (reading.text or reasoning or calls or self.finish_reason):
            raise failures.made(ErrorClass.EMPTY_STREAM, "the answer ended before it began", key=self._key)
        if reading.reasoning:
            yield ReasoningDelta(reading.reasoning)
        if reading.rest:
            yield TextDelta(reading.rest)
        yield Completion(
            text=reading.text,
            reasoning=reasoning,
            calls=calls,
            finish_reason=self.finish_reason,
            complete=ended,
            usage=self._usage,
            model=self._model or model,
        )

    def _note(self, value: Mapping[str, Any]) -> None:
        for place in (value, value.get("x_groq"), _first(value.get("choices"))):
            if isinstance(place, dict) and isinstance(place.get("usage"), dict):
                self._usage = _usage(place["usage"])
        if not self._model and isinstance(value.get("model"), str):
            self._model = value["model"][:255]

    def _part(self, part: Mapping[str, Any], *, whole: bool) -> Iterator[ModelEvent]:
        thoughts = next((text for name in REASONING_FIELDS if (text := _reasoning(part.get(name)))), "")
        text, more = _content(part.get("content"))
        if thoughts or more:
            self._reasoning.append(thoughts + more)
            yield ReasoningDelta(thoughts + more)
        yield from self._visible(text or (part["refusal"] if isinstance(part.get("refusal"), str) else ""))
        add = self._fragments.add_whole if whole else self._fragments.add
        add(part.get("tool_calls"))
        if not part.get("tool_calls"):
            add(part.get("function_call"))

    def _visible(self, text: str) -> Iterator[ModelEvent]:
        shown = self._text.feed(text) if text else ""
        if shown:
            self._shown.append(shown)
            yield TextDelta(shown)
        elif text and self._text.is_thinking:
            # What it thinks is known when it is over; that it thinks is worth knowing now.
            yield ReasoningDelta("")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _values(data: str) -> Iterator[Any]:
    """The values in the data of an event: one, or one a line where a server forgot the empty lines between."""
    value = _parsed(data)
    if isinstance(value, str) and "\n" in data:
        yield from (_parsed(line) for line in data.split("\n"))
    else:
        yield value.strip() if isinstance(value, str) else value


def _is_error(value: Mapping[str, Any]) -> bool:
    if value.get("error"):
        return True
    if value.get("object") == "error" or value.get("type") == "error":
        return True
    if "choices" in value:
        return False
    return bool(value.get("detail") or value.get("errors") or isinstance(value.get("message"), str))


def _first(choices: Any) -> Mapping[str, Any] | None:
    """The first choice; the others of a server that makes several are left out."""
    if not isinstance(choices, list):
        return None
    return next((choice for choice in choices if isinstance(choice, dict) and not choice.get("index")), None)


def _content(content: Any) -> tuple[str, str]:
    """(visible text, reasoning) of a content: a text, or a list of parts."""
    if isinstance(content, str):
        return content, ""
    texts, thoughts = [], []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            thoughts.append(_reasoning(part.get("thinking", part.get("reasoning", part.get("text")))))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts), "".join(thoughts)


def _reasoning(value: Any) -> str:
    """The text of a reasoning field: a text, or a list of parts that hold one."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return next((value[name] for name in ("text", "content", "summary") if isinstance(value.get(name), str)), "")
    return "".join(_reasoning(part) for part in value) if isinstance(value, list) else ""


def _usage(told: Mapping[str, Any]) -> Usage:
    prompt = _count(told, "prompt_tokens", "input_tokens")
    completion = _count(told, "completion_tokens", "output_tokens")
    return Usage(prompt, completion, _count(told, "total_tokens") or prompt + completion)


def _count(told: Mapping[str, Any], *names: str) -> int:
    """The first of these numbers that is one; a server that counts in fractions or below zero counts nothing."""
    for name in names:
        value = told.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LONGEST_NUMBER:
            return int(value)
    return 0
