"""What of a step may be written down: secrets go by the kind of their key and by their known value, the rest is capped.

By kind, not by substring: a key is read as words (snake, camel and kebab case alike), so `api_key` and `accessToken` are
secrets, while `max_tokens`, `token_limit`, `tokenizer` and Talk's `room_token` are not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from app.infra import logs
from app.infra.db import clean_text

REDACTED = "[redacted]"
KIB = 1024
# Bytes of JSON a step may hold, by its kind; everything else DEFAULT_LIMIT.
LIMITS = {"tool_call": 16 * KIB, "tool_rejected": 16 * KIB}
DEFAULT_LIMIT = 64 * KIB
# Kinds that hold what people and models wrote: their texts are previews.
PREVIEWS = frozenset({"user_message", "history", "model_asked", "model_answered", "answer", "onboarding"})
PREVIEW_CHARS = 1000
ERROR_CHARS = 4096
KEY_CHARS = 200
DEPTH = 12
ITEMS = 500

SECRET_WORDS = frozenset({"authorization", "password", "passwd", "passphrase", "secret", "cookie", "apikey"})
SECRET_PAIRS = frozenset(
    {("api", "key"), ("private", "key"), ("access", "key"), ("signing", "key"), ("encryption", "key")}
)
# A token of these is an address or a place in a list, and opens nothing.
PLAIN_TOKENS = frozenset({"room", "conversation", "page", "continuation", "next"})
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
BEARER = re.compile(
    r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic)\s+|\bbearer\s+(?=\S*\d))([\w.~+/=-]{12,})"
)


def payload(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON value that is kept of a step of `kind`; never raises for what it is given, never exceeds its limit."""
    limit = LIMITS.get(kind, DEFAULT_LIMIT)
    chars = PREVIEW_CHARS if kind in PREVIEWS else limit
    kept = _object(values, chars, DEPTH)
    # Escaped as narrowly as the database keeps it, so that the limit is that of the stored text.
    written = json.dumps(kept, ensure_ascii=False)
    size = len(written.encode())
    if size <= limit:
        return kept
    return {"truncated": True, "original_length": size, "preview": written[:PREVIEW_CHARS]}


def text(value: str, *, chars: int = ERROR_CHARS) -> str:
    """A text without known secrets, at most `chars` characters and a sign that it was cut."""
    # Cut roughly first: masking a text of fifty megabytes would take longer than the turn.
    masked = BEARER.sub(rf"\1{REDACTED}", logs.mask_known(clean_text(value[: chars + 4 * KIB])))
    return masked if len(masked) <= chars and len(value) <= chars + 4 * KIB else masked[:chars] + "…"


def is_secret(key: str) -> bool:
    """True when a value under this key is a secret, judged by the key's words."""
    words = [word.lower() for word in WORDS.findall(key)]
    if SECRET_WORDS.intersection(words) or SECRET_PAIRS.intersection(zip(words, words[1:], strict=False)):
        return True
    return words[-1:] == ["token"] and (len(words) == 1 or words[-2] not in PLAIN_TOKENS)


def _object(values: Mapping[Any, Any], chars: int, depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in list(values.items())[:ITEMS]:
        name = text(str(key), chars=KEY_CHARS)
        hidden = is_secret(str(key)) and value not in ("", None) and not isinstance(value, bool)
        kept[name] = REDACTED if hidden else _value(value, chars, depth - 1)
    return kept


def _value(value: Any, chars: int, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)[:PREVIEW_CHARS]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return text(value, chars=chars)
    if depth <= 0:
        return "…"
    if isinstance(value, Mapping):
        return _object(value, chars, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        kept = [_value(item, chars, depth - 1) for item in list(value)[:ITEMS]]
        return [*kept, "…"] if len(value) > ITEMS else kept
    return f"<{type(value).__name__}>"
