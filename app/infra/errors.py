"""The exception tree: every error has a sentence for the person, a detail for us, a code and a status."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

from flask import Flask, Response, jsonify, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from app.infra.i18n import Sentence, best_language, say

log = logging.getLogger(__name__)

# Addresses that only programs call; everything else may be opened in a browser.
PROGRAM_PATHS = ("/api/", "/webhook/", "/apps/", "/sandbox/", "/healthz", "/readyz", "/metrics")


class ParleyError(Exception):
    """An error that somebody caused or must act on.

    `sentence` is shown; `detail` goes to the trace and the log only; `code` is stable for programs; `status` is the
    HTTP status where the error leaves through a route; `permanent` tells that trying again can't help.
    """

    code = "error"
    status = 500
    permanent = True

    def __init__(self, sentence: Sentence, *, detail: str = "", fields: dict[str, str] | None = None) -> None:
        super().__init__(str(sentence))
        self.sentence = sentence
        self.detail = detail
        self.fields = fields or {}


class BadInput(ParleyError):
    """Something typed or sent has the wrong form; `fields` maps a field's name to its own sentence."""

    code = "bad_input"
    status = 400


class NotSignedIn(ParleyError):
    """Nobody is known to be asking."""

    code = "not_signed_in"
    status = 401

    def __init__(self, sentence: Sentence | None = None, *, detail: str = "") -> None:
        super().__init__(sentence or say("Sign in first, or send a token."), detail=detail)


class NotAllowed(ParleyError):
    """Who is asking is known, and may not."""

    code = "not_allowed"
    status = 403

    def __init__(self, sentence: Sentence | None = None, *, detail: str = "") -> None:
        super().__init__(sentence or say("You may not do this."), detail=detail)


class NotFound(ParleyError):
    """It does not exist, or whoever asks may not know that it does."""

    code = "not_found"
    status = 404

    def __init__(self, sentence: Sentence | None = None, *, detail: str = "") -> None:
        super().__init__(sentence or say("There is nothing here, or you may not see it."), detail=detail)


class Conflict(ParleyError):
    """The state of things does not allow it now; the sentence says what to do first."""

    code = "conflict"
    status = 409


class TooMany(ParleyError):
    """A limit is reached; `retry_after` is the number of seconds until it is worth trying again."""

    code = "too_many"
    status = 429
    permanent = False

    def __init__(self, sentence: Sentence, *, retry_after: float, detail: str = "") -> None:
        super().__init__(sentence, detail=detail)
        self.retry_after = retry_after


class TooSlow(ParleyError):
    """A sender took too long to send its request; raised out of the socket's reader (app/server.py)."""

    code = "too_slow"
    status = 408
    permanent = False

    def __init__(self, *, detail: str = "") -> None:
        super().__init__(say("The request came too slowly. Send it again."), detail=detail)


class Unavailable(ParleyError):
    """A part of ours (database, broker) doesn't answer now."""

    code = "unavailable"
    status = 503
    permanent = False


def init_app(app: Flask) -> None:
    """An answer for every error: {"error": sentence, "code": code, "fields": {...}}, a page for a browser that reads one.

    Nothing of the inside leaks: what nobody foresaw is logged, and told in one plain sentence.
    """
    app.register_error_handler(ParleyError, _known)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unknown)


def _known(error: ParleyError) -> Response:
    if error.detail:
        log.info("%s: %s", error.code, error.detail)
    response = _answer(error.sentence, error.code, error.status, fields=error.fields)
    if isinstance(error, TooMany):
        response.headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return response


def _http(error: HTTPException) -> Response:
    if error.response is not None:
        return cast("Response", error.get_response())
    status = error.code or 500
    response = _answer(_plain(status), (error.name or "error").lower().replace(" ", "_"), status)
    for name, value in error.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            response.headers[name] = value
    return response


def _unknown(error: Exception) -> Response:
    log.exception("an error that nobody foresaw", exc_info=error)
    return _answer(say("Something went wrong on our side; it was recorded."), "error", 500)


def _answer(sentence: Sentence, code: str, status: int, *, fields: Mapping[str, str] | None = None) -> Response:
    text = sentence.text(_language())
    if _is_page():
        response = make_response(render_template("error.html", sentence=text, status=status))
    else:
        response = jsonify({"error": text, "code": code, "fields": dict(fields or {})})
    response.status_code = status
    return response


def _is_page() -> bool:
    if request.method not in ("GET", "HEAD") or request.path.startswith(PROGRAM_PATHS):
        return False
    return request.accept_mimetypes.best_match(["application/json", "text/html"]) == "text/html"


def _language() -> str:
    return best_language(request.accept_languages)


def _plain(status: int) -> Sentence:
    if status == 404:
        return say("There is nothing here, or you may not see it.")
    if status == 405:
        return say("This address does not take that method.")
    if status == 413:
        return say("That is larger than this address takes.")
    if status >= 500:
        return say("Something went wrong on our side; it was recorded.")
    return say("The request could not be read.")
