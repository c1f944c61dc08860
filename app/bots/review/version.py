"""The versions of a bot: the live one, what it would be after an approval, and which of them somebody talks to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import inspect

from app.accounts import people
from app.bots import store
from app.bots.models import Bot
from app.platforms.base import Actor

# What makes a version. A field that is absent from what waits stays as it is; one that is null there is cleared.
FIELDS = (
    *("name", "description", "system_prompt", "model", "temperature", "scope", "groups", "teams", "limits"),
    *("onboarding", "tools"),
)
AUDIENCE = ("scope", "groups", "teams")


@dataclass(frozen=True)
class Version:
    """A bot as somebody meets it. `bot` is never stored: it may bear what waits for review (`pending`)."""

    bot: Bot
    tools: tuple[str, ...]
    pending: bool


def effective(bot: Bot, actor: Actor) -> Version:
    """The version that `actor` talks to: its owner and its tester meet what is pending, everybody else what is live.

    Whether they may use the bot at all is for access.may_use to say.
    """
    tools = store.tools_of([bot.id])[bot.id]
    if bot.pending is None or not _tries(bot, actor):
        return Version(bot, tools, pending=False)
    fields = {**bot.pending}
    tools = tuple(fields.pop("tools", tools))
    columns = {column.key: getattr(bot, column.key) for column in inspect(Bot).column_attrs}
    return Version(Bot(**columns | fields), tools, pending=True)


def live(bot: Bot) -> dict[str, Any]:
    """The fields of the live version, or of a bot that has none yet."""
    tools = list(store.tools_of([bot.id])[bot.id])
    return {name: tools if name == "tools" else getattr(bot, name) for name in FIELDS}


def target(bot: Bot) -> dict[str, Any]:
    """The fields that the bot would have after an approval; as `live` where nothing waits."""
    return live(bot) | (bot.pending or {})


def whole(names: Iterable[str]) -> frozenset[str]:
    """The names, and all that says whom a bot is for where one of them does."""
    found = frozenset(names)
    return found.union(AUDIENCE) if found.intersection(AUDIENCE) else found


def difference(base: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """What must change in `base` to become `wanted`, the audience as a whole; None where nothing must."""
    names = whole(name for name in FIELDS if base[name] != wanted[name])
    return {name: wanted[name] for name in FIELDS if name in names} or None


def _tries(bot: Bot, actor: Actor) -> bool:
    person = people.find(bot.instance_id, actor.id) if actor.kind == "users" else None
    return person is not None and (person.id == bot.owner_id or person.uid == bot.tester)
