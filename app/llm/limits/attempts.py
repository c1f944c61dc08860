"""How many exchanges with model servers one turn may cost, whatever they are for: first tries, healed ones, fallbacks."""

from __future__ import annotations

from app.llm import failures
from app.llm.base import ErrorClass

HARD_ATTEMPTS = 48
# The call without tools that sums a turn up must be possible when everything else is used.
KEPT = 1


class Attempts:
    """The budget of one turn, shared by all models that it may ask."""

    def __init__(self, most: int) -> None:
        self.left = max(1, min(most, HARD_ATTEMPTS))

    def may_go_on(self, *, with_tools: bool) -> bool:
        """Whether one more exchange is allowed; with tools the last one is kept back."""
        return self.left > (KEPT if with_tools else 0)

    def check(self, *, with_tools: bool) -> None:
        """Raises ModelError (ATTEMPTS) when no exchange is allowed any more."""
        if not self.may_go_on(with_tools=with_tools):
            raise failures.made(ErrorClass.ATTEMPTS, "the exchanges of this turn are used up")

    def take(self, *, with_tools: bool) -> None:
        """Uses one. Raises ModelError (ATTEMPTS) when there is none."""
        self.check(with_tools=with_tools)
        self.left -= 1
