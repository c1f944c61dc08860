"""What a model server says about its own limits in the headers of an answer: x-ratelimit-* and ratelimit-*.

Servers tell how much remains and when it is there again, a window ("minute"), a kind ("requests", "tokens") or both in
the name; times come as seconds, durations (1m30s), Unix times, or dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from app.infra import clock

# Whatever a server says: after so many seconds it is asked again, and its answer tells more.
LONGEST = 3600.0
WINDOWS: Mapping[str, float] = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "month": 2592000.0}
REMAINING = re.compile(r"(?:[a-z]+-)?ratelimit-(?:.+-)?remaining(?:-.+)?")
NUMBER = re.compile(r"\s*(-?\d{1,15}(?:\.\d{1,9})?)\s*(?:[,;].*)?")
DURATION = re.compile(
    r"(?:(?P<days>\d{1,4})d)?(?:(?P<hours>\d{1,5})h)?(?:(?P<minutes>\d{1,6})m(?!s))?"
    r"(?:(?P<seconds>\d{1,8}(?:\.\d{1,9})?)s)?(?:(?P<milliseconds>\d{1,12}(?:\.\d{1,9})?)ms)?"
)
UNITS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "milliseconds": 0.001}
# `ratelimit: "default";r=0;t=30`, and as older drafts wrote it: `limit=10, remaining=0, reset=30`.
FIELDS = re.compile(r"\b(r|remaining|t|reset)\s*=\s*(\d{1,12})")
UNIX_TIME = 1e9
UNIX_MILLISECONDS = 1e12


def used_up(headers: Mapping[str, str]) -> float:
    """Seconds until the server takes another call; 0 while something remains, or where it does not say until when."""
    given = {name.lower(): value for name, value in headers.items()}
    return min(LONGEST, max([0.0, *_waits(given), _in_one(given.get("ratelimit", ""))]))


def _waits(given: Mapping[str, str]) -> Iterator[float]:
    for name, value in given.items():
        if not REMAINING.fullmatch(name):
            continue
        left = NUMBER.fullmatch(value)
        if left is None or float(left[1]) > 0:
            continue
        own = given.get(name.replace("remaining", "reset"))
        general = next((given[other] for other in ("x-ratelimit-reset", "ratelimit-reset") if other in given), None)
        window = WINDOWS.get(name.rpartition("-")[2], 0.0)
        told = next((wait for text in (own, general) if (wait := seconds(text)) is not None), window)
        yield min(told, window) if window else told


def _in_one(text: str) -> float:
    fields = {name: float(value) for name, value in FIELDS.findall(text)}
    left = fields.get("r", fields.get("remaining", 1.0))
    return fields.get("t", fields.get("reset", 0.0)) if left <= 0 else 0.0


def seconds(text: str | None) -> float | None:
    """A time that a header tells, as seconds from now; None where it is none."""
    text = (text or "").strip()
    number = NUMBER.fullmatch(text)
    if number is not None:
        return _from_number(float(number[1]))
    duration = DURATION.fullmatch(text)
    if text and duration is not None:
        return sum(float(value) * UNITS[unit] for unit, value in duration.groupdict().items() if value)
    moment = _date(text)
    return None if moment is None else max(0.0, (moment - clock.now()).total_seconds())


def _from_number(number: float) -> float:
    if number >= UNIX_MILLISECONDS:
        number /= 1000
    return max(0.0, number - clock.now().timestamp() if number >= UNIX_TIME else number)


def _date(text: str) -> datetime | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(text)
        except (ValueError, TypeError, OverflowError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
