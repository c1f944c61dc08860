"""JSON about who is asking: oneself and one's tokens, and for administrators people and instances."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.accounts import directory, instances, people, serviceuser, tokens
from app.accounts.models import Instance, Person, Token
from app.infra import auth
from app.infra.auth import Identity
from app.infra.db import transaction
from app.infra.errors import BadInput, Conflict, NotAllowed, NotFound
from app.infra.i18n import say
from app.infra.inputs import body
from app.platforms import probe

log = logging.getLogger(__name__)
blueprint = Blueprint("accounts", __name__, url_prefix="/api/v1")

PERSON_FIELDS = frozenset({"display_name", "admin", "operator", "groups", "teams"})


@blueprint.get("/me")
@auth.access("user")
def me() -> ResponseReturnValue:
    """Who is asking, and what this request may do."""
    asking = auth.identity()
    person = people.get(asking.person_id) if asking.person_id is not None else None
    if person is None:
        raise NotFound
    return _person(person) | {"via": asking.via, "scope": asking.scope, "may_administer": asking.admin}


@blueprint.get("/tokens")
@auth.access("user")
def token_list() -> ResponseReturnValue:
    """One's own tokens, without their texts."""
    return {"tokens": [_token(row) for row in tokens.of_person(_own_id(auth.identity()))]}


@blueprint.post("/tokens")
@auth.access("user")
def token_add() -> ResponseReturnValue:
    """A new token of one's own: {scope, days?} gives {id, token, expires_at}, the token only this once."""
    asking = auth.identity()
    # Else a token that leaks for an hour could make itself one that lasts for years.
    if asking.via != "session":
        raise NotAllowed(say("Tokens are made in the browser or with manage.py, not with a token."))
    values = _body({"scope", "days"})
    id, token, expires_at = tokens.issue(
        asking.instance_id,
        person_id=_own_id(asking),
        scope=body.needed(values, "scope", str),
        days=body.optional(values, "days", int) or tokens.DEFAULT_DAYS,
    )
    return {"id": id, "token": token, "expires_at": expires_at.isoformat()}, 201


@blueprint.delete("/tokens/<int:id>")
@auth.access("user")
def token_revoke(id: int) -> ResponseReturnValue:
    """Ends one of one's own tokens."""
    tokens.revoke(id, person_id=_own_id(auth.identity()))
    return "", 204


@blueprint.get("/people")
@auth.access("administrator")
def people_list() -> ResponseReturnValue:
    """People, in pages: ?instance=NAME&q=WORDS&after=ID&limit=N; `next` is the `after` of the next page."""
    limit = min(max(request.args.get("limit", 100, int), 1), people.MOST_LISTED)
    found = people.listed(
        _instance(request.args["instance"]).id if request.args.get("instance") else None,
        words=request.args.get("q", ""),
        after=min(max(request.args.get("after", 0, int), 0), auth.LARGEST_ID),
        limit=limit,
    )
    return {"people": [_person(row) for row in found], "next": found[-1].id if len(found) == limit else None}


@blueprint.post("/people")
@auth.access("administrator")
def people_add() -> ResponseReturnValue:
    """A new person: {instance, uid, display_name?, admin?, operator?, groups?, teams?}."""
    values = _body(PERSON_FIELDS | {"instance", "uid"})
    instance = _instance(body.needed(values, "instance", str))
    uid = body.needed(values, "uid", str)
    if people.find(instance.id, uid) is not None:
        raise Conflict(say("There is a person named {uid} already.", uid=uid))
    _check_rights(values)
    with transaction():
        made = _change(people.ensure(instance.id, uid), values)
    return _person(made), 201


@blueprint.get("/people/<int:id>")
@auth.access("administrator")
def people_show(id: int) -> ResponseReturnValue:
    """One person."""
    return _person(_found(id))


@blueprint.patch("/people/<int:id>")
@auth.access("administrator")
def people_change(id: int) -> ResponseReturnValue:
    """Changes what is given of {display_name, admin, operator, groups, teams}."""
    values = _body(PERSON_FIELDS)
    _check_rights(values)
    person = _found(id)
    # An installation without an administrator could only be helped on the server.
    if id == auth.identity().person_id and values.get("admin") is False:
        raise BadInput(say("Another administrator must take this right from you."), fields={"admin": ""})
    with transaction():
        changed = _change(person, values)
    return _person(changed)


@blueprint.put("/people/<int:id>/password")
@auth.access("administrator")
def people_password(id: int) -> ResponseReturnValue:
    """Gives a person a local password: {password}; ends all their sessions. An operator's is set by operators only."""
    values = _body({"password"})
    person = _found(id)
    # Whoever knows the password has the rights.
    if person.is_operator and not auth.identity().operator:
        raise NotAllowed(say("Only an operator may give an operator a password."))
    people.set_password(person.id, body.needed(values, "password", str))
    log.info("person %s was given a password by person %s", person.id, auth.identity().person_id)
    return "", 204


@blueprint.get("/instances")
@auth.access("administrator")
def instance_list() -> ResponseReturnValue:
    """Every instance."""
    return {"instances": [_shown(row) for row in instances.all()]}


@blueprint.post("/instances")
@auth.access("administrator")
def instance_add() -> ResponseReturnValue:
    """A new instance: {name, url, kind?, domain?, context?}."""
    values = _body({"name", "url", "kind", "domain", "context"})
    made = instances.add(
        body.needed(values, "name", str),
        body.needed(values, "url", str),
        kind=body.optional(values, "kind", str) or "nextcloud",
        domain=body.optional(values, "domain", str),
        context=body.optional(values, "context", str),
    )
    return _shown(made), 201


@blueprint.put("/instances/<name>/service-user")
@auth.access("administrator")
def instance_service_user(name: str) -> ResponseReturnValue:
    """Sets the service user: {uid, password}, its app password; the answer tells whether the server takes it."""
    values = _body({"uid", "password"})
    home = _instance(name)
    given = body.needed(values, "uid", str), body.needed(values, "password", str)
    changed = serviceuser.give(home.id, *given)
    log.info("the service user of instance %s was set by person %s", home.id, auth.identity().person_id)
    tested = probe.tested(home)
    return _shown(changed) | {"ok": tested.ok, "message": tested.message.text()}


@blueprint.post("/instances/<name>/service-user/test")
@auth.access("administrator")
def instance_service_user_test(name: str) -> ResponseReturnValue:
    """Whether the server takes the service user now: {ok, message}."""
    tested = probe.tested(_instance(name))
    return {"ok": tested.ok, "message": tested.message.text()}


@blueprint.delete("/instances/<name>/service-user")
@auth.access("administrator")
def instance_service_user_clear(name: str) -> ResponseReturnValue:
    """Forgets the service user; members, groups and teams are unknown from now on."""
    home = _instance(name)
    serviceuser.take_away(home.id)
    log.info("the service user of instance %s was forgotten by person %s", home.id, auth.identity().person_id)
    return "", 204


def _body(names: set[str] | frozenset[str]) -> dict[str, Any]:
    values = body.read(request.get_data(cache=False))
    body.only(values, names)
    return values


def _own_id(asking: Identity) -> int:
    if asking.person_id is None:
        raise NotAllowed
    return asking.person_id


def _found(id: int) -> Person:
    person = people.get(id)
    if person is None:
        raise NotFound
    return person


def _instance(name: str) -> Instance:
    found = instances.by_name(name)
    if found is None:
        sentence = say("There is no instance named {name}.", name=name[:64])
        raise BadInput(sentence, fields={"instance": str(sentence)})
    return found


def _check_rights(values: Mapping[str, Any]) -> None:
    """An operator's rights are given by an operator, or on the server."""
    if body.optional(values, "operator", bool) is not None and not auth.identity().operator:
        raise NotAllowed(say("Only an operator may make or unmake operators."))


def _change(person: Person, values: Mapping[str, Any]) -> Person:
    admin, operator = body.optional(values, "admin", bool), body.optional(values, "operator", bool)
    groups, teams = body.texts(values, "groups"), body.texts(values, "teams")
    name = body.optional(values, "display_name", str)
    if groups is not None or teams is not None:
        directory.remember(person.id, groups=directory.named(groups), teams=directory.named(teams))
    if name:
        people.ensure(person.instance_id, person.uid, name)
    if admin is not None or operator is not None:
        log.info("rights of person %s were changed by person %s", person.id, auth.identity().person_id)
    return people.grant(person.id, admin=admin, operator=operator)


def _person(row: Person) -> dict[str, Any]:
    known = directory.memberships(row.id)
    instance = instances.get(row.instance_id)
    return {
        "id": row.id,
        "instance": instance.name if instance else "",
        "uid": row.uid,
        "display_name": row.display_name,
        "admin": row.is_admin,
        "operator": row.is_operator,
        "has_password": row.password_hash is not None,
        "groups": sorted(known.groups),
        "teams": sorted(known.teams),
        "groups_fresh": known.fresh,
    }


def _token(row: Token) -> dict[str, Any]:
    return {
        "id": row.id,
        "scope": row.scope,
        "allow": row.allow,
        "created_at": row.created_at.isoformat(),
        "used_at": row.used_at.isoformat() if row.used_at else None,
        "expires_at": row.expires_at.isoformat() if row.expires_at else None,
    }


def _shown(row: Instance) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "kind": row.kind,
        "url": row.url,
        "domain": row.domain,
        "context": row.context,
        "service_uid": row.service_uid,
        "has_service_secret": row.service_secret is not None,
        "service_blocked": serviceuser.blocked(row),
    }
