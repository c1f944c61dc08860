"""The current time, in the room's time zone or in another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from app.infra import clock
from app.infra.i18n import say
from app.tools.base import Tool, ToolContext, ToolError

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def current_time(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Date, time, weekday and offset in the time zone that was asked for."""
    name = (arguments.get("timezone") or context.timezone).strip()
    now = clock.now().astimezone(_zone(name))
    offset = f"{now:%z}"
    return f"{WEEKDAYS[now.weekday()]}, {now:%Y-%m-%d %H:%M:%S} ({name}, UTC{offset[:3]}:{offset[3:5]})"


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise ToolError(
            say("There is no time zone {name}. Give a name such as Europe/Berlin or UTC.", name=name[:64])
        ) from None


TOOLS = [
    Tool(
        "current_time",
        "The current date, time and weekday.",
        {
            "type": "object",
            "properties": {
                "timezone": {
                    "type": "string",
                    "description": "An IANA name such as Europe/Berlin; the room's own time zone when left out.",
                }
            },
            "additionalProperties": False,
        },
        current_time,
        timeout=5.0,
    )
]
