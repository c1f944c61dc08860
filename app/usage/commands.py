"""The command about tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from sqlalchemy import select

from app.accounts import instances
from app.bots.models import Bot
from app.infra import cli
from app.infra.db import reading
from app.usage import report


@click.command("usage")
@click.option("--days", type=int, default=report.DAYS, show_default=True, help="How many days, today included.")
@cli.instance_option
@cli.json_option
def usage(days: int, *, instance: str | None, as_json: bool) -> None:
    """Shows the tokens of each day by bot, endpoint and model; of every instance where none is named."""
    home = instances.chosen(instance).id if instance else None
    told = report.sums(home, days=days)
    cli.output(told, as_json, lambda: _table(told))


def _table(told: dict[str, Any]) -> None:
    homes = {home.id: home.name for home in instances.all()}
    bots = _bots(row["bot_id"] for row in told["days"])
    named = [row | {"instance": homes.get(row["instance_id"]), "bot": bots.get(row["bot_id"])} for row in told["days"]]
    about = ("day", "instance", "bot", "endpoint", "model")
    total = ("total", *[""] * (len(about) - 1), *(told["total"][name] for name in report.FIGURES))
    head = (*about, *report.FIGURES)
    cli.table([*([row[name] for name in head] for row in named), total], head=head)


def _bots(ids: Iterable[int]) -> dict[int, str]:
    """How the bots are mentioned; one that was removed has no name any more."""
    with reading() as session:
        rows = session.execute(select(Bot.id, Bot.mention_name).where(Bot.id.in_(set(ids))))
        return {row.id: f"@{row.mention_name}" for row in rows}


COMMANDS: list[click.Command] = [usage]
