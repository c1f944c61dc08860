"""How names are compared: case, width and invisible characters don't count, and every character keeps its place.

A folded text is compatibility-decomposed (NFKD), case-folded, and without characters that nobody sees. Decomposition
knows no context, so each character folds alone and its place in the source stays known. Look-alike letters of other
scripts stay what they are.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

# Zero width space: nobody sees it, but whoever typed it meant a break.
BREAK = "\u200b"
# Joins, selectors and fillers that are no format characters (Cf) by category.
UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
# Scripts written without spaces, or that attach their endings to a foreign name: first and last code, and the script.
UNSPACED = (
    (0x0E00, 0x0E7F, "Thai"),
    (0x0E80, 0x0EFF, "Lao"),
    (0x0F00, 0x0FFF, "Tibetan"),
    (0x1000, 0x109F, "Myanmar"),
    (0x1100, 0x11FF, "Hangul"),
    (0x1780, 0x17FF, "Khmer"),
    (0x2E80, 0x2FDF, "Han"),
    (0x3005, 0x3007, "Han"),
    (0x3021, 0x3029, "Han"),
    (0x3031, 0x3035, "Hiragana"),
    (0x3041, 0x309F, "Hiragana"),
    (0x30A0, 0x30FF, "Katakana"),
    (0x3105, 0x312F, "Bopomofo"),
    (0x3131, 0x318F, "Hangul"),
    (0x31A0, 0x31BF, "Bopomofo"),
    (0x31F0, 0x31FF, "Katakana"),
    (0x3400, 0x4DBF, "Han"),
    (0x4E00, 0x9FFF, "Han"),
    (0xA960, 0xA97F, "Hangul"),
    (0xAC00, 0xD7FF, "Hangul"),
    (0xF900, 0xFAFF, "Han"),
    (0x20000, 0x3FFFF, "Han"),
)


@dataclass(frozen=True)
class Folded:
    """A folded text; `places[i]` is the index in the source of what stands at `text[i]`, with one more for the end."""

    text: str
    places: tuple[int, ...]


def fold(text: str) -> Folded:
    """Folds `text`, in time linear in its length."""
    pieces: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        piece = _fold_one(character)
        pieces.append(piece)
        places.extend([place] * len(piece))
    places.append(len(text))
    return Folded("".join(pieces), tuple(places))


def key(name: str) -> str:
    """The form under which a name is compared and unique: folded, with single spaces."""
    return " ".join("".join(_fold_one(character) for character in name).split())


def is_unseen(character: str) -> bool:
    """True for what leaves no trace on the screen: zero width characters, marks of direction, selectors."""
    return character in UNSEEN or unicodedata.category(character) == "Cf"


def is_word(character: str) -> bool:
    """True for letters, digits and the marks on them."""
    return unicodedata.category(character) in ("Ll", "Lu", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Mn", "Mc")


def unspaced(character: str) -> str:
    """The script of a letter that may meet the next word without a space; empty for every other character."""
    code = ord(character)
    if code < UNSPACED[0][0]:
        return ""
    return next((script for first, last, script in UNSPACED if first <= code <= last), "")


@lru_cache(maxsize=4096)
def _fold_one(character: str) -> str:
    if character == BREAK:
        return BREAK
    if is_unseen(character):
        return ""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    return "".join(part for part in folded if not is_unseen(part))
