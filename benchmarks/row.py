"""One line of the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """Medians in seconds, and the highest ratio that is still good."""

    what: str
    ours: float
    reference: float
    goal: float

    def __str__(self) -> str:
        ratio = self.ours / self.reference
        mark = "" if ratio <= self.goal else "  over"
        return f"{self.what:<44}{self.ours:>10.3f} s{self.reference:>10.3f} s{ratio:>8.2f}{self.goal:>8.2f}{mark}"
