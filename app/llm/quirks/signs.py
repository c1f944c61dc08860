"""Which quirk a refusal is the sign of. Servers word it in many ways; what counts is which part of the request they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.llm.base import ChatRequest, ErrorClass, ModelError
from app.llm.limits.capacity import estimate
from app.llm.quirks.base import Quirk

Body = Mapping[str, Any]

STATUSES = frozenset({None, 400, 404, 405, 415, 422, 500, 501})
CLASSES = frozenset({ErrorClass.BAD_REQUEST, ErrorClass.UPSTREAM, ErrorClass.TOOLS_UNSUPPORTED})
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens")

REFUSED = (
    r"(?:not? (?:currently )?(?:support|permit|allow|valid|accept|enable|implement|available)|n't (?:support|permit|"
    r"allow|accept)|unsupported|unrecogni[sz]ed|unknown|unexpected|extra (?:inputs|fields)|invalid|deprecated|forbid|"
    r"disabled|only)"
)
OUTPUT = re.compile(r"max(?:imum)?[ _](?:new[ _]|output[ _]|completion[ _])?tokens|(?:output|completion) tokens")
TOO_MANY = re.compile(
    r"too (?:large|big|high|many)|at most|up to|less than|greater than|maximum (?:value|allowed|number)|exceed|range|"
    r"must be|[<>≤]|limit"
)
STREAM = re.compile(
    rf"(?<![\w_])stream(?:ing|ed)?(?![\w_]).{{0,60}}{REFUSED}|{REFUSED}.{{0,40}}(?<![\w_])stream(?:ing)?\b"
)
TOOLS = re.compile(rf"{REFUSED}.{{0,40}}\Wtools\b")
USAGE = re.compile(r"include_usage")
LONE_TOOLS = re.compile(r"must define tools|tools ?= ?param|toolconfig|tools (?:must be|are required|is required)")
TOOL_ROLE = re.compile(
    rf"{REFUSED}.{{0,40}}\b(?:role\W{{0,4}}tool|tool\W{{0,3}}role|tool\W{{0,2}} message)|"
    rf"\b(?:role\W{{0,4}}tool|tool\W{{0,3}}role|tool messages?)\b.{{0,40}}{REFUSED}|"
    r"'tool' is not one of|only (?:user|system|assistant)\b.{0,40}\broles? (?:are|is) (?:supported|allowed)|"
    r"role \W?user\W? after role \W?tool"
)
NAME = re.compile(
    r"function_response\.name|\bname\b.{0,40}(?:empty|blank|required|missing)|(?:missing|required).{0,40}\bname\b"
)
SHORT_IDS = re.compile(r"tool[ _]?call[ _]?id.{0,80}(?:length|a-z|9|nine|characters)")
SYSTEM = re.compile(
    rf"\b(?:system|developer)\b.{{0,30}}{REFUSED}|{REFUSED}.{{0,30}}\b(?:system|developer)\b|'system' is not one of"
)
SYSTEM_FIRST = re.compile(
    r"system\b.{0,40}(?:beginning|be (?:the )?first|at the start|first message)|"
    r"(?:multiple|more than one|only one|only a single) system"
)
TURNS = re.compile(
    r"\balternat|consecutive|(?:same|two).{0,20}\broles? in a row|after the (?:optional )?system message|"
    r"(?:start|begin)s? with a? ?\W?user|first message.{0,30}\buser\b|unexpected role|incorrect role|"
    r"expected.{0,30}\brole\b"
)
CONTENT = re.compile(
    r"\bcontents?\b.{0,80}(?:empty|null|none|blank|required|missing|whitespace|at least|too short|string)|"
    r"(?:empty|null|none|blank|non-?empty|missing|required)\b.{0,40}\bcontents?\b"
)
NUMBERS = re.compile(r"(?<![\w.])\d{1,9}(?![\w.]*\d)")
READ_TOKENS = re.compile(
    r"(\d{1,9}) (?:(?:input|prompt) tokens|(?:tokens )?(?:in|from|of) the (?:messages|prompt|input))"
)


@dataclass(frozen=True)
class Refusal:
    """A request that was refused, and in which words."""

    error: ModelError
    request: ChatRequest
    body: Body

    @property
    def words(self) -> str:
        return f"{self.error.param} {self.error.detail}".lower()

    def names(self, field: str) -> bool:
        """Whether it is about this field, and the field was sent."""
        return field in self.body and re.search(rf"(?<![\w]){field}(?![\w])", self.words) is not None

    def says(self, sign: re.Pattern[str]) -> bool:
        return sign.search(self.words) is not None

    def has(self, role: str) -> bool:
        return any(message["role"] == role for message in self.body["messages"])

    @property
    def silent(self) -> bool:
        """Whether some message has no text."""
        return any(not message["content"] or message["content"] == " " for message in self.body["messages"])


def suspects(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    """The quirks that explain a refusal, with their numbers, each once and the likeliest first; nothing for other
    failures."""
    yield from dict.fromkeys(_all(refusal))


def _all(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    error = refusal.error
    if error.error_class == ErrorClass.CONTEXT_OVERFLOW:
        yield from _context(refusal)
    # A model that is missing is a 404; with another status the model was only mentioned.
    elif error.http_status in STATUSES and (error.error_class in CLASSES or _mentions_model(error)):
        for sign in SIGNS:
            yield from sign(refusal)


def guesses(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    """What is tried when a refusal names nothing at all: the one field that not every server of this kind knows."""
    error = refusal.error
    if error.error_class == ErrorClass.BAD_REQUEST and error.http_status in (400, 422) and not error.param:
        yield Quirk.NO_STREAM_OPTIONS, 0


def _context(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    """The messages fit, and only the room kept for the answer does not."""
    limit, sent = refusal.error.limit_tokens, _output(refusal.body)
    if sent is None:
        return
    if limit is None:
        numbers = (pair for pair in _output_tokens(refusal) if pair[0] == Quirk.OUTPUT_TOKENS)
        yield from numbers if any(map(refusal.names, OUTPUT_FIELDS)) else ()
        return
    read = READ_TOKENS.search(refusal.words)
    given = int(read[1]) if read else estimate(refusal.request)
    if given < limit <= given + sent:
        yield Quirk.CONTEXT_TOKENS, limit


def _output_tokens(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    sent = _output(refusal.body)
    if sent is None or not refusal.says(OUTPUT):
        return
    if "max_tokens" in refusal.body and "max_completion_tokens" in refusal.words:
        yield Quirk.COMPLETION_TOKENS, 0
    smaller = [number for text in NUMBERS.findall(refusal.words) if 1 < (number := int(text)) < sent]
    # The status of the answer stands in the same words.
    smaller = [number for number in smaller if number != refusal.error.http_status]
    if smaller and refusal.says(TOO_MANY):
        yield Quirk.OUTPUT_TOKENS, max(smaller)
    if any(map(refusal.names, OUTPUT_FIELDS)):
        if "max_tokens" in refusal.body:
            yield Quirk.COMPLETION_TOKENS, 0
        yield Quirk.NO_OUTPUT_LIMIT, 0


def _temperature(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    if refusal.names("temperature"):
        yield Quirk.NO_TEMPERATURE, 0


def _stream(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    if refusal.names("stream_options") or ("stream_options" in refusal.body and refusal.says(USAGE)):
        yield Quirk.NO_STREAM_OPTIONS, 0
    elif refusal.request.stream and refusal.says(STREAM):
        yield Quirk.NO_STREAM, 0


def _tools(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    words = refusal.words
    if refusal.names("tool_choice") and "--" not in words:
        yield Quirk.NO_TOOL_CHOICE, 0
    refused = refusal.error.error_class == ErrorClass.TOOLS_UNSUPPORTED or refusal.error.param in ("tools", "functions")
    named = "schema" not in words and refusal.says(TOOLS)
    if "tools" in refusal.body and (refused or named):
        yield Quirk.NO_TOOLS, 0


def _tool_messages(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    if not refusal.has("tool"):
        return
    if refusal.says(SHORT_IDS):
        yield Quirk.SHORT_IDS, 0
    if refusal.says(NAME):
        yield Quirk.TOOL_NAMES, 0
    if refusal.says(TOOL_ROLE) or ("tools" not in refusal.body and refusal.says(LONE_TOOLS)):
        yield Quirk.NO_TOOL_ROLE, 0


def _turns(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    """Templates that want turns often know neither tools nor a system message, and say the same of both."""
    if refusal.says(SYSTEM_FIRST):
        yield Quirk.SYSTEM_FIRST, 0
    if refusal.says(TURNS):
        yield Quirk.ALTERNATE, 0
        yield Quirk.NO_TOOL_ROLE, 0
        yield Quirk.NO_SYSTEM, 0
    elif refusal.has("system") and refusal.says(SYSTEM):
        yield Quirk.NO_SYSTEM, 0


def _content(refusal: Refusal) -> Iterator[tuple[Quirk, int]]:
    if refusal.silent and refusal.says(CONTENT):
        yield Quirk.NULL_CONTENT, 0
        yield Quirk.FILLED_CONTENT, 0


SIGNS: tuple[Callable[[Refusal], Iterator[tuple[Quirk, int]]], ...] = (
    _output_tokens,
    _temperature,
    _stream,
    _tool_messages,
    _tools,
    _turns,
    _content,
)
"""In this order: who names a field means it; who speaks of roles may mean any of them."""


def _mentions_model(error: ModelError) -> bool:
    return error.error_class == ErrorClass.MODEL_NOT_FOUND and error.http_status in (400, 422)


def _output(body: Body) -> int | None:
    return next((body[field] for field in OUTPUT_FIELDS if field in body), None)
