"""Commands about instances, people and tokens."""

from __future__ import annotations

import sys
from typing import Any

import click

from app.accounts import directory, instances, people, serviceuser, tokens
from app.accounts.models import Instance, Person
from app.infra import auth, cli
from app.infra.db import transaction
from app.infra.errors import BadInput, NotFound
from app.infra.i18n import say
from app.platforms import probe


@click.group("instances", help="The servers and domains that Parley serves.")
def instances_group() -> None:
    """Holds the commands about instances."""


@instances_group.command("add")
@click.argument("name")
@click.option("--url", required=True, help="Where it is reached, such as https://cloud.example.com.")
@click.option(
    "--kind", type=click.Choice(instances.KINDS), default="nextcloud", show_default=True, help="What is there."
)
@click.option("--domain", help="The host name of a personal domain, with a port where it needs one.")
@click.option("--context", help="The context of a personal domain.")
@cli.json_option
def instances_add(name: str, *, url: str, kind: str, domain: str | None, context: str | None, as_json: bool) -> None:
    """Adds a Nextcloud server or a personal domain."""
    made = instances.add(name, url, kind=kind, domain=domain, context=context)
    cli.output(_instance(made), as_json, say("Added {name} at {url}.", name=made.name, url=made.url))


@instances_group.command("list")
@cli.json_option
def instances_list(as_json: bool) -> None:
    """Lists the instances."""
    found = [_instance(row) for row in instances.all()]
    rows = [(each["id"], each["name"], each["kind"], each["url"], each["domain"]) for each in found]
    cli.output(found, as_json, lambda: cli.table(rows, head=("id", "name", "kind", "url", "domain")))


@instances_group.command("service-user")
@click.argument("name")
@click.option("--uid", help="The account on the server, a member of the rooms that bots shall know.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read its app password from stdin; else it is asked for.")
@click.option("--clear", is_flag=True, help="Forget the service user.")
@cli.json_option
def instances_service_user(name: str, *, uid: str | None, from_stdin: bool, clear: bool, as_json: bool) -> None:
    """Sets the service user of an instance and its app password, or tests the one that is set."""
    home = instances.chosen(name)
    if clear and uid:
        raise BadInput(say("Either set a service user with --uid, or forget it with --clear."))
    if clear:
        serviceuser.take_away(home.id)
        cleared = say("{name} has no service user any more.", name=name)
        cli.output(_service_user(home.id), as_json, cleared)
        return
    if uid:
        serviceuser.give(home.id, uid, cli.secret(from_stdin=from_stdin, prompt=say("App password")))
    tested = probe.tested(home)
    cli.output(_service_user(home.id) | {"ok": tested.ok, "message": str(tested.message)}, as_json, tested.message)
    if not tested.ok:
        raise SystemExit(1)


@click.group("users", help="The people of an instance.")
def users_group() -> None:
    """Holds the commands about people."""


@users_group.command("add")
@click.argument("uid")
@click.option("--admin/--no-admin", default=None, help="Give or take the rights of an administrator.")
@click.option("--operator/--no-operator", default=None, help="Give or take the rights of an operator.")
@click.option("--groups", help="Groups, separated by commas; replaces those known.")
@click.option("--teams", help="Teams, separated by commas; replaces those known.")
@click.option("--display-name", default="", help="The name that others see.")
@click.option("--password-stdin", is_flag=True, help="Read a local password from stdin; asked for at a terminal.")
@cli.instance_option
@cli.json_option
def users_add(
    uid: str,
    *,
    admin: bool | None,
    operator: bool | None,
    groups: str | None,
    teams: str | None,
    display_name: str,
    password_stdin: bool,
    instance: str | None,
    as_json: bool,
) -> None:
    """Adds a person, or changes what is given of one; UID is the uid in that instance."""
    home = instances.chosen(instance)
    password = _password() if password_stdin else None
    with transaction():
        person = people.ensure(home.id, uid, display_name)
        if groups is not None or teams is not None:
            directory.remember(person.id, groups=directory.named(_split(groups)), teams=directory.named(_split(teams)))
        if password is not None:
            people.set_password(person.id, password)
        person = people.grant(person.id, admin=admin, operator=operator)
    cli.output(_person(person, home), as_json, say("{uid} of {instance} is ready.", uid=person.uid, instance=home.name))


@users_group.command("list")
@cli.instance_option
@cli.json_option
def users_list(instance: str | None, as_json: bool) -> None:
    """Lists people: those of one instance, or all."""
    home = instances.chosen(instance) if instance else None
    homes = {row.id: row for row in instances.all()}
    found: list[dict[str, Any]] = []
    after = 0
    while page := people.listed(home.id if home else None, after=after, limit=people.MOST_LISTED):
        found += [_person(row, homes[row.instance_id]) for row in page]
        after = page[-1].id
    rows = [(each["id"], each["instance"], each["uid"], _rights(each), ", ".join(each["groups"])) for each in found]
    cli.output(found, as_json, lambda: cli.table(rows, head=("id", "instance", "uid", "rights", "groups")))


@click.group("tokens", help="Bearer tokens for scripts and other programs.")
def tokens_group() -> None:
    """Holds the commands about tokens."""


@tokens_group.command("add")
@click.option("--user", "uid", help="The uid of the person whom the token stands for.")
@click.option("--domain", help="The personal domain that the token is for.")
@click.option("--scope", type=click.Choice(tokens.SCOPES), help="What a person's token may do.")
@click.option("--allow", multiple=True, metavar="TYPE[:VERBS[:VALUES]]", help="What a domain's token may do.")
@click.option("--days", type=int, default=tokens.DEFAULT_DAYS, show_default=True, help="How long it lasts.")
@cli.instance_option
@cli.json_option
def tokens_add(
    uid: str | None,
    *,
    domain: str | None,
    scope: str | None,
    allow: tuple[str, ...],
    days: int,
    instance: str | None,
    as_json: bool,
) -> None:
    """Makes a token and prints it, this once."""
    home = _of_domain(domain) if domain else instances.chosen(instance)
    if bool(uid) == bool(domain):
        raise BadInput(say("Say whom the token is for: either --user UID or --domain HOST."))
    person = _known_person(home, uid) if uid else None
    id, token, expires_at = tokens.issue(
        home.id, person_id=person.id if person else None, scope=scope, allow=allow, days=days
    )
    shown = {"id": id, "token": token, "expires_at": expires_at.isoformat()}
    cli.output(
        shown,
        as_json,
        say("{token}\nIt is shown this once and lasts until {until}.", token=token, until=expires_at.date()),
    )


@tokens_group.command("list")
@cli.instance_option
@cli.json_option
def tokens_list(instance: str | None, as_json: bool) -> None:
    """Lists the tokens of an instance, without their texts."""
    home = instances.chosen(instance)
    issued = tokens.of_instance(home.id)
    uids = people.uids(row.person_id for row in issued if row.person_id is not None)
    found = [
        {
            "id": row.id,
            "person_id": row.person_id,
            "user": uids.get(row.person_id or 0),
            "scope": row.scope,
            "allow": row.allow,
            "expires_at": row.expires_at,
            "used_at": row.used_at,
        }
        for row in issued
    ]
    head = ("id", "user", "scope", "allow", "expires_at", "used_at")
    rows = [[each[name] for name in head] for each in found]
    cli.output(found, as_json, lambda: cli.table(rows, head=head))


@tokens_group.command("revoke")
@click.argument("id", type=click.IntRange(1, auth.LARGEST_ID))
@cli.json_option
def tokens_revoke(id: int, as_json: bool) -> None:
    """Ends a token at once."""
    tokens.revoke(id)
    cli.output({"id": id, "revoked": True}, as_json, say("Token {id} is ended.", id=id))


COMMANDS = [instances_group, users_group, tokens_group]


def _password() -> str:
    interactive = sys.stdin.isatty()
    return cli.secret(from_stdin=not interactive, prompt=say("Password"), confirm=True)


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _of_domain(domain: str) -> Instance:
    found = instances.by_domain(domain)
    if found is None:
        raise NotFound(say("No instance serves the domain {domain}.", domain=domain))
    return found


def _known_person(home: Instance, uid: str) -> Person:
    found = people.find(home.id, uid)
    if found is None:
        raise NotFound(say("There is no person {uid} in {instance}.", uid=uid, instance=home.name))
    return found


def _instance(row: Instance) -> dict[str, Any]:
    return {"id": row.id, "name": row.name, "url": row.url, "kind": row.kind, "domain": row.domain}


def _service_user(id: int) -> dict[str, Any]:
    row = instances.get(id)
    if row is None:
        raise NotFound
    return {"id": row.id, "name": row.name, "service_uid": row.service_uid}


def _person(row: Person, home: Instance) -> dict[str, Any]:
    known = directory.memberships(row.id)
    return {
        "id": row.id,
        "instance": home.name,
        "uid": row.uid,
        "display_name": row.display_name,
        "admin": row.is_admin,
        "operator": row.is_operator,
        "has_password": row.password_hash is not None,
        "groups": sorted(known.groups),
        "teams": sorted(known.teams),
    }


def _rights(person: dict[str, Any]) -> str:
    return ", ".join(right for right in ("admin", "operator") if person[right])
