"""Commands about bots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from app.accounts import instances, people
from app.accounts.models import Instance
from app.bots import form, present, store
from app.bots.models import Bot
from app.infra import cli
from app.infra.db import transaction
from app.infra.errors import BadInput
from app.infra.i18n import say
from app.tools import registry


@click.group("bots", help="The bots of an instance.")
def group() -> None:
    """Holds the commands about bots."""


@group.command("add")
@click.option("--name", required=True, help="How it is called, such as Harbour master.")
@click.option("--mention", required=True, help="The name after the @, such as harbour; it never changes.")
@click.option("--prompt", required=True, help="What the model is told about itself.")
@click.option("--description", help="What it is good for, for those who may use it.")
@click.option("--scope", type=click.Choice(form.SCOPES), default="personal", show_default=True, help="Who may use it.")
@click.option("--groups", help="Groups that may use it, separated by commas (scope groups).")
@click.option("--teams", help="Teams that may use it, separated by commas (scope teams).")
@click.option("--owner", metavar="UID", help="Whose bot it is; without it the first administrator's.")
@click.option("--model", metavar="REF", help="A model as endpoint:model; without it the default model.")
@click.option("--temperature", type=float, help="0 to 1; without it the default.")
@click.option("--tool", "tools", metavar="NAME", multiple=True, help="A tool that it may use; may be repeated.")
@click.option(
    "--onboarding",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file with its first questions.",
)
@click.option("--draft", is_flag=True, help="Only its owner may use it.")
@cli.instance_option
@cli.json_option
def add(instance: str | None, *, as_json: bool, owner: str | None, draft: bool, mention: str, **given: Any) -> None:
    """Adds a bot."""
    where = instances.chosen(instance)
    values: dict[str, Any] = {
        "name": given["name"],
        "mention_name": mention,
        "system_prompt": given["prompt"],
        "state": "draft" if draft else "approved",
        **{field: given[field] for field in ("description", "scope", "model", "temperature", "tools")},
        **{field: _split(given[field]) for field in ("groups", "teams")},
        "onboarding": _questions(given["onboarding"]),
    }
    known = registry.all_tools()
    with transaction():  # nobody is made for the sake of a bot that is refused
        person = people.ensure(where.id, owner) if owner else people.ensure_admin(where.id)
        made = store.create(where.id, person.id, values, tools=known)
    cli.output(_shown(made), as_json, say("Added @{name} to {instance}.", name=made.mention_name, instance=where.name))


@group.command("list")
@cli.instance_option
@cli.json_option
def list_(*, instance: str | None, as_json: bool) -> None:
    """Lists the bots, without their prompts."""
    bots = _all(instances.chosen(instance))
    found = present.full(bots, prompts=False)
    rows = [(each["id"], f"@{each['mention_name']}", each["name"], each["scope"], each["state"], each["owner"])
            for each in found]  # fmt: skip
    cli.output(found, as_json, lambda: cli.table(rows, head=("id", "mention", "name", "scope", "state", "owner")))


@group.command("show")
@click.argument("bot")
@cli.instance_option
@cli.json_option
def show(bot: str, *, instance: str | None, as_json: bool) -> None:
    """Shows one bot, by its mention name or its number."""
    shown = _shown(store.chosen(instances.chosen(instance), bot))
    cli.output(shown, as_json, lambda: cli.table(shown.items(), head=("", "")))


@group.command("remove")
@click.argument("bot")
@cli.instance_option
@cli.json_option
def remove(bot: str, *, instance: str | None, as_json: bool) -> None:
    """Removes a bot, by its mention name or its number, with all its conversations."""
    found = store.chosen(instances.chosen(instance), bot)
    store.remove(found.id)
    removed = {"id": found.id, "mention_name": found.mention_name}
    cli.output(removed, as_json, say("Removed @{name} and its conversations.", name=found.mention_name))


def _all(where: Instance) -> list[Bot]:
    bots: list[Bot] = []
    while True:
        page = store.listed(where.id, offset=len(bots))
        bots += page.bots
        if not page.bots or len(bots) >= page.total:
            return bots


def _shown(bot: Bot) -> dict[str, Any]:
    return present.full([bot], prompts=True)[0]


def _questions(path: Path | None) -> Any:
    """What stands in the file; nothing without one. Raises BadInput."""
    try:
        return None if path is None else json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        sentence = say("{file} holds no JSON.", file=path)
        raise BadInput(sentence, fields={"onboarding": str(sentence)}) from None


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


COMMANDS: list[click.Command] = [group]
