"""Commands about turns: what ran, how long, with which tools and tokens, and why something failed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import click

from app.accounts import instances
from app.infra import cli
from app.traces import view
from app.traces.models import TurnTrace
from app.traces.view import Wanted

log = logging.getLogger(__name__)


@click.group("traces", help="What the turns of the bots did.")
def group() -> None:
    """Holds the commands about traces."""


@group.command("list")
@click.option("--room", help="Only turns in this room.")
@click.option("--status", type=click.Choice(view.STATUSES), help="Only turns that ended so.")
@click.option("--errors", is_flag=True, help="Only turns that failed, were cut or were interrupted.")
@click.option(
    "--limit",
    type=click.IntRange(1, view.MOST),
    default=view.LIMIT,
    show_default=True,
    help="How many, the newest first.",
)
@cli.instance_option
@cli.json_option
def traces_list(
    room: str | None, *, status: str | None, errors: bool, limit: int, instance: str | None, as_json: bool
) -> None:
    """Lists the newest turns; of every instance where none is named."""
    home = instances.chosen(instance).id if instance else None
    found = view.listed(Wanted(home, room=room, status=status, only_errors=errors, limit=limit))
    cli.output([view.summary(turn) for turn in found], as_json, lambda: _table(found))


@group.command("show")
@click.argument("id", type=int)
@click.option("--reveal", is_flag=True, help="With the texts; the person can see in the trace that this was done.")
@cli.json_option
def traces_show(id: int, *, reveal: bool, as_json: bool) -> None:
    """Shows one turn with its steps; texts only where the person shared them, or with --reveal."""
    turn = view.found(id)
    if reveal and turn.shared_at is None:
        view.reveal(turn, "manage.py")
        log.warning("the texts of trace %s were revealed by manage.py", id)
    told = view.whole(turn, with_text=reveal or turn.shared_at is not None)
    cli.output(told, as_json, lambda: _show(told))


def _table(found: Iterable[TurnTrace]) -> None:
    head = ("id", "started", "bot", "room", "actor", "status", "ended", "model", "calls", "tools", "tokens", "ms")
    rows = (
        (
            turn.id,
            turn.started_at,
            turn.bot_name,
            turn.room,
            turn.actor,
            turn.status,
            turn.ended,
            turn.model,
            turn.model_calls,
            turn.tool_calls,
            turn.total_tokens,
            turn.milliseconds,
        )
        for turn in found
    )
    cli.table(rows, head=head)


def _show(told: dict[str, Any]) -> None:
    cli.table(((name, value) for name, value in told.items() if name != "events"), head=("field", "value"))
    rows = ((step["at"], step["kind"], step["name"], step["milliseconds"], step["payload"]) for step in told["events"])
    cli.table(rows, head=("at", "step", "name", "ms", "payload"))


COMMANDS: list[click.Command] = [group]
