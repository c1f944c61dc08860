"""When a turn must stop using tools: its limits, its clock, and going round in circles (product.md K7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.agent.turn import HARD_MODEL_CALLS, HARD_SECONDS, Limits
from app.infra import clock

LONGEST_CYCLE = 4
# The end of a turn's time belongs to the last call, which makes an answer from what was found.
LAST_CALL_SHARE = 0.2
LAST_CALL_SECONDS = 60.0


@dataclass(frozen=True)
class Deadlines:
    """On the monotonic clock: until `tools` there may be tools, until `answer` the answer must be there."""

    tools: float
    answer: float

    @classmethod
    def of(cls, limits: Limits) -> Deadlines:
        seconds = min(limits.seconds, HARD_SECONDS)
        end = clock.monotonic() + seconds
        return cls(end - min(LAST_CALL_SECONDS, seconds * LAST_CALL_SHARE), end)


def most_model_calls(limits: Limits) -> int:
    """How many model calls a turn may make, the last one without tools included."""
    return max(1, min(limits.model_calls, HARD_MODEL_CALLS))


class Circles:
    """Sees, before a call is run, that the turn only repeats itself.

    A circle is 1 to LONGEST_CYCLE calls with the same names and arguments, compared whole. Gone round `most` times it
    may not begin again.
    """

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._calls: list[str] = []

    def closes(self, name: str, arguments: str | Mapping[str, Any]) -> bool:
        """Notes a call; True when it would begin a circle once more than allowed."""
        self._calls.append(json.dumps([name, arguments], sort_keys=True, default=dict))
        return any(self._gone_round(length) for length in range(1, LONGEST_CYCLE + 1))

    def _gone_round(self, length: int) -> bool:
        last = self._calls[-(length * self._most + 1) :]
        return len(last) > length * self._most and last[length:] == last[:-length]
