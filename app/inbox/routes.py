"""JSON about the inbox, for administrators: where every event stands and why; never what it said."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.accounts import instances
from app.inbox import claim, listing
from app.inbox.listing import Listed
from app.infra import auth, jobs
from app.infra.errors import BadInput
from app.infra.i18n import say
from app.infra.inputs import body

blueprint = Blueprint("inbox", __name__, url_prefix="/api/v1/inbox")


@blueprint.get("")
@auth.access("administrator")
def inbox_list() -> ResponseReturnValue:
    """The newest events of one's instance, or of ?instance=NAME; ?state=, ?room= and ?limit= (1-1000) narrow it."""
    named = request.args.get("instance")
    home = instances.chosen(named).id if named else auth.identity().instance_id
    found = listing.listed(home, state=request.args.get("state"), room=request.args.get("room"), limit=_limit())
    return {"events": [_shown(row) for row in found]}


@blueprint.get("/<int:id>")
@auth.access("administrator")
def inbox_show(id: int) -> ResponseReturnValue:
    """One event."""
    return _shown(listing.found(id))


@blueprint.post("/<int:id>/retry")
@auth.access("administrator")
def inbox_retry(id: int) -> ResponseReturnValue:
    """Another try for a dead event, and with {"force": true} for one whose answer may stand in the room already."""
    values = body.read(request.get_data(cache=False))
    body.only(values, {"force"})
    row = listing.retry(id, force=bool(body.optional(values, "force", bool)))
    jobs.enqueue(claim.DRAIN, row.instance_id, row.room)
    return _shown(row), 202


def _limit() -> int:
    text = request.args.get("limit")
    if text is None:
        return listing.LIMIT
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        sentence = say("The limit must be from 1 to {most}.", most=listing.MOST)
        raise BadInput(sentence, fields={"limit": str(sentence)})
    return int(text)


def _shown(row: Listed) -> dict[str, Any]:
    moments = ("received_at", "waits_until", "finished_at")
    return {
        name: value.isoformat() if name in moments and value is not None else value
        for name, value in asdict(row).items()
    }
