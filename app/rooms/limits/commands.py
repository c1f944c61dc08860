"""Commands about limits: how far they are used, who waits, and letting those ask anew."""

from __future__ import annotations

from typing import Any

import click

from app.accounts import instances
from app.inbox import claim
from app.infra import cli, jobs
from app.infra.i18n import say
from app.rooms.limits import line, status


@click.group("limits", help="How many turns and model calls are allowed, and who waits.")
def group() -> None:
    """Holds the commands about limits."""


@group.command("show")
@cli.instance_option
@cli.json_option
def limits_show(instance: str | None, *, as_json: bool) -> None:
    """Shows the limits of turns and of every endpoint, how far they are used, and how many turns wait."""
    told = status.shown(instances.chosen(instance).id if instance else None)
    cli.output(told, as_json, lambda: _table(told))


@group.command("hurry")
@cli.instance_option
@cli.json_option
def limits_hurry(instance: str | None, *, as_json: bool) -> None:
    """Lets every turn that waits ask for its place anew now; of every instance where none is named."""
    rooms = line.hurry(instances.chosen(instance).id if instance else None)
    for room in rooms:
        jobs.enqueue(claim.DRAIN, *room)
    cli.output({"rooms": len(rooms)}, as_json, say("Rooms whose waiting turns ask anew: {count}.", count=len(rooms)))


def _table(told: dict[str, Any]) -> None:
    turns = told["turns"]
    cli.table(((name, value) for name, value in turns.items()), head=("turns", "value"))
    head = ("endpoint", "window", "source", "model", "limit", "remaining", "recovers_at")
    cli.table(([row[name] for name in head] for row in told["endpoints"]), head=head)


COMMANDS: list[click.Command] = [group]
