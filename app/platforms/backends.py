"""How a server calls itself in its requests: a claim, held against the addresses we know, never used as one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}
# What Talk sends when its own address was never configured.
NAMELESS = ("", "/")

Place = tuple[str, str, int, str]


def fits(claimed: str, known: Iterable[str]) -> bool:
    """True when `claimed` names no server, or one of the known addresses: scheme, host, port and path are compared."""
    if claimed.strip() in NAMELESS:
        return True
    place = _place(claimed.strip())
    return place is not None and any(place == _place(url) for url in known)


@lru_cache(maxsize=256)
def _place(url: str) -> Place | None:
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        return None
    return parts.scheme, parts.hostname.rstrip("."), port, parts.path.rstrip("/")
