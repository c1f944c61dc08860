"""The addresses of a model server, from whatever form of one of them an administrator typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.infra.errors import BadInput
from app.infra.i18n import say

KNOWN_ENDS = ("/chat/completions", "/completions", "/embeddings", "/models", "/responses")
VERSION = re.compile(r"v\d+\w*", re.IGNORECASE)


@dataclass(frozen=True)
class Urls:
    """Where a model server takes what."""

    chat: str
    models: str
    embeddings: str


def normalise(base: str) -> Urls:
    """`base` is a server's root, its API (any version segment counts) or one full path. Raises BadInput.

    /v1 is added only to an address that names neither a version nor a full path.
    """
    try:
        parts = urlsplit(base.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.username is not None:
        raise BadInput(say("This is not the address of a model server, such as https://models.example.com/v1."))
    path = parts.path.rstrip("/")
    end = next((end for end in KNOWN_ENDS if path.lower().endswith(end)), "")
    path = path[: len(path) - len(end)].rstrip("/")
    if not end and not any(VERSION.fullmatch(segment) for segment in path.split("/")):
        path += "/v1"
    place = f"[{host}]" if ":" in host else host
    root = f"{parts.scheme}://{place}{f':{port}' if port else ''}{path}"
    query = f"?{parts.query}" if parts.query else ""
    return Urls(root + "/chat/completions" + query, root + "/models" + query, root + "/embeddings" + query)
