"""JSON about rooms: how a bot responds in one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.accounts import instances
from app.bots import access, store
from app.infra import auth
from app.infra.auth import Identity
from app.infra.errors import NotAllowed, NotFound
from app.infra.i18n import say
from app.infra.inputs import body
from app.platforms import rooms
from app.platforms.base import Actor
from app.platforms.models import Room
from app.rooms import members, modes
from app.rooms.orders import state

blueprint = Blueprint("rooms", __name__, url_prefix="/api/v1/rooms")


@blueprint.put("/<token>/bots/<int:id>/mode")
@auth.access("user")
def mode(token: str, id: int) -> ResponseReturnValue:
    """Sets how a bot responds in a room: {"mode": "mention" | "thread" | "always"}; for administrators and moderators.

    Administrators may name another instance than their own with ?instance=NAME.
    """
    asking = auth.identity()
    room = _room(asking, token)
    bot = store.get(id)
    if bot is None or bot.instance_id != room.instance_id:
        raise NotFound
    if not asking.admin and not access.may_use(bot, _actor(asking), room.instance_id).allowed:
        raise NotFound
    values: dict[str, Any] = body.read(request.get_data())
    body.only(values, {"mode"})
    chosen = modes.read(body.needed(values, "mode", str))
    return asdict(modes.choose(room.instance_id, room.token, bot_id=bot.id, mode=chosen))


@blueprint.get("")
@auth.access("administrator")
def listed() -> ResponseReturnValue:
    """The rooms of an instance (your own, or ?instance=NAME), with their bots, memory and language."""
    asking = auth.identity()
    chosen = request.args.get("instance")
    return {
        "rooms": [asdict(room) for room in state.listed(instances.chosen(chosen).id if chosen else asking.instance_id)]
    }


@blueprint.get("/<token>")
@auth.access("user")
def shown(token: str) -> ResponseReturnValue:
    """One room, for administrators and the room's moderators."""
    return asdict(state.of(_room(auth.identity(), token)))


def _room(asking: Identity, token: str) -> Room:
    """The room, for whoever may change it; anybody else learns nothing about it."""
    instance_id = asking.instance_id
    if asking.admin and request.args.get("instance"):
        instance_id = instances.chosen(request.args["instance"]).id
    room = rooms.get(instance_id, token)
    if asking.admin:
        if room is None:
            raise NotFound
        return room
    if room is None or not members.moderates(room, _actor(asking).key):
        raise NotAllowed(
            say("Only administrators and moderators of the room, as known, may change how a bot responds.")
        )
    return room


def _actor(asking: Identity) -> Actor:
    return Actor("users", asking.uid, asking.uid)
