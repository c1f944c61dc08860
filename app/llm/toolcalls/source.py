"""The text of an answer as the readers of notations see it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from app.llm.base import ToolCall
from app.llm.toolcalls.names import resolve

SPACE = re.compile(r"\s*")
# Bars and blocks that some models write in their full-width form become plain; every offset stays what it was.
SHADOW = {ord("｜"): "|", ord("▁"): "_", **{code: chr(code + 32) for code in range(ord("A"), ord("Z") + 1)}}


@dataclass(frozen=True)
class Found:
    """Calls, and the place where the text goes on after them."""

    calls: tuple[ToolCall, ...]
    end: int


class Source:
    """A text to read from. `low` is its shadow, of the same length: lower case, plain bars; markers are found there."""

    def __init__(self, text: str, names: frozenset[str]) -> None:
        self.text = text
        self.low = text.translate(SHADOW)
        self.names = names
        self._known: dict[str, tuple[int, int]] = {}

    def find(self, piece: str, at: int) -> int:
        """Where `piece` comes next, the text's length where it never does. Remembered, so that asking again is free."""
        asked, found = self._known.get(piece, (at, -1))
        if not asked <= at <= found:
            found = self.low.find(piece, at)
            found = len(self.low) if found < 0 else found
            self._known[piece] = (at, found)
        return found

    def first(self, pieces: tuple[str, ...], at: int) -> int:
        """Where the first of `pieces` comes next."""
        return min(self.find(piece, at) for piece in pieces)

    def skip(self, at: int, what: re.Pattern[str] = SPACE) -> int:
        """The place after what matches at `at`; white space unless told otherwise."""
        found = what.match(self.text, at)
        return found.end() if found else at

    def starts(self, piece: str, at: int) -> bool:
        return self.low.startswith(piece, at)

    def char(self, at: int) -> str:
        """The character at `at`, empty at the end."""
        return self.text[at : at + 1]

    def knows(self, name: str) -> bool:
        """True when `name` means a tool of this turn."""
        return resolve(name, self.names) is not None


# Gets the place where the opening marker begins; None when that is no call after all.
Reader = Callable[[Source, int], Found | None]
