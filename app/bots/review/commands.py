"""Commands about the review of bots; whoever runs them may decide everything."""

from __future__ import annotations

from typing import Any

import click

from app.accounts import instances
from app.bots import present, store
from app.bots.models import Bot
from app.bots.review import decide, edit, rights
from app.bots.review.rights import Who
from app.infra import cli
from app.infra.i18n import Sentence, say


@click.group("bots", help="The bots of an instance.")
def group() -> None:
    """Holds the commands about bots."""


@group.command("submit")
@click.argument("bot")
@click.option("--reason", required=True, help="Why others should have it.")
@click.option("--capabilities", default="", help="What it can do.")
@click.option("--sources", default="", help="Where its knowledge comes from.")
@click.option("--testing", default="", help="How it can be tried.")
@cli.instance_option
@cli.json_option
def submit(*, bot: str, instance: str | None, as_json: bool, **told: str) -> None:
    """Asks for the review of a draft."""
    who, found = _chosen(instance, bot)
    answers = dict(zip(decide.QUESTIONS, (told[name] for name in ANSWERS), strict=True))
    _output(decide.submit(who, found, answers), as_json, say("@{name} waits for a review.", name=found.mention_name))


@group.command("approve")
@click.argument("bot")
@cli.instance_option
@cli.json_option
def approve(*, bot: str, instance: str | None, as_json: bool) -> None:
    """Makes live what waits for a review."""
    who, found = _chosen(instance, bot)
    _output(decide.approve(who, found), as_json, say("@{name} is approved.", name=found.mention_name))


@group.command("reject")
@click.argument("bot")
@click.option("--reason", required=True, help="What its owner is told.")
@cli.instance_option
@cli.json_option
def reject(*, bot: str, reason: str, instance: str | None, as_json: bool) -> None:
    """Sends back what waits for a review; a live version stays live."""
    who, found = _chosen(instance, bot)
    _output(decide.reject(who, found, reason), as_json, say("@{name} is rejected.", name=found.mention_name))


@group.command("switch")
@click.argument("bot")
@click.argument("state", type=click.Choice(("on", "off")))
@cli.instance_option
@cli.json_option
def switch(*, bot: str, state: str, instance: str | None, as_json: bool) -> None:
    """Switches a bot on or off; one that is off answers nobody."""
    who, found = _chosen(instance, bot)
    on = say("@{name} is switched on.", name=found.mention_name)
    off = say("@{name} is switched off.", name=found.mention_name)
    _output(edit.switch(who, found, state == "on"), as_json, on if state == "on" else off)


ANSWERS = ("reason", "capabilities", "sources", "testing")
COMMANDS: list[click.Command] = [group]


def _chosen(instance: str | None, bot: str) -> tuple[Who, Bot]:
    where = instances.chosen(instance)
    return rights.at_the_command_line(where), store.chosen(where, bot)


def _output(bot: Bot, as_json: bool, sentence: Sentence) -> None:
    shown: dict[str, Any] = present.full([bot], prompts=True)[0]
    cli.output(shown, as_json, sentence)
