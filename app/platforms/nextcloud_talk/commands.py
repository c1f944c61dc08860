"""Commands that connect a Nextcloud: `talk register`, `talk rotate`, `talk resume`, `talk status`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from app.accounts import instances
from app.accounts.models import Instance
from app.bots import store as bots
from app.inbox import claim
from app.inbox.gaps import told
from app.inbox.reasons import Reason
from app.infra import cli
from app.infra.db import transaction
from app.infra.errors import NotFound
from app.infra.i18n import say
from app.infra.inputs import addresses
from app.platforms import registrations, status
from app.platforms.models import Registration
from app.platforms.nextcloud_talk import install
from app.settings import address
from app.settings import store as settings

bot_option = click.option("--bot", metavar="NAME", help="The bot's own registration, not the one that bots share.")


@click.group("talk", help="Nextcloud Talk: connect a server, look at the connection, try a message.")
def talk() -> None:
    """Holds the commands about Talk."""


@talk.command("register")
@bot_option
@click.option("--backend", multiple=True, metavar="URL", help="A further address that this Nextcloud may call itself.")
@cli.instance_option
@cli.json_option
def register(*, bot: str | None, backend: tuple[str, ...], instance: str | None, as_json: bool) -> None:
    """Creates or shows a registration, with the line to install it in Nextcloud."""
    chosen = instances.chosen(instance)
    for url in backend:
        _allow(chosen.id, addresses.checked(url, field="backend"))
    found = _shared(chosen) if bot is None else _own(chosen, bot)
    _print(install.at_our_address(found), chosen, as_json)


@talk.command("rotate")
@bot_option
@click.option("--now", is_flag=True, help="Refuse the old secret at once, because somebody else knows it.")
@cli.instance_option
@cli.json_option
def rotate(*, bot: str | None, now: bool, instance: str | None, as_json: bool) -> None:
    """Gives a registration a fresh secret. Talk can't change one: uninstall the bot there and install it again."""
    chosen = instances.chosen(instance)
    found = _shared(chosen) if bot is None else _own(chosen, bot)
    keep = 0.0 if now else registrations.ROTATION_HOURS
    _print(registrations.rotate(found.id, keep_hours=keep), chosen, as_json)


@talk.command("status")
@cli.instance_option
@cli.json_option
def show_status(*, instance: str | None, as_json: bool) -> None:
    """Shows what came in and went out by each registration, and what is wrong."""
    wanted = instances.all() if instance is None else [instances.chosen(instance)]
    shown = [told.with_gap(status.shown(found, each), each) for each in wanted for found in _of(each)]
    cli.output(shown, as_json, lambda: _table(shown))


@talk.command("resume")
@bot_option
@cli.instance_option
@cli.json_option
def resume(*, bot: str | None, instance: str | None, as_json: bool) -> None:
    """Posts again at once, after what a refused post told of was put right."""
    chosen = instances.chosen(instance)
    found = _shared(chosen) if bot is None else _own(chosen, bot)
    registrations.untrip(found.id)
    waiting = claim.hurry(found.id, Reason.BREAKER_OPEN)
    data = {"id": found.id, "waiting": waiting}
    cli.output(data, as_json, say("Parley posts again. Answers that waited: {count}.", count=waiting))


def _of(instance: Instance) -> Sequence[Registration]:
    return registrations.of_instance(instance.id)


def _print(found: Registration, instance: Instance, as_json: bool) -> None:
    secret = registrations.secret(found)
    hint = install.hint(found, instance)
    command = install.occ_command(found.name, secret, found.webhook_url)
    data = {
        "key": found.key,
        "secret": secret,
        "webhook_url": found.webhook_url,
        "occ_command": command,
        "setup_command": install.setup_command(),
        "id": found.id,
        "name": found.name,
        "shared": found.shared,
        "warning": str(install.WARNING),
        "hint": None if hint is None else str(hint),
    }
    text = say(
        "On the Nextcloud server, as its web server's user:\n\n  {command}\n\nThen a moderator switches the bot on in "
        "the room's settings in Talk; or, on the server:\n\n  {setup}\n\n{warning}",
        command=command,
        setup=install.setup_command(),
        warning=install.WARNING,
    )
    told = (hint,) if instance.kind == registrations.SANDBOX else (text, hint)
    cli.output(data, as_json, "\n\n".join(str(sentence) for sentence in told if sentence is not None))


def _shared(instance: Instance) -> Registration:
    found = registrations.shared_of(instance.id)
    if found is not None:
        return found
    return registrations.create(instance.id, str(settings.get("branding_name")), base_url=address.public())


def _own(instance: Instance, name: str) -> Registration:
    bot = bots.by_mention(instance.id, name)
    if bot is None:
        raise NotFound(say("There is no bot named {name} in {instance}.", name=name, instance=instance.name))
    if bot.registration_id is not None:
        return registrations.get(bot.registration_id)
    # In one transaction: a registration without its bot would be found by nobody.
    with transaction():
        made = registrations.create(instance.id, bot.name, shared=False, base_url=address.public())
        bots.update(bot.id, {"registration_id": made.id})
    return made


def _allow(instance_id: int, backend: str) -> None:
    with transaction() as session:
        row = session.get(Instance, instance_id)
        if row is not None and backend not in row.backends:
            row.backends = [*row.backends, backend]


def _table(shown: list[dict[str, Any]]) -> None:
    columns = ("id", "instance", "name", "last_event_at", "last_post_at", "last_post_status", "blocked_until")
    cli.table(([each[column] for column in columns] for each in shown), head=columns)
    for each in shown:
        for problem in each["problems"]:
            click.echo(f"{each['id']}, {each['name']} in {each['instance']}: {problem}")


COMMANDS: list[click.Command] = [talk]
