"""Where Talk sends its events: raw bytes in, a status out, and nothing slow in between.

Talk waits for the answer inside its user's "send", and never tries again. So an event is stored before it is
acknowledged, and no model and no Nextcloud is called here. Whatever is wrong with a signature, the answer and the work
are the same: nobody learns which keys exist.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, Flask, Response, request

from app.inbox.accept import accept
from app.infra import auth, clock, metrics, signing
from app.infra.errors import BadInput, ParleyError, Unavailable
from app.infra.i18n import say
from app.platforms import backends, registrations
from app.platforms.base import BadPayload
from app.platforms.nextcloud_talk import payload
from app.platforms.registrations import Inlet

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)
blueprint = Blueprint("nextcloud_talk", __name__)

# A message of 32,000 emoji is 450 kB on the wire, and the message that it replies to comes along.
MAX_BODY = 2 * 1024 * 1024
PREFIX = "/webhook/talk/"
# Where the short way leaves to Flask why it refuses a request.
REFUSED = "parley.refused"
NO_STORE = ("Cache-Control", "no-store")
ANSWER = [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", "0"), *auth.HEADERS.items(), NO_STORE]


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


class Claim(NamedTuple):
    """What the headers of a request say of it: its random text, its signature, and the server that it says to be."""

    random: str
    signature: str
    backend: str

    @classmethod
    def of(cls, environ: WSGIEnvironment) -> Claim:
        """As they stood on the wire."""
        return cls(
            environ.get("HTTP_X_NEXTCLOUD_TALK_RANDOM", ""),
            environ.get("HTTP_X_NEXTCLOUD_TALK_SIGNATURE", ""),
            environ.get("HTTP_X_NEXTCLOUD_TALK_BACKEND", ""),
        )


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


def in_front(app: Flask) -> WSGIApplication:
    """The application with a short way for what nearly every request here is: an event that is stored and acknowledged.

    It costs a fraction of the way through Flask. What can't be read in one piece goes that way, and so does a refusal, to
    be told there like every other error.
    """
    usual, counted = app.wsgi_app, metrics.counter("POST", f"{blueprint.name}.{webhook.__name__}", 200)

    def front(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        key, length = _key(environ), _length(environ)
        if not key or not length:
            return usual(environ, start_response)
        began = clock.monotonic()
        try:
            body = _read(environ, length)
            environ["wsgi.input"] = BytesIO(body)
            if len(body) < length:
                return usual(environ, start_response)
            with app.app_context():
                _receive(Claim.of(environ), key, body)
        except Exception as error:
            environ[REFUSED] = error
            return usual(environ, start_response)
        start_response("200 OK", ANSWER)
        counted(clock.monotonic() - began)
        return ()

    return front


def _key(environ: WSGIEnvironment) -> str:
    """The key in the address, where that is all there is in it."""
    path = str(environ.get("PATH_INFO", ""))
    key = path[len(PREFIX) :]
    fits = path.startswith(PREFIX) and "/" not in key and key.isascii() and environ["REQUEST_METHOD"] == "POST"
    return key if fits else ""


def _length(environ: WSGIEnvironment) -> int:
    """The length of a body that can be read in one piece; 0 for every other."""
    told = str(environ.get("CONTENT_LENGTH", ""))
    plain = "HTTP_CONTENT_ENCODING" not in environ and "HTTP_TRANSFER_ENCODING" not in environ
    return int(told) if plain and told.isdecimal() and len(told) < 9 and int(told) <= MAX_BODY else 0


def _read(environ: WSGIEnvironment, length: int) -> bytes:
    try:
        return bytes(environ["wsgi.input"].read(length))
    except OSError:
        # The sender is gone: Flask tells it, where anybody is left.
        return b""


def _taken(key: str | None) -> Response:
    refused = request.environ.get(REFUSED)
    if refused is not None:
        raise refused
    _receive(Claim.of(request.environ), key, _body())
    return Response(status=200)


def _receive(claim: Claim, key: str | None, body: bytes) -> None:
    """Stores an event, or raises why it is refused."""
    inlet, newest = _verified(key, claim, body)
    if not backends.fits(claim.backend, inlet.backends):
        registrations.misnamed(inlet, claim.backend)
        raise BadSignature
    try:
        event = payload.envelope(body)
    except BadPayload as error:
        raise BadInput(say("The body is not an event of Talk."), detail=str(error)) from None
    try:
        accept(inlet, random=claim.random, body=body, event=event, backend=claim.backend)
    except Exception as error:
        raise _lost() from error
    if newest and inlet.rotating:
        registrations.confirmed(inlet)


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


def _verified(key: str | None, claim: Claim, body: bytes) -> tuple[Inlet, bool]:
    """Who is meant, and whether its newest secret signed the request."""
    try:
        inlet = registrations.inlet(key)
    except Exception as error:
        raise _lost() from error
    candidates = (None, None) if inlet is None else inlet.secrets
    position = signing.valid_any(candidates, claim.random, body, claim.signature)
    if inlet is None or position is None:
        raise BadSignature
    return inlet, position == 0


def _lost() -> Unavailable:
    # Talk does not try again whatever it is told: this status is for whoever watches.
    log.exception("an event could not be stored and is lost")
    metrics.event_lost()
    return Unavailable(say("The event could not be stored."))
