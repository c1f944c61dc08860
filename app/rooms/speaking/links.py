"""Links in what a model says: those that somebody showed it stay, all others are shown as plain text.

A link is a way out: a preview is fetched as soon as it stands in a room, and a label can hide where it leads. So a model
can't make one up, with what it read in its address. Code, and answers that are JSON, have no links.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from app.rooms.split import blocks

Listed = Callable[[str], bool]

URL = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]{1,2000}", re.IGNORECASE)
TOKEN = re.compile(
    r"(?P<code>`+)"
    r"|(?P<image>!?)\[(?P<label>[^\[\]\n]{0,500})\]\(\s{0,5}<?(?P<target>[^()\s<>]{1,2000}"
    r"(?:\([^()\s<>]{0,300}\)[^()\s<>]{0,300}){0,3})>?(?:\s{1,5}(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'))?\s{0,5}\)"
    r"|^[ \t>]{0,12}\[(?P<name>[^\]\n]{1,200})\]:[ \t]{0,5}<?(?P<reference>[^\s<>]{1,2000})>?[^\n]*$"
    r"|<?(?P<bare>(?:https?://|www\.)[^\s<>`]{1,2000})>?",
    re.IGNORECASE | re.MULTILINE,
)
PUNCTUATION = ".,;:!?'\"*_~"
LONGEST_RUN = 32


@dataclass
class Known:
    """The addresses that were shown to the model, exactly, and the hosts that may always be linked."""

    hosts: frozenset[str] = frozenset()
    addresses: set[str] = field(default_factory=set)

    def learn(self, texts: Iterable[str]) -> None:
        """Takes the addresses in these texts."""
        for text in texts:
            self.addresses.update(_bare(found.group()) for found in URL.finditer(text))

    def __call__(self, address: str) -> bool:
        if _bare(address) in self.addresses:
            return True
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
        except ValueError:
            return False
        # A name and a password before the host are there to be taken for it.
        return parts.scheme.lower() in ("http", "https") and parts.username is None and host.lower() in self.hosts


def plain(text: str, listed: Listed) -> str:
    """The text with every link that is not `listed` shown as what it is; nothing else is altered."""
    if "](" not in text and "://" not in text and "www." not in text.lower() and "]:" not in text:
        return text
    if _is_json(text):
        return text
    return "".join(block.text if block.mark else "".join(_shown(block.text, listed)) for block in blocks(text))


def _shown(text: str, listed: Listed) -> Iterator[str]:
    at = 0
    unclosed: set[str] = set()
    while found := TOKEN.search(text, at):
        yield text[at : found.start()]
        run = found["code"]
        if run is None:
            yield _link(found, listed)
            at = found.end()
            continue
        end = -1 if run in unclosed or len(run) > LONGEST_RUN else text.find(run, found.end())
        if end < 0:
            unclosed.add(run)
        at = found.end() if end < 0 else end + len(run)
        yield text[found.start() : at]
    yield text[at:]


def _link(found: re.Match[str], listed: Listed) -> str:
    if found["target"] is not None:
        target, label = found["target"], found["label"].strip()
        if listed(target):
            return found.group()
        return f"{label} ({_code(target)})" if label and label != target else _code(target)
    if found["reference"] is not None:
        return found.group() if listed(found["reference"]) else f"{found['name']}: {_code(found['reference'])}"
    address = _bare(found["bare"])
    if listed(address):
        return found.group()
    return _code(address) + found["bare"][len(address) :]


def _code(address: str) -> str:
    return f"`{address.replace('`', '%60')}`"


def _bare(address: str) -> str:
    """An address without what belongs to the sentence around it."""
    address = address.rstrip(PUNCTUATION)
    while address.endswith(")") and address.count(")") > address.count("("):
        address = address[:-1].rstrip(PUNCTUATION)
    return address


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
