"""One question to a Nextcloud as its service user: OCS around JSON, with every refusal told by its reason.

Nothing but reading is done here, so a connection that broke off is tried once more. A refused password and a throttle
close the door for everybody (accounts.serviceuser.block) before they cost the server's patience.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from app.accounts import serviceuser
from app.accounts.serviceuser import Login, Reason, Untold
from app.infra import http, netguard
from app.infra.http import HttpError, Response

ROOT = "/ocs/v2.php"
CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
# A server that throttles delays even valid requests by up to 25 s; whoever must know waits for them.
PATIENT_SECONDS = 30.0
MOST_BYTES = 8 * 1024 * 1024
THROTTLED_SECONDS = 1800.0
LEAST_WAIT = 30.0
LONGEST_WAIT = 3600.0
GATE_SECONDS = 40.0
KNOWN_PASSWORDS = 64
NOTHING_NEW = 304
UNREAD: Mapping[str, Reason] = {
    "too_large": "too_large",
    "blocked": "unreachable",
    "protocol": "not_nextcloud",
}
# OCS has codes of its own beside those of HTTP: 997 is a bad login, 998 a route or method that does not exist.
BY_CODE: Mapping[int, Reason] = {
    401: "refused",
    997: "refused",
    403: "forbidden",
    404: "missing",
    405: "unknown_route",
    998: "unknown_route",
    # Within the envelope: the lobby is closed to whoever is no moderator.
    412: "forbidden",
    429: "throttled",
}


@dataclass(frozen=True)
class Reply:
    """What the server said: the data within the envelope, None at 304 (nothing new)."""

    status: int
    data: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class Proven:
    """Which passwords have worked in this process, as digests. One that has not is tried by one thread at a time:
    of twenty rooms that wake up with a wrong password only one may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[str, threading.Lock] = {}
        self._known: list[str] = []

    def has(self, login: Login) -> bool:
        with self._lock:
            return self._key(login) in self._known

    def add(self, login: Login) -> None:
        key = self._key(login)
        with self._lock:
            if key not in self._known:
                self._known = [*self._known[-KNOWN_PASSWORDS:], key]

    def remove(self, login: Login) -> None:
        key = self._key(login)
        with self._lock:
            self._known = [known for known in self._known if known != key]

    @contextmanager
    def one_at_a_time(self, login: Login) -> Iterator[None]:
        """Waits for whoever tries a password for the first time, then looks again whether it was refused."""
        if self.has(login):
            yield
            return
        gate = self._gate(login)
        if not gate.acquire(timeout=GATE_SECONDS):
            raise Untold("unreachable", detail="another first attempt takes too long")
        try:
            if serviceuser.login(login.instance_id).sealed != login.sealed:
                raise Untold("refused", detail="the password was changed meanwhile")
            yield
        finally:
            gate.release()

    def _gate(self, login: Login) -> threading.Lock:
        key = self._key(login)
        with self._lock:
            if len(self._gates) > KNOWN_PASSWORDS:
                self._gates = {known: gate for known, gate in self._gates.items() if gate.locked()}
            return self._gates.setdefault(key, threading.Lock())

    @staticmethod
    def _key(login: Login) -> str:
        whole = f"{login.base_url}\n{login.uid}\n{login.sealed}"
        return hashlib.sha256(whole.encode()).hexdigest()


PROVEN = Proven()


def get(
    instance_id: int, path: str, *, seconds: float = READ_SECONDS, empty_status: int | None = None, **query: Any
) -> Reply:
    """The answer to one question; `path` begins after /ocs/v2.php. Raises Untold.

    `empty_status` is a status that means "nothing" here (304 for a chat without news), with data None.
    """
    login = serviceuser.login(instance_id)
    with PROVEN.one_at_a_time(login):
        response = _sent(login, path, query, seconds)
        if response.status == empty_status:
            PROVEN.add(login)
            return Reply(response.status, None, response.headers)
        reply = _read(response)
        if isinstance(reply, Reply):
            PROVEN.add(login)
            return reply
        _note(login, reply, response)
    raise Untold(reply, detail=f"{response.status} at {path}")


def whole(value: Any) -> int | None:
    """An integer as Nextcloud writes them: a number, or digits in a text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and abs(value) < 2**63 else None


def rows(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; PHP writes a list with gaps as an object. Raises Untold where it is neither."""
    found = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Untold("not_nextcloud", detail="no list of objects")
    return found


def texts(value: Any) -> list[str]:
    """The texts of a list. Raises Untold where it is none."""
    found = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(found, list) or not all(isinstance(each, str | int) for each in found):
        raise Untold("not_nextcloud", detail="no list of names")
    # A group that is called 2026 is written as a number.
    return [str(each) for each in found]


def _sent(login: Login, path: str, query: Mapping[str, Any], seconds: float, *, again: bool = True) -> Response:
    try:
        return http.request(
            "GET",
            f"{login.base_url}{ROOT}{path}" + (f"?{urlencode(query)}" if query else ""),
            guard=netguard.ADMIN,
            headers={
                "OCS-APIRequest": "true",
                "Accept": "application/json",
                "Authorization": "Basic " + base64.b64encode(f"{login.uid}:{login.password}".encode()).decode(),
            },
            timeout=(CONNECT_SECONDS, seconds),
            max_bytes=MOST_BYTES,
            verify=(login.ca_file or True) if login.verify_tls else False,
        )
    except HttpError as error:
        if error.kind == "reset" and again:
            return _sent(login, path, query, seconds, again=False)
        raise Untold(UNREAD.get(error.kind, "unreachable"), detail=f"{error.kind} at {path}") from None
    except OSError as error:
        raise Untold("unreachable", detail=f"the file of authorities: {type(error).__name__}") from None


def _read(response: Response) -> Reply | Reason:
    """The data, or why there is none: in maintenance the body is HTML, without an Accept header XML."""
    if response.status in (401, 429):
        return BY_CODE[response.status]
    if response.status in (408, 425) or response.status >= 500:
        return "maintenance"
    try:
        value = json.loads(response.body)
        meta, data = value["ocs"]["meta"], value["ocs"]["data"]
        code = whole(meta["statuscode"])
    except (ValueError, RecursionError, KeyError, TypeError):
        # Also redirects, login pages and proxies: whatever it is, it is no answer.
        return BY_CODE.get(response.status, "not_nextcloud") if response.status == 403 else "not_nextcloud"
    if response.status == 200 and code == 200:
        return Reply(200, data, response.headers)
    return BY_CODE.get(code or 0) or BY_CODE.get(response.status) or "not_nextcloud"


def _note(login: Login, reason: Reason, response: Response) -> None:
    if reason == "refused":
        PROVEN.remove(login)
        serviceuser.block(login, "refused")
    if reason == "throttled":
        asked = whole(response.headers.get("Retry-After", "").strip())
        wait = THROTTLED_SECONDS if asked is None else min(max(float(asked), LEAST_WAIT), LONGEST_WAIT)
        serviceuser.block(login, "throttled", seconds=wait)
