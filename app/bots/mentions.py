"""Which names a message mentions, in order, and its text without them (product.md K5). Pure: no database, no settings.

A name counts after an @ at a word boundary, written plainly or in quotes, and after a / at the very start. It does not
count in code, in quoted lines, in addresses, and in what stands in for a placeholder. Linear in text and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from app.bots import folding, markup
from app.bots.cleaning import Cut, without
from app.bots.folding import BREAK, Folded
from app.platforms.base import IncomingEvent, Named

EVERYONE = "all"
LONGEST_NAME = 100
MOST_UNKNOWN = 20
# Stands for every character of a placeholder: no name has it, no markup begins with it.
OPAQUE = "\ufffc"
SIGNS = "@\uff20\ufe6b"
SLASHES = "/\uff0f"
AROUND = ' "\u201c\u201d\u201e\u00ab\u00bb' + BREAK
END = ""

TOKEN = re.compile(r"\w[\w.\-]*")
QUOTE = re.compile(r"[\"\u201c\u201d\u201e\u00ab\u00bb]")
UNQUOTE = re.compile(r"[\"\u201c\u201d\u00ab\u00bb\r\n]")
JOINTS = re.compile(r"[._-]+")
DASHES_OR_DOTS = re.compile(r"--+|\.\.+")
# What belongs to an address when it follows a word: an @ after it begins no mention.
GLUE = frozenset("_-+%=&#~$^")

Trie = dict[str, Any]


@dataclass(frozen=True)
class Mentions:
    """What `find` saw: each mentioned name once, in order, as it was given; the text without all of them; other names.

    `unknown` are the names after an @ that belong to nobody asked for, for the record.
    """

    names: tuple[str, ...]
    text: str
    unknown: tuple[str, ...] = ()
    source: str = field(default="", repr=False)
    cuts: tuple[tuple[str, Cut], ...] = field(default=(), repr=False)
    marked: bytes = field(default=b"", repr=False)

    def text_for(self, name: str) -> str:
        """The text for one of the mentioned: its own mentions are gone, those of others stay."""
        return without(self.source, [cut for owner, cut in self.cuts if owner == name], marks=self.marked)


@dataclass(frozen=True)
class _Hit:
    """A name at `text[start:end]` of the folded text; `name` is None when nobody asked for has it."""

    start: int
    end: int
    name: str | None


def find(event: IncomingEvent, names: Iterable[str]) -> Mentions:
    """The mentions of `names` in the event's text. Never raises, whatever the text."""
    source = event.text
    if not any(sign in source for sign in SIGNS) and not any(slash in source for slash in SLASHES):
        return Mentions((), source, source=source)
    masked = _masked(source, event.named)
    marks = markup.marks(masked)
    folded = folding.fold(masked)
    cuts: list[tuple[str, Cut]] = []
    unknown: dict[str, str] = {}
    for hit in _hits(folded, marks, _trie(names)):
        start, end = folded.places[hit.start], folded.places[hit.end]
        if hit.name is not None:
            cuts.append((hit.name, Cut(start, end)))
        elif len(unknown) < MOST_UNKNOWN:
            shown = source[start:end].lstrip(SIGNS).strip(AROUND)[:LONGEST_NAME]
            unknown.setdefault(folding.key(shown), shown)
    unknown.pop(EVERYONE, None)
    text = without(source, [cut for _, cut in cuts], marks=bytes(marks)) if cuts else source
    order = tuple(dict.fromkeys(name for name, _ in cuts))
    return Mentions(order, text, tuple(unknown.values()), source, tuple(cuts), bytes(marks))


def _masked(text: str, named: Iterable[Named]) -> str:
    pieces: list[str] = []
    at = 0
    for span in sorted(named, key=lambda span: span.start):
        start, end = max(at, span.start), min(len(text), span.end)
        if start < end:
            pieces += [text[at:start], OPAQUE * (end - start)]
            at = end
    return "".join(pieces) + text[at:]


def _trie(names: Iterable[str]) -> Trie:
    root: Trie = {}
    for name in names:
        node = root
        folded = folding.key(name)
        if folded and folded != EVERYONE:
            for character in folded:
                node = node.setdefault(character, {})
            node.setdefault(END, name)
    return root


def _hits(folded: Folded, marks: bytearray, trie: Trie) -> Iterator[_Hit]:
    text = folded.text
    done = 0
    first = len(text) - len(text.lstrip(" \t\r\n" + BREAK))
    if text[first : first + 1] == "/":
        hit = _name_at(text, first, trie)
        if hit is not None and hit.name is not None and not marks[folded.places[first]]:
            done = hit.end
            yield hit
    at = text.find("@", done)
    while at >= 0:
        hit = None
        if not marks[folded.places[at]] and _begins(text, at, done=done):
            hit = _name_at(text, at, trie)
        if hit is not None:
            done = hit.end if hit.name is not None else done
            yield hit
        at = text.find("@", hit.end if hit is not None else at + 1)


def _begins(text: str, at: int, *, done: int) -> bool:
    """True where an @ at `at` may begin a mention; `done` is where the last mention ended."""
    if at == 0:
        return True
    before = at - 1
    if text[before] == "/" and at - 1 == done:
        return True
    while before >= 0 and text[before] in GLUE:
        before -= 1
    if before < 0:
        return True
    character = text[before]
    if folding.unspaced(character):
        return True
    return not folding.is_word(character) and character not in "@/\\"


def _name_at(text: str, at: int, trie: Trie) -> _Hit | None:
    """The longest name that follows the sign at `at`, or the unknown one, or None where no name follows."""
    start = at + 1
    while text[start : start + 1] == BREAK:
        start += 1
    if QUOTE.match(text, start):
        return _quoted_at(text, at, start=start + 1, trie=trie)
    best: _Hit | None = None
    node, end = trie, start
    while end < len(text) and text[end] in node:
        node = node[text[end]]
        end += 1
        if END in node and _ends(text, end):
            best = _Hit(at, end, node[END])
    if best is not None:
        return best
    token = TOKEN.match(text, start)
    # With another @ behind it, it is somebody's address on another server.
    if token is None or text.startswith("@", token.end()):
        return None
    return _Hit(at, start + len(token[0].rstrip("._-")), None)


def _quoted_at(text: str, at: int, *, start: int, trie: Trie) -> _Hit | None:
    closing = UNQUOTE.search(text, start, start + 2 * LONGEST_NAME)
    if closing is None or closing[0] in "\r\n":
        return None
    node = trie
    for character in " ".join(text[start : closing.start()].split()):
        node = node.get(character, {})
    return _Hit(at, closing.end(), node.get(END))


def _ends(text: str, end: int) -> bool:
    """True where a name that ends at `end` is not the beginning of a longer one."""
    following = text[end : end + 1]
    if not following or following.isspace() or following == BREAK:
        return True
    if following == "@":
        return False
    if folding.is_word(following):
        script = folding.unspaced(following)
        return bool(script) and script != folding.unspaced(text[end - 1])
    if following in "/\\":
        return not _is_latin_word(text, end + 1)
    joint = JOINTS.match(text, end)
    if joint is None or not _is_latin_word(text, joint.end()):
        return True
    return DASHES_OR_DOTS.fullmatch(joint[0]) is not None


def _is_latin_word(text: str, at: int) -> bool:
    following = text[at : at + 1]
    return bool(following) and folding.is_word(following) and not folding.unspaced(following)
