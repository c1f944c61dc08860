"""JSON about registrations, for administrators."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.accounts import instances
from app.accounts.models import Instance
from app.inbox.gaps import told
from app.infra import auth
from app.infra.errors import BadInput, Conflict, NotFound
from app.infra.i18n import say
from app.infra.inputs import body
from app.platforms import registrations, status
from app.platforms.models import Registration
from app.platforms.nextcloud_talk import install
from app.settings import address
from app.settings import store as settings

blueprint = Blueprint("registrations", __name__, url_prefix="/api/v1/registrations")


@blueprint.get("")
@auth.access("administrator")
def list_all() -> ResponseReturnValue:
    """Every registration, or those of one instance (?instance=NAME), without secrets."""
    name = request.args.get("instance")
    wanted = [_instance(name)] if name else instances.all()
    shown = [told.with_gap(status.shown(found, each), each) for each in wanted for found in _of(each)]
    return {"registrations": shown}


@blueprint.post("")
@auth.access("administrator")
def create() -> ResponseReturnValue:
    """A new registration: {instance?, name?, shared?} gives its secret and the line that installs it.

    The instance is by default that of whoever asks. An instance has one shared registration; a bot's own one is made
    with `shared` false and given to the bot as `registration_id`.
    """
    values = body.read(request.get_data(cache=False))
    body.only(values, {"instance", "name", "shared"})
    instance = _instance(body.optional(values, "instance", str))
    name = body.optional(values, "name", str) or str(settings.get("branding_name"))
    shared = body.optional(values, "shared", bool) is not False
    if shared and registrations.shared_of(instance.id) is not None:
        raise Conflict(say("There is a shared registration in this instance already."))
    made = registrations.create(instance.id, name, shared=shared, base_url=address.public())
    return _with_secret(made, instance), 201


@blueprint.post("/<int:id>/rotate")
@auth.access("administrator")
def rotate(id: int) -> ResponseReturnValue:
    """A fresh secret: {now?}; with `now` the old one is refused at once, else it is taken for a day more."""
    values = body.read(request.get_data(cache=False))
    body.only(values, {"now"})
    keep = 0.0 if body.optional(values, "now", bool) else registrations.ROTATION_HOURS
    found = registrations.rotate(id, keep_hours=keep)
    instance = instances.get(found.instance_id)
    if instance is None:
        raise NotFound
    return _with_secret(found, instance)


def _of(instance: Instance) -> list[Registration]:
    return list(registrations.of_instance(instance.id))


def _instance(name: str | None) -> Instance:
    found = instances.get(auth.identity().instance_id) if name is None else instances.by_name(name)
    if found is None:
        sentence = say("There is no instance named {name}.", name=(name or "")[:64])
        raise BadInput(sentence, fields={"instance": str(sentence)})
    return found


def _with_secret(found: Registration, instance: Instance) -> dict[str, Any]:
    secret = registrations.secret(found)
    return status.shown(found, instance) | {
        "key": found.key,
        "secret": secret,
        "occ_command": install.occ_command(found.name, secret, found.webhook_url),
        "warning": str(install.WARNING),
    }
