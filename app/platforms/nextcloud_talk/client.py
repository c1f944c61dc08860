"""Posting and reacting as a Talk bot: what is signed is the value itself, never the JSON around it.

Nothing is tried again here: each call is one request and tells an Outcome; the caller asks the breaker first
(registrations.blocked) and tells registrations.posted what came of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from app.infra import http, netguard, signing
from app.infra.db import clean_text
from app.infra.http import HttpError, Response
from app.infra.i18n import Sentence, say
from app.platforms.base import Address, Granted, Outcome

API = "/ocs/v2.php/apps/spreed/api/v1/bot"
CONNECT_SECONDS = 5.0
# Talk delays a valid request by up to 25 s after others were refused, and then it stands in the room.
READ_SECONDS = 35.0
ASK_SECONDS = 10.0
MAX_ANSWER_BYTES = 1024 * 1024
LONGEST_REFERENCE = 64
ROOM_FORM = re.compile(r"[A-Za-z0-9]{1,64}")
LEAST_WAIT = 30.0
LONGEST_WAIT = 3600.0
THROTTLED_WAIT = 1800.0
BUSY_WAIT = 5.0
FEATURES: Mapping[int, str] = {1: "webhook", 2: "response", 4: "event", 8: "reaction"}

REFUSED = say(
    "Nextcloud refused the bot's signature. Check that the bot is enabled in this conversation, that it was installed "
    "with the feature response, that it is not disabled, and that the secret installed there is the one that "
    "`manage.py talk register` shows. Nothing is posted for ten minutes, because each refusal slows the server down."
)
GONE = say("The conversation no longer exists on the server, or the server's address is not that of a Nextcloud.")
NOT_MADE = say("Nextcloud could not accept the request; the message that it replies to may be gone.")
OUR_FAULT = say("Nextcloud missed the header OCS-APIRequest: a proxy in between removes it, or Parley has a fault.")
TOO_LONG = say("The message was longer than this server takes.")
THROTTLED = say(
    "Nextcloud slows this server down after refused requests. An administrator can run "
    "`occ security:bruteforce:reset` with Parley's address, or allow-list it."
)
BUSY = say("The server is in maintenance mode or overloaded; it is tried again.")
ELSEWHERE = say("The server's address redirects. Set the address that it redirects to, with its path.")
NOT_TALK = say("Something else than Nextcloud Talk answers at the server's address.")
CERTIFICATE = say("The server's certificate can't be verified. Give the authority's certificate as ca_file.")
UNREACHABLE = say("The server can't be reached at its address.")
FORBIDDEN_ADDRESS = say("The server's address is one that Parley never connects to. Correct the instance's address.")
UNSURE = say("The server did not confirm the message; it may or may not stand in the conversation.")


def post(address: Address, room: str, text: str, *, reply_to: int | None = None, reference_id: str) -> Outcome:
    """Posts a message. It is signed and sent exactly as given, apart from what no UTF-8 can hold.

    `reference_id` must stay the same over every try of one message; Talk keeps 64 characters of it.
    """
    text = clean_text(text)
    body: dict[str, Any] = {"message": text, "referenceId": reference_id[:LONGEST_REFERENCE]}
    if reply_to:
        body["replyTo"] = reply_to
    response = _call("POST", address, room, f"{room}/message", value=text, body=body)
    if isinstance(response, Outcome):
        return response
    return replace(_of_post(response), throttled="X-Nextcloud-Bruteforce-Throttled" in response.headers)


def react(address: Address, room: str, message_id: int, emoji: str) -> Outcome:
    """Sets a reaction; one that is there already is a success."""
    response = _call("POST", address, room, f"{room}/reaction/{message_id}", value=emoji, body={"reaction": emoji})
    return response if isinstance(response, Outcome) else _of_reaction(response)


def unreact(address: Address, room: str, message_id: int, emoji: str) -> Outcome:
    """Takes our reaction away; one that is gone already is a success."""
    # Some proxies drop the body of a DELETE; Talk reads the address as well.
    path = f"{room}/reaction/{message_id}?reaction={quote(emoji, safe='')}"
    response = _call("DELETE", address, room, path, value=emoji, body={"reaction": emoji})
    if isinstance(response, Outcome):
        return response
    return Outcome("success", 404, "absent") if response.status == 404 else _of_reaction(response)


def granted(address: Address, room: str) -> Granted:
    """What the bot may do in a conversation: the names of FEATURES. Talk 25 and newer tell (capability bot-features-api)."""
    response = _call("POST", address, room, "ask-features", value=room, body={"token": room}, seconds=ASK_SECONDS)
    if isinstance(response, Outcome):
        return Granted(response)
    flags = _flags(response)
    if response.status != 200 or flags is None:
        return Granted(_of_any(response))
    return Granted(Outcome("success", 200, "granted"), frozenset(name for bit, name in FEATURES.items() if flags & bit))


def _flags(response: Response) -> int | None:
    try:
        flags = json.loads(response.body)["ocs"]["data"]["features"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return flags if isinstance(flags, int) and not isinstance(flags, bool) else None


def _call(
    method: str,
    address: Address,
    room: str,
    path: str,
    *,
    value: str,
    body: Mapping[str, Any],
    seconds: float | None = None,
) -> Response | Outcome:
    if not ROOM_FORM.fullmatch(room):
        return Outcome("permanent", None, "bad_room")
    random = signing.fresh_random()
    try:
        return http.request(
            method,
            f"{address.base_url}{API}/{path}",
            guard=netguard.ADMIN,
            headers={
                "OCS-APIRequest": "true",
                "Accept": "application/json",
                "X-Nextcloud-Talk-Bot-Random": random,
                "X-Nextcloud-Talk-Bot-Signature": signing.sign(address.secret, random, value.encode()),
            },
            json=body,
            timeout=(CONNECT_SECONDS, seconds or READ_SECONDS),
            max_bytes=MAX_ANSWER_BYTES,
            allow_redirects=False,
            verify=(address.ca_file or True) if address.verify_tls else False,
        )
    except HttpError as error:
        return _unanswered(error)
    except OSError:
        # The file of authorities can't be read.
        return Outcome("permanent", None, "tls", remedy=CERTIFICATE)


def _unanswered(error: HttpError) -> Outcome:
    """No answer, or none that could be read: what matters is whether the server may have taken the request."""
    if error.kind == "blocked":
        return Outcome("permanent", None, "blocked", remedy=FORBIDDEN_ADDRESS)
    if error.sent:
        return Outcome("ambiguous", None, error.kind, remedy=UNSURE)
    if error.kind == "tls":
        return Outcome("permanent", None, "tls", remedy=CERTIFICATE)
    if error.permanent:
        return Outcome("permanent", None, error.kind, remedy=UNREACHABLE)
    return Outcome("retryable", None, error.kind, retry_after=BUSY_WAIT, remedy=UNREACHABLE)


def _of_post(response: Response) -> Outcome:
    if response.status == 201:
        return Outcome("success", 201, "posted")
    if response.status == 404:
        return Outcome("permanent", 404, "room_gone", remedy=GONE)
    return _of_any(response)


def _of_reaction(response: Response) -> Outcome:
    if response.status in (200, 201):
        return Outcome("success", response.status, "done")
    if response.status == 404:
        return Outcome("permanent", 404, "no_message")
    return _of_any(response)


def _of_any(response: Response) -> Outcome:
    """What a status means, whoever wrote the body: in maintenance it is HTML, without an Accept header XML."""
    status = response.status
    if status in PERMANENT:
        reason, remedy = PERMANENT[status]
        return Outcome("permanent", status, reason, remedy=remedy)
    if status == 429:
        return Outcome("retryable", 429, "throttled", retry_after=_wait(response, THROTTLED_WAIT), remedy=THROTTLED)
    if status in (408, 425) or status >= 500:
        return Outcome("retryable", status, "busy", retry_after=_wait(response, BUSY_WAIT), remedy=BUSY)
    if 300 <= status < 400:
        return Outcome("permanent", status, "redirected", remedy=ELSEWHERE)
    return Outcome("permanent", status, "not_talk", remedy=NOT_TALK)


PERMANENT: Mapping[int, tuple[str, Sentence]] = {
    400: ("not_accepted", NOT_MADE),
    401: ("refused", REFUSED),
    404: ("room_gone", GONE),
    412: ("no_ocs_header", OUR_FAULT),
    413: ("too_long", TOO_LONG),
}


def _wait(response: Response, usual: float) -> float:
    """Seconds until another try: what the server asks for, within reason, else the usual time."""
    asked = response.headers.get("Retry-After", "").strip()
    if not (asked.isascii() and asked.isdigit() and len(asked) < 10):
        return usual
    least = LEAST_WAIT if response.status == 429 else 1.0
    return min(max(float(asked), least), LONGEST_WAIT)
