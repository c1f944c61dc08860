"""Signatures of chat systems: HMAC-SHA256 over a random text and a payload, in hex, compared in constant time.

The random text is a header: its bytes are what stood on the wire, which WSGI hands on as latin-1 text.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence

MIN_RANDOM = 32
RANDOM_BYTES = 48
# What an absent secret is checked against, so that its absence takes no less time; it never makes anything valid.
NO_SECRET = "-" * 64


def sign(secret: str, random: str, payload: bytes) -> str:
    """The lower-case hex signature of `payload` (raw bytes) under `secret`."""
    key = secret.encode("utf-8", "surrogatepass")
    return hmac.digest(key, _wire(random) + payload, hashlib.sha256).hex()


def fresh_random() -> str:
    """A random text for one request: 64 URL-safe characters."""
    return secrets.token_urlsafe(RANDOM_BYTES)


def valid(secret: str, random: str, body: bytes, signature: str) -> bool:
    """True when `signature` (hex, any case) fits; never raises, whatever the header held."""
    return valid_any((secret,), random, body, signature) is not None


def valid_any(candidates: Sequence[str | None], random: str, body: bytes, signature: str) -> int | None:
    """The position of the first secret that fits, or None. Every candidate is tried, also one that is absent (None).

    A random text shorter than MIN_RANDOM fits nothing, but costs the same.
    """
    given = signature.lower().encode("utf-8", "surrogatepass")
    fits: int | None = None
    for position, secret in enumerate(candidates):
        made = sign(secret or NO_SECRET, random, body).encode()
        equal = hmac.compare_digest(made, given)
        if equal and secret and fits is None and len(random) >= MIN_RANDOM:
            fits = position
    return fits


def _wire(random: str) -> bytes:
    try:
        return random.encode("latin-1")
    except UnicodeEncodeError:
        return random.encode("utf-8", "surrogatepass")
