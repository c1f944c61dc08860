"""Mentions in an answer wake nobody: an invisible character after the @ keeps Talk from resolving them.

Talk looks for mentions in the raw text, inside code too, so this does too. Nothing else is altered: addresses of
e-mail and of the web stay usable, and JSON keeps its keys.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection

from app.rooms.split import blocks

ZERO_WIDTH = "\u200b"
NAME = re.compile(r"\"[^\"\n]{1,190}\"|[\w.'@-]{1,190}")
# What Talk resolves: an @ at the beginning, after white space or after one of these characters.
FOLLOWS = r"(?=[\w.'@-]|\"[^\"\n]{1,190}\")"
RESOLVED = re.compile(rf"(?<![^\s.'@-])@{FOLLOWS}")
# What looks like a mention to a reader, and could be resolved by another version: any @ outside of an address.
LIKELY = re.compile(rf"(?P<link>https?://\S+)|(?<![\w/])@{FOLLOWS}")


def neutralised(text: str, *, intended: Collection[str] = ()) -> str:
    """The text with every mention broken, invisibly, except those of the names in `intended` (without @ and quotes)."""
    wanted = frozenset(name.casefold() for name in intended)
    if _is_json(text):
        return _broken(RESOLVED, text, wanted)
    return "".join(_broken(RESOLVED if block.mark else LIKELY, block.text, wanted) for block in blocks(text))


def digest(text: str) -> str:
    """What a message of ours is recognised by when somebody quotes it: its characters, however they are spaced."""
    bare = " ".join(unicodedata.normalize("NFC", text.replace(ZERO_WIDTH, "")).split())
    return hashlib.sha256(bare.encode("utf-8", "replace")).hexdigest()


def _broken(pattern: re.Pattern[str], text: str, wanted: frozenset[str]) -> str:
    def one(found: re.Match[str]) -> str:
        if found[0] != "@":
            return _broken(RESOLVED, found[0], wanted)
        name = NAME.match(text, found.end()) if wanted else None
        if name is not None and name[0].strip('"').casefold() in wanted:
            return "@"
        return "@" + ZERO_WIDTH

    return pattern.sub(one, text)


def _is_json(text: str) -> bool:
    bare = text.strip()
    if not bare.startswith(("{", "[")):
        return False
    try:
        json.loads(bare)
    except (ValueError, RecursionError):
        return False
    return True
