"""The day of a moment, as the people of an instance count days."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def day_of(moment: datetime, timezone: str) -> date:
    """The date in that time zone; in UTC where there is none of this name."""
    try:
        return moment.astimezone(ZoneInfo(timezone)).date()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return moment.astimezone(UTC).date()
