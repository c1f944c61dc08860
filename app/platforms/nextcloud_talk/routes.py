"""Where Talk sends its events: raw bytes in, a status out, and nothing slow in between.

Talk waits for the answer inside its user's "send", and never tries again. So an event is stored before it is
acknowledged, and no model and no Nextcloud is called here. Whatever is wrong with a signature, the answer and the work
are the same: nobody learns which keys exist.
"""

from __future__ import annotations

import logging

from flask import Blueprint, Response, request

from app.inbox.accept import accept
from app.infra import auth, metrics, signing
from app.infra.errors import BadInput, ParleyError, Unavailable
from app.infra.i18n import say
from app.platforms import backends, registrations
from app.platforms.base import BadPayload, IncomingEvent
from app.platforms.nextcloud_talk import payload
from app.platforms.registrations import Inlet

log = logging.getLogger(__name__)
blueprint = Blueprint("nextcloud_talk", __name__)

# A message of 32,000 emoji is 450 kB on the wire, and the message that it replies to comes along.
MAX_BODY = 2 * 1024 * 1024


class BadSignature(ParleyError):
    """A request that nobody whom we know has signed; it never says what was wrong."""

    code = "bad_signature"
    status = 401

    def __init__(self) -> None:
        super().__init__(say("The signature of this request does not fit."))


class Compressed(ParleyError):
    """A body that would have to be inflated before its signature could be checked."""

    code = "compressed"
    status = 415

    def __init__(self) -> None:
        super().__init__(say("Send the body without compression."))


class TooLarge(ParleyError):
    """A body that no message of Talk can have."""

    code = "too_large"
    status = 413

    def __init__(self) -> None:
        super().__init__(say("An event of Talk has at most 2 MiB."))


@blueprint.post("/webhook/talk/<key>")
@auth.access("public")
def webhook(key: str) -> Response:
    """An event for the registration with this key."""
    return _taken(key)


@blueprint.post("/webhook/talk")
@blueprint.post("/apps/educai/webhook/talk")
@auth.access("public")
def webhook_without_key() -> Response:
    """An event for the only registration there is besides the sandbox's."""
    return _taken(None)


def _taken(key: str | None) -> Response:
    body = _body()
    random = request.headers.get("X-Nextcloud-Talk-Random", "")
    backend = request.headers.get("X-Nextcloud-Talk-Backend", "")
    inlet, newest = _verified(key, random, body)
    if not backends.fits(backend, inlet.backends):
        registrations.misnamed(inlet, backend)
        raise BadSignature
    try:
        event = payload.parse(body)
    except BadPayload as error:
        raise BadInput(say("The body is not an event of Talk."), detail=str(error)) from None
    _store(inlet, random, body, event=event, backend=backend)
    if newest and inlet.rotating:
        registrations.confirmed(inlet)
    return Response(status=200)


def _body() -> bytes:
    """The raw bytes; refused by the Content-Length alone where it tells enough, else read no further than the limit."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Compressed
    if (request.content_length or 0) > MAX_BODY:
        raise TooLarge
    # One byte more, because the reader cuts a body without a Content-Length off at its limit and says nothing.
    request.max_content_length = MAX_BODY + 1
    body = request.get_data(cache=False)
    if len(body) > MAX_BODY:
        raise TooLarge
    return body


def _verified(key: str | None, random: str, body: bytes) -> tuple[Inlet, bool]:
    """Who is meant, and whether its newest secret signed the request."""
    try:
        inlet = registrations.inlet(key)
    except Exception as error:
        raise _lost() from error
    candidates = (None, None) if inlet is None else inlet.secrets
    signature = request.headers.get("X-Nextcloud-Talk-Signature", "")
    position = signing.valid_any(candidates, random, body, signature)
    if inlet is None or position is None:
        raise BadSignature
    return inlet, position == 0


def _store(inlet: Inlet, random: str, body: bytes, *, event: IncomingEvent, backend: str) -> None:
    try:
        accept(inlet, random=random, body=body, event=event, backend=backend)
    except Exception as error:
        raise _lost() from error


def _lost() -> Unavailable:
    # Talk does not try again whatever it is told: this status is for whoever watches.
    log.exception("an event could not be stored and is lost")
    metrics.event_lost()
    return Unavailable(say("The event could not be stored."))
