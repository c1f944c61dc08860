"""What the tests of built-in tools share."""

from __future__ import annotations

from typing import Any

from app.infra.i18n import say
from app.llm.base import ToolCall
from app.tools import arguments, registry
from app.tools.base import FoundMessage, ToolContext


class History:
    """A room's history that notes how it is searched."""

    scope = say("I see only what was said to me in this room.")

    def __init__(self, *found: FoundMessage) -> None:
        self.found = list(found)
        self.asked: list[Any] = []

    def search(self, query: str, **how: Any) -> list[FoundMessage]:
        self.asked.append((query, how))
        return self.found


def context(**extra: Any) -> ToolContext:
    return ToolContext("example", "room1", "users/ada", timezone="Europe/Berlin", **extra)


def use(name: str, given: dict[str, Any], where: ToolContext) -> str:
    """Runs a built-in tool as the loop does, arguments checked."""
    tool = registry.all_tools()[name]
    assert tool.run is not None
    result = tool.run(where, arguments.read(ToolCall("c", name, given), tool.parameters))
    assert isinstance(result, str)
    return result
