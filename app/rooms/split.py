"""One answer becomes messages that fit: at paragraphs where possible, never inside a fence or a table that fits.

The parts joined are the answer again, up to white space at the seams. A fence that is longer than a message is closed
at the end of a part and opened again, with its info string, at the beginning of the next.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

LIMIT = 32_000
FENCE = re.compile(r"(?P<indent>[ \t>]*)(?P<mark>`{3,}|~{3,})(?P<info>.*)")
TABLE_CELL = re.compile(r":?-+:?")
SENTENCE_END = re.compile(r"[.!?…。！？]['\"”’)\]*_]*\s+|[。！？]")
WHOLE = re.compile(r"\[[^\[\]\n]*\]\([^()\s]*\)|`[^`\n]+`")
SPACE = re.compile(r"\s+")
JOINERS = "\u200d\ufe0e\ufe0f"


@dataclass(frozen=True)
class Block:
    """Lines that belong together, with their line ends; `mark` opens a fence and is empty elsewhere."""

    lines: tuple[str, ...]
    mark: str = ""
    indent: str = ""
    closed: bool = True

    @property
    def text(self) -> str:
        return "".join(self.lines)


def split(text: str, limit: int = LIMIT) -> list[str]:
    """The messages of an answer, each of 1 to `limit` code points; none for an answer of white space."""
    parts: list[str] = []
    current = ""
    for block in blocks(text):
        if len(_trimmed(current + block.text)) <= limit:
            current += block.text
            continue
        *full, current = _cut(block, current, limit)
        parts += full
    return [part for part in map(_trimmed, [*parts, current]) if part]


def closed(text: str) -> str:
    """The text with its last fence closed, so that something may be said after it."""
    last = None
    for last in blocks(text):  # noqa: B007 - only the last one counts
        pass
    if last is None or last.closed:
        return text
    return f"{text.rstrip()}\n{last.indent}{last.mark}"


def _trimmed(part: str) -> str:
    """Without blank lines before and white space behind; the indentation of the first line stays."""
    return re.sub(r"\A(?:[^\S\n]*\n)+", "", part.rstrip())


def blocks(text: str) -> Iterator[Block]:
    """The paragraphs, tables and fences of a text, each with the blank lines that follow; joined, they are the text."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    start = 0
    while start < len(lines):
        block = _fence(lines, start) or Block(tuple(lines[start : _end(lines, start)]))
        yield block
        start += len(block.lines)


def _fence(lines: list[str], start: int) -> Block | None:
    opening = _opening(lines[start])
    if opening is None:
        return None
    mark, indent = opening["mark"], opening["indent"]
    for end in range(start + 1, len(lines)):
        bare = lines[end].strip().lstrip("> \t")
        if len(bare) >= len(mark) and bare == mark[0] * len(bare):
            return Block(tuple(lines[start : end + 1]), mark, indent)
    return Block(tuple(lines[start:]), mark, indent, closed=False)


def _opening(line: str) -> re.Match[str] | None:
    found = FENCE.fullmatch(line.rstrip())
    if found is None or (found["mark"][0] == "`" and "`" in found["info"]):
        return None
    return found


def _end(lines: list[str], start: int) -> int:
    """Where the table or the paragraph that begins at `start` ends, its blank lines included."""
    table = _is_table(lines, start)
    end = start + 1
    while end < len(lines) and lines[end].strip():
        if ("|" not in lines[end]) if table else (_opening(lines[end]) is not None or _is_table(lines, end)):
            return end
        end += 1
    while end < len(lines) and not lines[end].strip():
        end += 1
    return end


def _is_table(lines: list[str], at: int) -> bool:
    if "|" not in lines[at] or at + 1 >= len(lines):
        return False
    rule = lines[at + 1].strip("> \t\r\n")
    cells = rule.removeprefix("|").removesuffix("|").split("|")
    return "|" in rule and all(TABLE_CELL.fullmatch(cell.strip()) for cell in cells)


def _cut(block: Block, current: str, limit: int) -> list[str]:
    """Full parts, then the beginning of the next one, which may grow; a block that fits is never cut."""
    if not _trimmed(current):
        current = ""
    if len(_trimmed(block.text)) <= limit:
        return [current, block.text]
    begun = [] if len(current) <= limit // 2 else [current]
    head = "" if begun else current
    if block.mark and len(block.lines[0]) + len(block.indent) + len(block.mark) < limit // 2:
        return begun + _cut_fence(block, head, limit)
    return begun + _cut_lines(list(block.lines), head, limit)


def _cut_fence(block: Block, head: str, limit: int) -> list[str]:
    opening = block.lines[0]
    closing = block.indent + block.mark
    body = list(block.lines[1:-1] if block.closed else block.lines[1:])
    room = limit - len(opening) - len(closing) - 1
    parts: list[str] = []
    piece = head + opening
    for line in (piece_of_line for whole in body for piece_of_line in _short(whole, room)):
        if len(piece) + len(line) + len(closing) + 1 > limit:
            parts.append(_line_end(piece) + closing)
            piece = opening
        piece += line
    end = block.lines[-1] if block.closed else ""
    if len((_line_end(piece) + end).rstrip()) > limit:
        parts.append(_line_end(piece) + closing)
        piece = opening
    return [*parts, (_line_end(piece) if end else piece) + end]


def _line_end(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _short(line: str, limit: int) -> Iterator[str]:
    """A line of code in pieces that fit."""
    while len(line) > limit:
        at = _between_characters(line, limit)
        yield line[:at]
        line = line[at:]
    yield line


def _cut_lines(lines: list[str], head: str, limit: int) -> list[str]:
    parts: list[str] = []
    for line in lines:
        if len((head + line).rstrip()) <= limit:
            head += line
            continue
        if len(line.rstrip()) <= limit:
            parts.append(head)
            head = line
            continue
        head += line
        while len(head.rstrip()) > limit:
            at = _seam(head, limit)
            parts.append(head[:at])
            head = head[at:]
    return [*parts, head]


def _seam(text: str, limit: int) -> int:
    """Where to cut: after a sentence, else at a space, else anywhere between two characters; never inside a link."""
    window = text[:limit]
    wholes = [found.span() for found in WHOLE.finditer(text[: 2 * limit]) if found.end() - found.start() <= limit]
    at = _last(SENTENCE_END.finditer(window), wholes)
    if at < limit // 2:
        at = _last(SPACE.finditer(window), wholes)
    if at < limit // 4:
        at = next((begin for begin, end in wholes if 0 < begin < limit < end), limit)
        at = _between_characters(text, at)
    return at


def _last(found: Iterable[re.Match[str]], wholes: Sequence[tuple[int, int]]) -> int:
    """The last end of a match that is in none of `wholes`, which are in order and apart; 0 where there is none."""
    begins = [begin for begin, _ in wholes]
    for at in reversed([match.end() for match in found]):
        before = bisect_left(begins, at) - 1
        if before < 0 or at >= wholes[before][1]:
            return at
    return 0


def _between_characters(text: str, at: int) -> int:
    """The nearest place before `at` that divides no character from its accents or joined parts."""
    place = at
    while place > max(0, at - 32) and place < len(text) and _joined(text, place):
        place -= 1
    return place if place > max(0, at - 32) else at


def _joined(text: str, at: int) -> bool:
    return unicodedata.combining(text[at]) > 0 or text[at] in JOINERS or text[at - 1] == "\u200d"
