"""Finding what was said in the room, as far as this bot may see it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from app.infra.i18n import say
from app.tools.base import FoundMessage, Tool, ToolContext, ToolError

DEFAULT_LIMIT = 5
MOST = 20
LONGEST_PASSAGE = 2000


def room_search_messages(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Passages as `[n] speaker, time: text`, best first, and what was searched at all."""
    if context.history is None:
        raise ToolError(say("There is no history of this room that I could search."))
    zone = ZoneInfo(context.timezone)
    found = context.history.search(
        arguments["query"],
        limit=arguments.get("limit", DEFAULT_LIMIT),
        from_name=arguments.get("from_name") or None,
        since=_moment(arguments.get("since"), zone, last=False),
        until=_moment(arguments.get("until"), zone, last=True),
    )
    scope = context.history.scope.text(context.language)
    if not found:
        return f"{say('Nothing was found.').text(context.language)} {scope}"
    return "\n".join([*(_passage(n, message, zone) for n, message in enumerate(found, 1)), "", scope])


def _passage(number: int, message: FoundMessage, zone: ZoneInfo) -> str:
    text = message.text if len(message.text) <= LONGEST_PASSAGE else message.text[:LONGEST_PASSAGE] + "…"
    # Indented and without empty lines, so that no line of a message passes for the beginning of another passage.
    lines = "\n    ".join(line for line in text.splitlines() if line.strip())
    speaker = " ".join(message.speaker.split())
    return f"[{number}] {speaker}, {message.at.astimezone(zone):%Y-%m-%d %H:%M}: {lines}"


def _moment(text: str | None, zone: ZoneInfo, *, last: bool) -> datetime | None:
    """An ISO date or time; a date alone is its first moment, or its last one."""
    if not text or not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        if len(text.strip()) <= len("2026-01-31"):
            moment = datetime.combine(moment, time.min) + (timedelta(days=1, microseconds=-1) if last else timedelta())
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ToolError(
            say("{text} is no date. Give one such as 2026-01-31 or 2026-01-31T14:00.", text=text[:40])
        ) from None


def _date(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


TOOLS = [
    Tool(
        "room_search_messages",
        "Searches what was said in this room, for any of the words. Gives numbered passages with speaker and time, and "
        "says how far it can see.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 2000, "description": "Words to look for."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST,
                    "description": f"How many passages at most; {DEFAULT_LIMIT} when left out.",
                },
                "from_name": {"type": "string", "maxLength": 255, "description": "Only what this person said."},
                "since": _date("Only what was said from this date or time on, as 2026-01-31 or 2026-01-31T14:00."),
                "until": _date("Only what was said up to this date or time, as 2026-01-31 or 2026-01-31T14:00."),
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        room_search_messages,
        kind="search",
        timeout=30.0,
    )
]
