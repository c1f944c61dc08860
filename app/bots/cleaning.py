"""Cuts mentions out of a text so that what stays reads as if they had never stood there; code is never touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.bots.folding import is_word, unspaced
from app.bots.markup import CODE

# Seen by nobody, and of no use at the edge of a text. Not the selectors and joiners that belong to an emoji.
LOOSE = frozenset("\u00ad\u061c\u200b\u200c\u200d\u200e\u200f\u2060\ufeff") | {
    chr(code) for code in (*range(0x202A, 0x202F), *range(0x2061, 0x2065), *range(0x2066, 0x206A))
}
PAIRS = frozenset(
    {
        *("**", "__", "~~", "()", "[]", "{}", "<>", '""', "''"),
        *("\u201c\u201d", "\u201e\u201c", "\u2018\u2019", "\u00ab\u00bb", "\u3010\u3011", "\u300c\u300d"),
        *("\u300e\u300f", "\uff08\uff09", "\u3008\u3009", "\u300a\u300b"),
    }
)
APOSTROPHES = frozenset("'\u2019\u02bc\uff07")
AFTER_ADDRESS = frozenset(",;:\uff0c\u3001\uff1a\uff1b\u060c")
BETWEEN = frozenset("/&+")
CLOSERS = frozenset(".,;:!?)]}\u2026\u3002\uff0c\u3001\uff01\uff1f\u060c\u061f")


@dataclass(frozen=True)
class Cut:
    """A piece of the source that goes."""

    start: int
    end: int


@dataclass(frozen=True)
class _Text:
    """The source with its marks. Nothing matches outside of it and in code."""

    source: str
    marks: bytes

    def at(self, index: int) -> str:
        """The character at `index`, empty outside the text and in code."""
        if not 0 <= index < len(self.source) or self.marks[index] == CODE:
            return ""
        return self.source[index]

    def loose(self, index: int) -> bool:
        return self.at(index) in LOOSE

    def gap(self, index: int) -> bool:
        """White space within a line, or what nobody sees."""
        character = self.at(index)
        return character in LOOSE or (character.isspace() and character not in "\r\n")

    def empty(self, index: int) -> bool:
        character = self.at(index)
        return character in LOOSE or character.isspace()


def without(source: str, cuts: Sequence[Cut], *, marks: bytes) -> str:
    """The source without `cuts` (in order, not overlapping) and without the gaps they leave; trimmed at both ends."""
    text = _Text(source, marks)
    gone: list[Cut] = []
    opens = True  # whether the last cut stood at the beginning of its line
    for number, cut in enumerate(cuts):
        floor = gone[-1].end if gone else 0
        ceiling = cuts[number + 1].start if number + 1 < len(cuts) else len(source)
        wide = _unwrapped(text, cut, floor=floor, ceiling=ceiling)
        line = _gap_before(text, wide.start, floor=floor)
        opens = (opens and line == floor) or line == 0 or source[line - 1] in "\r\n"
        gone.append(_at_start(text, wide, line, ceiling) if opens else _inside(text, wide, line))
    return _trimmed(text, gone)


def _unwrapped(text: _Text, cut: Cut, *, floor: int, ceiling: int) -> Cut:
    """The cut with its possessive ending and with what wraps it and nothing else: **name**, (name), "name"."""
    start, end = cut.start, cut.end
    if text.at(end) in APOSTROPHES and text.at(end + 1) in ("s", "S") and not _word(text.at(end + 2)):
        end += 2
    while True:
        before, after = start, end
        while before > floor and text.loose(before - 1):
            before -= 1
        while after < ceiling and text.loose(after):
            after += 1
        start, end = before, after
        if start <= floor or end >= ceiling or text.at(start - 1) + text.at(end) not in PAIRS:
            return Cut(start, end)
        start, end = start - 1, end + 1


def _gap_before(text: _Text, index: int, *, floor: int) -> int:
    while index > floor and text.gap(index - 1):
        index -= 1
    return index


def _at_start(text: _Text, cut: Cut, line: int, ceiling: int) -> Cut:
    """Whoever is addressed first is followed by a comma or a colon, which goes along."""
    end = _gap_after(text, cut.end, ceiling)
    follows = text.at(end)
    if follows in BETWEEN and _gap_after(text, end + 1, ceiling) == ceiling < len(text.source):
        return Cut(line, ceiling)
    smiles = follows in ":;" and text.at(end + 1) in ("(", ")", "D")
    dashes = follows in ("\u2013", "\u2014") or (follows == "-" and text.gap(end + 1))
    if dashes or (follows in AFTER_ADDRESS and not smiles):
        end = _gap_after(text, end + 1, ceiling)
    return Cut(line, end)


def _gap_after(text: _Text, index: int, ceiling: int) -> int:
    while index < ceiling and text.gap(index):
        index += 1
    return index


def _inside(text: _Text, cut: Cut, line: int) -> Cut:
    """In the middle of a line the gap before goes, so that one gap stays."""
    follows = text.source[cut.end : cut.end + 1]
    if not follows or follows.isspace() or follows in CLOSERS:
        return Cut(line, cut.end)
    return cut


def _trimmed(text: _Text, gone: Sequence[Cut]) -> str:
    kept: list[Cut] = []
    at = 0
    for cut in (*gone, Cut(len(text.source), len(text.source))):
        if at < cut.start:
            kept.append(Cut(at, cut.start))
        at = max(at, cut.end)
    while kept and text.empty(kept[0].start):
        kept[0:1] = [Cut(kept[0].start + 1, kept[0].end)] if kept[0].start + 1 < kept[0].end else []
    while kept and text.empty(kept[-1].end - 1):
        kept[-1:] = [Cut(kept[-1].start, kept[-1].end - 1)] if kept[-1].start < kept[-1].end - 1 else []
    return _joined([text.source[cut.start : cut.end] for cut in kept])


def _joined(pieces: Sequence[str]) -> str:
    """What stood apart because of a mention stays apart: words, and runs that would open or close code together."""
    joined: list[str] = []
    for piece in pieces:
        last = joined[-1][-1] if joined else ""
        if (_word(last) and _word(piece[0])) or (last == piece[0] and last in "`~"):
            joined.append(" ")
        joined.append(piece)
    return "".join(joined)


def _word(character: str) -> bool:
    return bool(character) and is_word(character) and not unspaced(character)
