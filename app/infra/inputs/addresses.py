"""Addresses that an administrator types: one form, and nothing in them that doesn't belong there.

Names are resolved and checked again at each connection (infra.netguard); what can be told from the text is told here,
at the field, while whoever typed it still looks.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from app.infra.errors import BadInput
from app.infra.i18n import Sentence, say
from app.infra.netguard import ADMIN

LONGEST = 1024


def checked(text: str, *, field: str = "url") -> str:
    """`text` with scheme and host in lower case and without a slash at the end.

    Raises BadInput, with its sentence at `field`, unless it is an http or https address without credentials, query and
    fragment whose host an administrator may name: private is fine, link-local and metadata addresses are not.
    """
    text = text.strip()
    try:
        problem = _problem(text, urlsplit(text))
    except ValueError:
        problem = say("This is not an address, such as https://models.example.com/v1.")
    if problem is not None:
        raise BadInput(problem, fields={field: str(problem)})
    parts = urlsplit(text)
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl().rstrip("/")


def host_changed(before: str, after: str) -> bool:
    """True when what was meant for `before` would reach another host, or the same one no longer encrypted."""
    old, new = urlsplit(before), urlsplit(after)
    return old.hostname != new.hostname or (old.scheme == "https" and new.scheme != "https")


def _problem(text: str, parts: SplitResult) -> Sentence | None:
    if len(text) > LONGEST:
        return say("An address has at most {most} characters.", most=LONGEST)
    if not text.isprintable() or " " in text or "\\" in text:
        return say("An address holds no spaces, backslashes or control characters.")
    if parts.scheme.lower() not in ("http", "https"):
        return say("An address begins with http:// or https://.")
    if not parts.hostname or parts.port == 0 or parts.netloc.endswith(":"):
        return say("This is not an address, such as https://models.example.com/v1.")
    if "@" in parts.netloc:
        return say("An address holds no name and password; keys have a field of their own.")
    if "#" in text or "?" in text:
        return say("An address ends before ? and #; keys have a field of their own.")
    return _forbidden(parts.hostname)


def _forbidden(host: str) -> Sentence | None:
    try:
        # Also 2852039166 and 0xa9fea9fe are read as what they mean; names are not looked up.
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    if any(ADMIN.objection(host, ip_address(str(target[0]).partition("%")[0])) for *_, target in found):
        return say("Link-local, metadata and multicast addresses are never reached.")
    return None
