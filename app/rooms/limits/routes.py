"""JSON about limits, for administrators: how far they are used, and who waits."""

from __future__ import annotations

import logging

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.accounts import instances
from app.inbox import claim
from app.infra import auth, jobs
from app.rooms.limits import line, status

log = logging.getLogger(__name__)
blueprint = Blueprint("limits", __name__, url_prefix="/api/v1/limits")


@blueprint.get("")
@auth.access("administrator")
def limits_show() -> ResponseReturnValue:
    """The limits of turns with how many wait, of one's instance or of ?instance=NAME, and those of every endpoint:
    limit, remaining, recovers_at, source (configured, observed, disabled)."""
    return status.shown(_home())


@blueprint.post("/hurry")
@auth.access("administrator")
def limits_hurry() -> ResponseReturnValue:
    """Lets the turns that wait, of one's instance or of ?instance=NAME, ask for their place anew now: {rooms: number}."""
    home = _home()
    rooms = line.hurry(home)
    for room in rooms:
        jobs.enqueue(claim.DRAIN, *room)
    log.info("person %s hurried the waiting turns of instance %s", auth.identity().person_id, home)
    return {"rooms": len(rooms)}


def _home() -> int:
    named = request.args.get("instance")
    return instances.chosen(named).id if named else auth.identity().instance_id
