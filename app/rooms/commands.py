"""Commands about rooms."""

from __future__ import annotations

from dataclasses import asdict

import click

from app.accounts import instances
from app.bots import store
from app.infra import cli
from app.infra.errors import NotFound
from app.infra.i18n import say
from app.platforms import rooms
from app.rooms import modes


@click.group("rooms", help="Bots in rooms.")
def group() -> None:
    """Holds the commands about rooms."""


@group.command("mode")
@click.argument("room")
@click.argument("bot")
@click.argument("mode", type=click.Choice(modes.MODES))
@cli.instance_option
@cli.json_option
def mode(room: str, bot: str, mode: str, *, instance: str | None, as_json: bool) -> None:
    """Sets how a bot (by its mention name) responds in a room (by its token)."""
    where = instances.chosen(instance)
    found = store.by_mention(where.id, bot.removeprefix("@"))
    known = rooms.get(where.id, room)
    if found is None:
        raise NotFound(say("There is no bot @{name} on {instance}.", name=bot.removeprefix("@"), instance=where.name))
    if known is None:
        raise NotFound(say("No room {token} of {instance} is known yet.", token=room, instance=where.name))
    chosen = modes.choose(where.id, known.token, bot_id=found.id, mode=modes.read(mode))
    sentence = say("@{name} now responds in {room}: {mode}.", name=found.mention_name, room=room, mode=chosen.mode)
    cli.output(asdict(chosen), as_json, sentence)


COMMANDS: list[click.Command] = [group]
