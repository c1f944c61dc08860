"""When the next turn may begin, from when others began: at most so many in any minute, wherever it begins."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)


def next_start(starts: Iterable[datetime], most: int, *, now: datetime, ahead: int = 0) -> datetime:
    """The first moment from `now` on at which one more turn may begin, after `ahead` others that begin as soon as they may.

    `starts` are those of the last minute, `most` (from 1) how many a minute may have.
    """
    taken = sorted(starts)
    moment = now
    for _ in range(ahead + 1):
        moment = now if len(taken) < most else max(now, taken[-most] + MINUTE)
        insort(taken, moment)
    return moment
