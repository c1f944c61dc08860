"""JSON about turns: one's own with everything, and for administrators those of all with their figures (K20)."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.accounts import instances
from app.infra import auth
from app.infra.auth import Identity
from app.infra.errors import BadInput, NotAllowed, NotFound
from app.infra.i18n import Sentence, say
from app.infra.inputs import body
from app.traces import view
from app.traces.models import TurnTrace
from app.traces.view import Wanted

log = logging.getLogger(__name__)
blueprint = Blueprint("traces", __name__, url_prefix="/api/v1/traces")


@blueprint.get("")
@auth.access("user")
def trace_list() -> ResponseReturnValue:
    """One's own turns, the newest first; for administrators ?all=1 gives everybody's, ?instance=NAME another instance's.

    ?bot_id, ?room, ?status, ?from and ?to (ISO 8601), ?errors=1, ?tools=1 narrow it; ?limit (1-100) and ?offset page it.
    """
    asking = auth.identity()
    everybody = asking.admin and (_flag("all") or "instance" in request.args)
    found = view.listed(
        Wanted(
            instance_id=_instance(asking),
            actor=None if everybody else _actor(asking),
            bot_id=_number("bot_id"),
            room=request.args.get("room"),
            status=request.args.get("status"),
            since=_moment("from"),
            until=_moment("to"),
            only_errors=_flag("errors"),
            only_with_tools=_flag("tools"),
            limit=_number("limit") if "limit" in request.args else view.LIMIT,  # type: ignore[arg-type]
            offset=_number("offset") or 0,
        )
    )
    return {"traces": [view.summary(turn) for turn in found]}


@blueprint.get("/<int:id>")
@auth.access("user")
def trace_show(id: int) -> ResponseReturnValue:
    """One turn with its steps. Administrators see the texts of others' only when shared, or with ?reveal=1, which the
    person can see in the trace."""
    asking = auth.identity()
    turn = _visible(id, asking)
    own = _is_own(turn, asking)
    if not own and turn.shared_at is None and _flag("reveal"):
        view.reveal(turn, _actor(asking))
        log.warning("the texts of trace %s were revealed to person %s", turn.id, asking.person_id)
        return view.whole(turn, with_text=True)
    return view.whole(turn, with_text=own or turn.shared_at is not None)


@blueprint.post("/<int:id>/share")
@auth.access("user")
def trace_share(id: int) -> ResponseReturnValue:
    """Shows the texts of one's own turn to administrators: {"shared": true}; false takes it back."""
    values = body.read(request.get_data(cache=False))
    body.only(values, {"shared"})
    turn = _own(id, auth.identity())
    view.share(turn, body.needed(values, "shared", bool))
    return view.summary(view.found(id))


@blueprint.delete("/<int:id>")
@auth.access("user")
def trace_delete(id: int) -> ResponseReturnValue:
    """Deletes one's own turn; one that still runs stays."""
    asking = auth.identity()
    _own(id, asking)
    return {"deleted": view.remove(asking.instance_id, _actor(asking), turn_id=id)}


@blueprint.delete("")
@auth.access("user")
def trace_delete_all() -> ResponseReturnValue:
    """Deletes all of one's own turns but those that still run."""
    asking = auth.identity()
    return {"deleted": view.remove(asking.instance_id, _actor(asking))}


def _visible(id: int, asking: Identity) -> TurnTrace:
    turn = view.found(id)
    if not asking.admin and not _is_own(turn, asking):
        raise NotFound(say("There is no trace {id}.", id=id))
    return turn


def _own(id: int, asking: Identity) -> TurnTrace:
    turn = view.found(id)
    if not _is_own(turn, asking):
        raise NotFound(say("There is no trace {id}.", id=id))
    return turn


def _is_own(turn: TurnTrace, asking: Identity) -> bool:
    return turn.instance_id == asking.instance_id and turn.actor == _actor(asking)


def _actor(asking: Identity) -> str:
    if asking.person_id is None:
        raise NotAllowed  # the token of a domain is nobody, and owns nothing
    return f"users/{asking.uid}"


def _instance(asking: Identity) -> int:
    named = request.args.get("instance")
    return instances.chosen(named).id if named and asking.admin else asking.instance_id


def _flag(name: str) -> bool:
    return request.args.get(name, "") in ("1", "true", "yes")


def _number(name: str) -> int | None:
    text = request.args.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _bad(name, say("{name} must be a whole number.", name=name))
    return int(text)


def _moment(name: str) -> datetime | None:
    text = request.args.get(name)
    if text is None:
        return None
    try:
        # A "+" of an offset arrives as a space where a caller forgot to encode it.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _bad(name, say("{name} must be a moment such as 2026-03-02T09:00:00Z.", name=name)) from None


def _bad(field: str, sentence: Sentence) -> BadInput:
    return BadInput(sentence, fields={field: str(sentence)})
