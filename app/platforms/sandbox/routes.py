"""The bot API of the sandbox's small Talk server, for this machine only."""

from __future__ import annotations

import json
from typing import Any

from flask import Blueprint, Response, abort, request

from app.infra import auth
from app.platforms.sandbox import talk

blueprint = Blueprint("sandbox", __name__, url_prefix="/sandbox/ocs/v2.php/apps/spreed/api/v1/bot")

MAX_BODY = 1024 * 1024
XML = '<?xml version="1.0"?>\n<ocs><meta><status>{status}</status><statuscode>{code}</statuscode></meta><data/></ocs>\n'


@blueprint.post("/<room>/message")
@auth.access("public")
def post(room: str) -> Response:
    """A bot's message."""
    data = _data()
    if data is None:
        return _csrf_failed()
    return _ocs(talk.post(room, data, random=_random(), signature=_signature()))


@blueprint.post("/<room>/reaction/<int:message_id>")
@auth.access("public")
def react(room: str, message_id: int) -> Response:
    """A bot's reaction."""
    return _reaction(room, message_id, remove=False)


@blueprint.delete("/<room>/reaction/<int:message_id>")
@auth.access("public")
def unreact(room: str, message_id: int) -> Response:
    """Takes a bot's reaction away; the emoji may stand in the body or in the address."""
    return _reaction(room, message_id, remove=True)


def _reaction(room: str, message_id: int, *, remove: bool) -> Response:
    data = _data()
    if data is None:
        return _csrf_failed()
    emoji = data.get("reaction")
    return _ocs(talk.react(room, message_id, emoji, random=_random(), signature=_signature(), remove=remove))


def _data() -> dict[str, Any] | None:
    """The parameters of a request from this machine; None when it lacks the header that Nextcloud asks for."""
    if not auth.from_this_machine():
        abort(404)
    request.max_content_length = MAX_BODY
    body = request.get_data()
    if request.headers.get("OCS-APIRequest", "").lower() != "true":
        return None
    found: dict[str, Any] = {**request.args, **request.form}
    try:
        sent = json.loads(body) if request.is_json else {}
    except (ValueError, RecursionError):
        sent = {}
    return {**found, **sent} if isinstance(sent, dict) else found


def _random() -> str:
    return request.headers.get("X-Nextcloud-Talk-Bot-Random", "")


def _signature() -> str:
    return request.headers.get("X-Nextcloud-Talk-Bot-Signature", "")


def _csrf_failed() -> Response:
    return Response('{"message":"CSRF check failed"}', 412, content_type="application/json; charset=utf-8")


def _ocs(code: int) -> Response:
    status = "ok" if code < 400 else "failure"
    if "json" not in request.headers.get("Accept", ""):
        return Response(XML.format(status=status, code=code), code, content_type="application/xml; charset=utf-8")
    meta = {"status": status, "statuscode": code, "message": "OK" if code < 400 else ""}
    body = json.dumps({"ocs": {"meta": meta, "data": None}})
    response = Response(body, code, content_type="application/json; charset=utf-8")
    if code == talk.REFUSED:
        response.headers["X-Nextcloud-Bruteforce-Throttled"] = "200ms"
    return response
