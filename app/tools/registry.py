"""Which tools there are: the built-in ones, found by looking in builtin/, and those of other distributions."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

from app.infra import discover
from app.llm.toolcalls.names import resolve
from app.tools import schemas
from app.tools.base import Tool, ToolContext

log = logging.getLogger(__name__)

GROUP = "parley.tools"
BUILTIN = "app.tools.builtin"
# What providers accept as the name of a function.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@cache
def all_tools() -> Mapping[str, Tool]:
    """Every tool by its name. One that is not well formed, or that takes a name already taken, is logged and left out."""
    found: dict[str, Tool] = {}
    for module in discover.modules_in(BUILTIN):
        _add(found, module, source="builtin")
    for plugin in discover.plugins(GROUP):
        _add(found, plugin, source="plugin")
    return MappingProxyType(found)


def loadout(names: Iterable[str], context: ToolContext) -> tuple[Tool, ...]:
    """The tools of these names in their order, each once; a name that no tool has (any more) is passed over."""
    known = all_tools()
    return tuple(known[name] for name in dict.fromkeys(names) if name in known)


def meant(name: str, tools: Iterable[Tool]) -> Tool | None:
    """The one of `tools` that a model means by `name`."""
    by_name = {tool.name: tool for tool in tools}
    found = resolve(name, frozenset(by_name))
    return by_name[found] if found else None


def _add(found: dict[str, Tool], offered: Any, *, source: str) -> None:
    try:
        for tool in _offered(offered):
            if wrong := _wrong(tool, found):
                log.warning("a tool of %s is left out: %s", source, wrong)
                continue
            # A plugin says what its tool does, not where it comes from.
            found[tool.name] = tool if source == "builtin" else replace(tool, source=_source(tool))
    except Exception:
        log.exception("the tools of %r can't be used", offered)


def _offered(offered: Any) -> list[Any]:
    """What an entry point or a module offers: a Tool, a list of them, something with TOOLS, or a function giving these."""
    if isinstance(offered, Tool):
        return [offered]
    if hasattr(offered, "TOOLS"):
        return list(offered.TOOLS)
    return _offered(offered()) if callable(offered) else list(offered)


def _source(tool: Tool) -> str:
    return "plugin" if tool.source == "builtin" else f"plugin:{tool.source}"[:64]


def _wrong(tool: Any, found: Mapping[str, Tool]) -> str:
    if not isinstance(tool, Tool):
        return f"{type(tool).__name__} is no Tool"
    if not isinstance(tool.name, str) or not NAME.fullmatch(tool.name):
        return f"{tool.name!r} is no name of a tool: 1 to 64 of A-Z, a-z, 0-9, _ and -"
    if tool.name in found:
        return f"the name {tool.name} is taken"
    if tool.runs == "here" and not callable(tool.run):
        return f"{tool.name} has nothing to run"
    problem = schemas.problem(tool.parameters)
    return f"the schema of {tool.name}: {problem}" if problem else ""
