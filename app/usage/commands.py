"""The command about tokens."""

from __future__ import annotations

from typing import Any

import click

from app.accounts import instances
from app.infra import cli
from app.usage import report


@click.command("usage")
@click.option("--days", type=int, default=report.DAYS, show_default=True, help="How many days, today included (UTC).")
@cli.instance_option
@cli.json_option
def usage(days: int, *, instance: str | None, as_json: bool) -> None:
    """Shows the tokens of each day by bot, endpoint and model; of every instance where none is named."""
    home = instances.chosen(instance).id if instance else None
    told = report.sums(home, days=days)
    cli.output(told, as_json, lambda: _table(told))


def _table(told: dict[str, Any]) -> None:
    head = ("day", "instance_id", "bot_id", "endpoint", "model", "calls", "prompt_tokens", "completion_tokens")
    total = ("total", "", "", "", "", *(told["total"][name] for name in report.FIGURES))
    cli.table([*([row[name] for name in head] for row in told["days"]), total], head=head)


COMMANDS: list[click.Command] = [usage]
