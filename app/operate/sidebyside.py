"""Examinations that ask other servers, side by side: together they take no longer than one of them may."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from app.infra import clock
from app.infra.db import elsewhere
from app.infra.i18n import say
from app.operate.health import Check

log = logging.getLogger(__name__)

SECONDS = 45.0
AT_ONCE = 8

Work = Callable[[], Iterable[Check]]


@dataclass(frozen=True)
class Part:
    """One examination: the name under which it fails as a whole, and what it does."""

    name: str
    work: Work
    results: queue.SimpleQueue[Check | None] = field(default_factory=queue.SimpleQueue)


def examine(parts: Iterable[Part], *, seconds: float = SECONDS) -> Iterator[Check]:
    """The checks of each part, in the order of the parts, as they come; what is not over in time is said to be so."""
    asked = list(parts)
    waiting: queue.SimpleQueue[Part] = queue.SimpleQueue()
    for part in asked:
        waiting.put(part)
    for _ in range(min(AT_ONCE, len(asked))):
        threading.Thread(target=_work, args=(waiting, elsewhere()), name="examine", daemon=True).start()
    end = clock.monotonic() + seconds
    for part in asked:
        yield from _results(part, end, seconds)


def _results(part: Part, end: float, seconds: float) -> Iterator[Check]:
    while True:
        try:
            found = part.results.get(timeout=max(0.0, end - clock.monotonic()))
        except queue.Empty:
            yield Check(
                part.name,
                False,
                say("This was not over after {seconds} seconds.", seconds=round(seconds)),
                say("Look whether the server answers, and run `python manage.py doctor` again."),
            )
            return
        if found is None:
            return
        yield found


def _work(waiting: queue.SimpleQueue[Part], inside: Callable[[], AbstractContextManager[object]]) -> None:
    while True:
        try:
            part = waiting.get_nowait()
        except queue.Empty:
            return
        with inside():
            _examined(part)


def _examined(part: Part) -> None:
    try:
        for check in part.work():
            part.results.put(check)
    except Exception:
        log.exception("the examination of %s failed", part.name)
        part.results.put(
            Check(part.name, False, say("This could not be examined."), say("The log of this command tells why."))
        )
    part.results.put(None)
