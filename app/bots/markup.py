"""Where in a message names don't count: code, quoted lines and addresses of the web. Markdown as chats use it.

Code is a fence of ``` or ~~~ (one that is never closed reaches to the end, one may open in the middle of a line), or a
span between equal runs of backticks within one paragraph. Linear in the length of the text.
"""

from __future__ import annotations

import re

PLAIN, OUTSIDE, CODE = 0, 1, 2

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
QUOTED = re.compile(r"[ \t]*>")
FENCE = re.compile(r"[ \t]*(?:(`{3,})[^`\r\n]*|(~{3,})[^\r\n]*)[\r\n]*\Z")
CLOSING = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*[\r\n]*\Z")
BACKTICKS = re.compile(r"`+")
# What may follow an opening run in the middle of a line: the name of a language, and the end of the line.
INFO = re.compile(r"[ \t]*[\w+#.-]*[ \t]*(?:[\r\n]|\Z)")
# An address ends where its reader would say so: white space, quotes, and the punctuation of scripts without spaces.
ADDRESS = re.compile(
    r"(?:://|\bwww\.)[^\s<>\"`\u201c\u201d\u3001\u3002\u300c-\u3011\uff01\uff08\uff09\uff0c\uff1b\uff1f]+"
)


def marks(text: str) -> bytearray:
    """One mark a character: PLAIN, OUTSIDE (quoted line, address) or CODE."""
    made = bytearray(len(text))
    fence = ""
    paragraph = 0
    for line in LINE.finditer(text):
        start, end = line.span()
        if not fence and _ends_paragraph(line[0]):
            fence = _inline(text, made, start=paragraph, end=start)
            paragraph = end
            if not fence:
                fence = _block(line[0], made, start=start, end=end)
                continue
        if fence:
            _mark(made, CODE, start=start, end=end)
            fence = "" if _closes(line[0], fence) else fence
            paragraph = end
    if not fence:
        _inline(text, made, start=paragraph, end=len(text))
    for found in ADDRESS.finditer(text):
        _mark(made, OUTSIDE, start=found.start(), end=found.end())
    return made


def _ends_paragraph(line: str) -> bool:
    return not line.strip() or QUOTED.match(line) is not None or FENCE.match(line) is not None


def _block(line: str, made: bytearray, *, start: int, end: int) -> str:
    """Marks a line that is no paragraph; gives the run that opens a fence, or nothing."""
    if QUOTED.match(line):
        _mark(made, OUTSIDE, start=start, end=end)
        return ""
    opening = FENCE.match(line)
    if opening is None:
        return ""
    _mark(made, CODE, start=start, end=end)
    return opening[1] or opening[2]


def _closes(line: str, fence: str) -> bool:
    found = CLOSING.match(line)
    return found is not None and found[1].startswith(fence)


def _inline(text: str, made: bytearray, *, start: int, end: int) -> str:
    """Marks the code spans of a paragraph; gives the run of a fence that opens in it and stays open."""
    runs = list(BACKTICKS.finditer(text, start, end))
    partners = _partners(runs)
    index = 0
    while index < len(runs):
        run, partner = runs[index], partners[index]
        if _escaped(text, run.start(), start=start):
            index += 1
        elif partner is not None:
            _mark(made, CODE, start=run.start(), end=runs[partner].end())
            index = partner + 1
        elif len(run[0]) >= 3 and INFO.match(text, run.end(), end):
            _mark(made, CODE, start=run.start(), end=end)
            return run[0]
        else:
            index += 1
    return ""


def _partners(runs: list[re.Match[str]]) -> list[int | None]:
    """For each run the index of the next one that is equally long."""
    later: dict[int, int] = {}
    found: list[int | None] = [None] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = len(runs[index][0])
        found[index] = later.get(length)
        later[length] = index
    return found


def _escaped(text: str, index: int, *, start: int) -> bool:
    before = index
    while before > start and text[before - 1] == "\\":
        before -= 1
    return (index - before) % 2 == 1


def _mark(made: bytearray, mark: int, *, start: int, end: int) -> None:
    # What is code stays code, whatever stands in it.
    if mark == CODE or CODE not in made[start:end]:
        made[start:end] = bytes([mark]) * (end - start)
