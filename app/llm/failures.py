"""What went wrong with a model call: a class, a sentence for the room, and a masked, capped detail for the trace.

Servers word their errors in many ways (area b of the tests shows some); the class decides what happens next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from app.infra import clock
from app.infra.http import HttpError
from app.infra.i18n import Sentence, say
from app.llm.base import ErrorClass, ModelError
from app.llm.limits import headers as headers_

DETAIL_CHARS = 500
MASK = "[key]"
# Shorter ones are placeholders such as "x"; replacing them would leave nothing to read.
SHORTEST_KEY = 4
LONGEST_WAIT = 3600.0
LONGEST_LIMIT = 2**31
PARAM_CHARS = 64

SENTENCES: Mapping[ErrorClass, Sentence] = {
    ErrorClass.AUTH: say("The model server does not accept our key. An administrator must set a valid one."),
    ErrorClass.RATE_LIMIT: say("The model server has too much to do, or its quota is used up. Please try again later."),
    ErrorClass.CONTEXT_OVERFLOW: say(
        "This conversation is too long for the model. Ask in fewer words, start anew, or choose a model that reads more."
    ),
    ErrorClass.BAD_REQUEST: say(
        "The model server refused the request. An administrator finds the reason in the trace."
    ),
    ErrorClass.UPSTREAM: say("The model server has a problem at the moment. Please try again later."),
    ErrorClass.UNREACHABLE: say("The model server can't be reached at the moment. Please try again later."),
    ErrorClass.TIMEOUT: say("The model did not answer in time. Please try again."),
    ErrorClass.TOO_LARGE: say("The model's answer was too large, so it was stopped."),
    ErrorClass.MODEL_NOT_FOUND: say(
        "The model server does not have this model. An administrator must choose another one."
    ),
    ErrorClass.TOOLS_UNSUPPORTED: say("This model can't use tools. An administrator must choose another one."),
    ErrorClass.NOT_JSON: say("The model server answered with something that is no model answer. Is its address right?"),
    ErrorClass.EMPTY_STREAM: say("The model's answer was empty. Please try again."),
    ErrorClass.NOT_ALLOWED: say("This model may not be used here. An administrator decides which ones may."),
    ErrorClass.NOT_CONFIGURED: say("This model's server is not set up. An administrator must connect it."),
    ErrorClass.ATTEMPTS: say("This took more requests to the model than are allowed for one answer."),
}

OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|model context|maximum (?:prompt|input) length|"
    r"(?:prompt|input|request|message\w*|conversation) (?:is|are|was) too (?:long|large)|too many (?:input )?tokens|"
    r"exceeds? the (?:maximum|max)\w* (?:number of )?(?:input )?tokens|reduce the length|string_above_max_length"
)
OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
TOOLS = re.compile(r"\btools?\b|tool[ _-]?(?:choice|call)|function[ _-]?call")
UNSUPPORTED = re.compile(r"not support|n't support|unsupported|requires --|not enabled|no endpoints found that support")
NO_MODEL = re.compile(
    r"model\b.{0,120}(?:not found|not exist|n't exist|not a valid|not available|unknown|not loaded|no such)|"
    r"(?:no such|unknown|invalid|unsupported) model|try pulling|model_not_found",
    re.DOTALL,
)
QUOTA = re.compile(r"rate[ _-]?limit|quota|too many requests|insufficient[ _](?:credit|balance|fund)|billing")
BUSY = re.compile(r"overloaded|unavailable|capacity|try again|server[ _]error|internal")
KEY = re.compile(r"api[ _-]?key|authenticat|unauthori[sz]ed|permission|credential")
LIMITS = (
    re.compile(r"(?:maximum|max) context length (?:is|of) (\d+)"),
    re.compile(r"context (?:size|window|length|limit)\D{0,20}(\d+)"),
    re.compile(r"model context of (\d+)"),
    re.compile(r"> ?(\d+) maximum"),
)
SECRETS = re.compile(r"\b(?:sk|pk|gsk|xai|hf)[-_][\w-]{12,}|(?i:bearer)\s+[\w.~+/=-]{8,}")
TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def of_answer(status: int, body: bytes, headers: Mapping[str, str], *, key: str | None = None) -> ModelError:
    """The failure that an HTTP answer other than 2xx means."""
    return _error(status, _decoded(body), headers, key=key)


def in_stream(value: Any, *, key: str | None = None, text: str = "") -> ModelError:
    """The failure that an error object inside an answer of status 200 means; `text` was visible before it."""
    return _error(None, value, {}, key=key, text=text)


def of_http(error: HttpError, *, key: str | None = None, text: str = "") -> ModelError:
    """The failure that a broken exchange means."""
    known = {"timeout": ErrorClass.TIMEOUT, "too_large": ErrorClass.TOO_LARGE}
    kind = known.get(error.kind, ErrorClass.UNREACHABLE)
    return made(kind, f"{error.kind}: {error.detail}", key=key, text=text)


def made(
    kind: ErrorClass,
    detail: str,
    *,
    key: str | None = None,
    status: int | None = None,
    retry_after: float | None = None,
    limit_tokens: int | None = None,
    param: str = "",
    text: str = "",
) -> ModelError:
    """A ModelError with the sentence of its class and a detail that is safe to keep."""
    return ModelError(
        kind,
        SENTENCES[kind],
        detail=masked(detail, key),
        status=status,
        retry_after=retry_after,
        limit_tokens=limit_tokens,
        param=param,
        text=text,
    )


def masked(detail: str, key: str | None) -> str:
    """`detail` in one line without the key or what looks like one, at most DETAIL_CHARS long."""
    if key and len(key) >= SHORTEST_KEY:
        detail = detail.replace(key, MASK)
    detail = SECRETS.sub(MASK, " ".join(detail.split()))
    return detail if len(detail) <= DETAIL_CHARS else detail[: DETAIL_CHARS - 1] + "…"


def waiting_time(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: retry-after-ms, seconds or a date, else until what it calls used up is there
    again (its rate limit headers); None when it says nothing sensible."""
    asked = _retry_after(headers)
    return asked if asked is not None else headers_.used_up(headers) or None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _sensible(milliseconds / 1000)
    text = headers.get("retry-after", "")
    seconds = _number(text)
    if seconds is not None:
        return _sensible(seconds)
    try:
        return _sensible(max(0.0, parsedate_to_datetime(text).timestamp() - clock.now().timestamp()))
    except (ValueError, TypeError, OverflowError):
        return None


def _error(
    status: int | None, value: Any, headers: Mapping[str, str], *, key: str | None, text: str = ""
) -> ModelError:
    code, message = _told(value)
    if status is None:
        status = int(code) if re.fullmatch(r"[45]\d\d", code) else None
    words = f"{code} {message}".lower()
    kind = _class(status, code.lower(), words)
    limit = _limit(value, words) if kind == ErrorClass.CONTEXT_OVERFLOW else None
    param = _param(value)
    told = ("" if code == str(status) else code, message, "" if param in message else f"[{param}]")
    detail = " ".join(filter(None, (f"HTTP {status}" if status else "", *told)))
    wait = waiting_time(headers)
    return made(kind, detail, key=key, status=status, retry_after=wait, limit_tokens=limit, param=param, text=text)


def _class(status: int | None, code: str, words: str) -> ErrorClass:
    if status in (402, 429) or code.startswith("rate_limit"):
        return ErrorClass.RATE_LIMIT
    if code in OVERFLOW_CODES or OVERFLOW.search(words) or status == 413:
        return ErrorClass.CONTEXT_OVERFLOW
    if status in (401, 403):
        return ErrorClass.AUTH
    if TOOLS.search(words) and UNSUPPORTED.search(words):
        return ErrorClass.TOOLS_UNSUPPORTED
    if NO_MODEL.search(words):
        return ErrorClass.MODEL_NOT_FOUND
    if status == 408:
        return ErrorClass.TIMEOUT
    if status is not None:
        return ErrorClass.UPSTREAM if status >= 500 or status in (409, 425) else ErrorClass.BAD_REQUEST
    return _by_words(words)


def _by_words(words: str) -> ErrorClass:
    """The class of an error that came without a status."""
    if QUOTA.search(words):
        return ErrorClass.RATE_LIMIT
    if BUSY.search(words):
        return ErrorClass.UPSTREAM
    if KEY.search(words):
        return ErrorClass.AUTH
    return ErrorClass.BAD_REQUEST if "invalid" in words else ErrorClass.UPSTREAM


def _told(value: Any) -> tuple[str, str]:
    """(code, message) of an error in any of the shapes that servers use."""
    if isinstance(value, str):
        return "", value
    if isinstance(value, list):
        return _told(value[0]) if value else ("", "")
    if not isinstance(value, dict):
        return "", ""
    inner = value.get("error", value.get("errors"))
    if isinstance(inner, dict | list) and inner:
        return _told(inner)
    message = next((value[name] for name in ("message", "detail", "msg", "error", "title") if value.get(name)), "")
    if not isinstance(message, str):
        message = _told(message)[1] or json.dumps(message, ensure_ascii=False)[:DETAIL_CHARS]
    codes = [str(value[name]) for name in ("code", "type", "status") if isinstance(value.get(name), str | int)]
    # The most telling one: a number, then a name of its own, then the kind.
    return next((code for code in codes if code and code.lower() != "none"), ""), message + _kind(value, codes)


def _param(value: Any) -> str:
    """The field of the request that an error is about, its own name only; empty where it names none."""
    for _ in range(4):
        if isinstance(value, list):
            value = value[0] if value else None
        if not isinstance(value, dict):
            break
        place = value.get("param") or value.get("loc") or value.get("field")
        if isinstance(place, list):
            place = ".".join(map(str, place))
        if isinstance(place, str) and place:
            field = place.rpartition(".")[2][:PARAM_CHARS]
            return "" if field == "body" else field
        value = value.get("error", value.get("errors", value.get("detail")))
    return ""


def _kind(value: Mapping[str, Any], codes: list[str]) -> str:
    kind = value.get("type")
    return f" ({kind})" if isinstance(kind, str) and codes and codes[0] != kind else ""


def _decoded(body: bytes) -> Any:
    text = body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(TAGS.sub(" ", text[: 64 * 1024]).split())


def _limit(value: Any, words: str) -> int | None:
    """The context in tokens that the server named."""
    inner = value.get("error", value) if isinstance(value, dict) else None
    named = inner.get("n_ctx") if isinstance(inner, dict) else None
    found = next((found for pattern in LIMITS if (found := pattern.search(words))), None)
    number = named if isinstance(named, int) else int(found[1][:12]) if found else 0
    return number if 0 < number < LONGEST_LIMIT else None


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\s*\d{1,15}(\.\d{1,6})?\s*", text) else None


def _sensible(seconds: float) -> float | None:
    # A Unix time where seconds belong would be a wait of half a century.
    return seconds if seconds <= LONGEST_WAIT else None
