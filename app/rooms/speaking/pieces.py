"""How much of an answer that is still being written may be said now (product.md K11).

Paragraphs, tables and fences are said as soon as they are complete; else a sentence, when nothing was said for a while.
Nothing is cut that belongs together: no link, no code, no table, no citation from the sentence that it is for.
"""

from __future__ import annotations

import re

from app.rooms.split import WHOLE, blocks

SENTENCE_SECONDS = 3.0
SENTENCE_CHARACTERS = 100
SHORTEST_SENTENCE = 50
# After a word of some length: an abbreviation ends no sentence. What follows must be seen, and be no citation.
SENTENCE_END = re.compile(r"(?:(?<=[^\W\d_]{3})[.!?…][\"'”’)*_]*[ \t\n]+(?=[^\s\[(])|[。！？](?=[^\s\[(]))")
STRUCTURE = re.compile(r"[ \t]*(?:[-*+][ \t]|\d{1,9}[.)][ \t]|#{1,6}[ \t]|>|\||`{3,}|~{3,}|\t| {4})")
LONGEST_LOOKED_AT = 64_000


def sayable(text: str, *, waited: float) -> int:
    """The number of characters of `text` that may be said now; `waited` are the seconds since something was said last.

    A text that looks like JSON as a whole is said when it is whole.
    """
    if text.lstrip()[:1] in ("{", "["):
        return 0
    complete = _complete(text)
    if text[:complete].strip():
        return complete
    if waited < SENTENCE_SECONDS or len(text) < SENTENCE_CHARACTERS:
        return 0
    return _sentence(text)


def _complete(text: str) -> int:
    """Where the last block begins: what is before it can't change any more."""
    found = list(blocks(text))
    if len(found) < 2:
        return 0
    last = found[-1].text
    # A heading belongs to what follows it, and so does a line that announces a list.
    keep = 1
    while keep < len(found) and _leads_on(found[-keep - 1].text):
        last = found[-keep - 1].text + last
        keep += 1
    return len(text) - len(last)


def _leads_on(block: str) -> bool:
    bare = block.strip()
    return bare.startswith("#") and "\n" not in bare or bare.endswith(":")


def _sentence(text: str) -> int:
    """After the last whole sentence of a plain paragraph; 0 where there is none of some length."""
    if STRUCTURE.match(text.lstrip("\n")) or text.count("`") % 2:
        return 0
    window = text[:LONGEST_LOOKED_AT]
    wholes = [found.span() for found in WHOLE.finditer(window)]
    ends = [found.end() for found in SENTENCE_END.finditer(window)]
    for end in reversed(ends):
        if end < SHORTEST_SENTENCE:
            return 0
        if not any(begin < end < stop for begin, stop in wholes) and _balanced(window[:end]):
            return end
    return 0


def _balanced(text: str) -> bool:
    """No bracket of a link is open, and no emphasis."""
    return text.count("[") == text.count("]") and text.count("**") % 2 == 0
