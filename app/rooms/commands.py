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
from app.rooms.orders import state


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
    if chosen.instead_of is not None:
        sentence = say("{text} @{name} no longer responds always there.", text=sentence, name=chosen.instead_of)
    cli.output(asdict(chosen), as_json, sentence)


@group.command("list")
@cli.instance_option
@cli.json_option
def list_(*, instance: str | None, as_json: bool) -> None:
    """Lists the rooms that are known, with their bots, memory and language."""
    found = state.listed(instances.chosen(instance).id)
    rows = [(room.token, room.name, _bots(room), room.language or "") for room in found]
    head = ("token", "name", "bots", "language")
    cli.output([asdict(room) for room in found], as_json, lambda: cli.table(rows, head=head))


@group.command("show")
@click.argument("room")
@cli.instance_option
@cli.json_option
def show(room: str, *, instance: str | None, as_json: bool) -> None:
    """Shows one room (by its token)."""
    where = instances.chosen(instance)
    known = rooms.get(where.id, room)
    if known is None:
        raise NotFound(say("No room {token} of {instance} is known yet.", token=room, instance=where.name))
    found = state.of(known)
    rows = (
        ("token", found.token),
        ("name", found.name),
        ("bots", _bots(found)),
        ("memory since", found.memory_since or ""),
        ("language", found.language or ""),
        ("last message", found.last_message_at or ""),
    )
    cli.output(asdict(found), as_json, lambda: cli.table(rows, head=("what", "value")))


def _bots(room: state.RoomState) -> str:
    return ", ".join(f"@{bot.mention_name} ({bot.mode})" for bot in room.bots)


COMMANDS: list[click.Command] = [group]
