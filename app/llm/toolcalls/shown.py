"""The visible text of an answer, and the white space at the places where something was cut out of it."""

from __future__ import annotations

import re

BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")
LINE_HEAD = 128


class Shown:
    """Collects visible text in `pieces`. `line` is the beginning of the line being written; `blank` until a letter came."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.blank = True
        self.line = ""
        self._gap: list[str] | None = []
        self._after_cut = False

    def show(self, text: str) -> None:
        if not text:
            return
        self._follow(text)
        if self._gap is None:
            self.pieces.append(text)
        elif text.isspace():
            self._gap.append(text)
        else:
            gap, self._gap = "".join(self._gap), None
            self.pieces.append(self._bridged(gap + text) if self._after_cut else gap + text)
        self.blank = self.blank and not text.strip()

    def cut(self) -> None:
        """Something between what was shown and what comes was taken out."""
        self._gap = self._gap or []
        self._after_cut = True

    def uncut(self) -> None:
        """Nothing was taken out after all."""
        self._after_cut = False

    def end(self) -> None:
        if self._gap and not self._after_cut:
            self.pieces += self._gap

    def _bridged(self, text: str) -> str:
        """White space is kept on one side of a cut only; the indentation of a line is kept."""
        last = self.pieces[-1][-1] if self.pieces else "\n"
        if last != "\n":
            return text.lstrip(" \t") if last.isspace() else text
        lines = BLANK_LINES.match(text)
        return text[lines.end() :] if lines else text.lstrip(" \t")

    def _follow(self, text: str) -> None:
        """Keeps the beginning of the line that is being written."""
        begin = text.rfind("\n") + 1
        if begin:
            self.line = text[begin : begin + LINE_HEAD]
        elif len(self.line) < LINE_HEAD:
            self.line = (self.line + text)[:LINE_HEAD]
