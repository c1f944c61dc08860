"""A cache that can't grow: so many entries, so much weight, so many seconds, and nothing older."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from app.infra import clock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Bounded(Generic[Key, Value]):
    """Values by key for `seconds`; the oldest go when there are more than `entries` or they weigh more than `weight`.

    A value that is heavier than `weight` alone is not kept. Safe to use from several threads.
    """

    def __init__(self, *, entries: int, weight: int, seconds: float, weigh: Callable[[Value], int]) -> None:
        self._most = entries
        self._heaviest = weight
        self._seconds = seconds
        self._weigh = weigh
        self._kept: OrderedDict[Key, tuple[float, int, Value]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """The value, unless it is too old or gone."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if clock.monotonic() - found[0] > self._seconds:
                self._drop(key)
                return None
            return found[2]

    def put(self, key: Key, value: Value, *, asked_at: float | None = None) -> None:
        """Keeps a value that was asked for at `asked_at` (clock.monotonic()): what is told late is old already."""
        weight = self._weigh(value)
        with self._lock:
            self._drop(key)
            if weight > self._heaviest or self._most < 1:
                return
            self._kept[key] = (clock.monotonic() if asked_at is None else asked_at, weight, value)
            self._weight += weight
            while len(self._kept) > self._most or self._weight > self._heaviest:
                self._drop(next(iter(self._kept)))

    def drop(self, key: Key) -> None:
        """Forgets a value."""
        with self._lock:
            self._drop(key)

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, key: Key) -> None:
        gone = self._kept.pop(key, None)
        if gone is not None:
            self._weight -= gone[1]
