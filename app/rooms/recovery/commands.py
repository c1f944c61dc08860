"""The command that reads rooms without a gap that Parley could notice."""

from __future__ import annotations

import click

from app.accounts import instances, serviceuser
from app.inbox.gaps import watch
from app.infra import cli
from app.infra.errors import Conflict
from app.infra.i18n import say


@click.group("talk")
def group() -> None:
    """Holds the command about missed messages among those about Talk."""


@group.command("recover")
@cli.instance_option
@cli.json_option
def recover(*, instance: str | None, as_json: bool) -> None:
    """Reads what was missed in the last quarter of an hour, as after a gap: where Nextcloud could not reach Parley."""
    chosen = instances.chosen(instance)
    if chosen.kind != watch.NEXTCLOUD or not serviceuser.exists(chosen):
        raise Conflict(
            say(
                "The rooms of {name} can only be read by a service user: "
                "`python manage.py instances service-user {name} --uid UID`.",
                name=chosen.name,
            )
        )
    watch.ask(chosen.id)
    sentence = say(
        "The rooms of {name} are read now. `python manage.py talk status` tells the outcome.", name=chosen.name
    )
    cli.output({"instance": chosen.name, "queued": True}, as_json, sentence)


COMMANDS: list[click.Command] = [group]
