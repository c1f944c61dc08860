"""Who is asking, for infra.auth: a bearer token or a signed session; and signing in with a local password.

A session is a signed cookie that names the person and when it began. Beginning one throws away whatever the browser had
before, and `people.end_sessions` ends them all on our side, so that a copied cookie is worth nothing after sign-out.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from flask import Flask, Request, Response, current_app, session
from itsdangerous import BadData, URLSafeTimedSerializer

from app.accounts import attempts, people, tokens
from app.accounts.models import Instance, Person
from app.infra import auth, clock, crypto
from app.infra.auth import Identity
from app.infra.errors import BadInput, ParleyError, TooMany
from app.infra.i18n import say

SESSION_LASTS = timedelta(days=14)
PERSON = "person"
BEGUN = "begun"
KNOWN_COOKIE = "parley_known"
KNOWN_LASTS = timedelta(days=180)
KNOWN_SALT = "known-browser"
MOST_KNOWN = 8
# What a name without a password is compared with: the same work, so that the time tells nothing.
NOBODY = "$argon2id$v=19$m=19456,t=2,p=4$ts0Y9OwpVpiM7SsuWYuvuQ$fgaK66gp2madF31+qcx1+YwCLvHDO+IDwAL2CIuHuPU"
# Each comparison takes 19 MiB on purpose: a flood of them must not take the machine.
AT_ONCE = 4
GATE_SECONDS = 5.0


class WrongPassword(ParleyError):
    """Name and password don't fit; which of the two is never told."""

    code = "wrong_password"
    status = 401


@dataclass
class State:
    """How many passwords are compared at the same time; an extension object."""

    gate: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))


state = State()


@dataclass(frozen=True)
class Known:
    """The mark in a browser: an id of its own, and who (digests) has signed in there before."""

    id: str
    people: tuple[str, ...]


def init_app(app: Flask) -> None:
    """Tells infra.auth how a request becomes an identity."""
    app.permanent_session_lifetime = SESSION_LASTS
    auth.set_resolver(resolve)


def resolve(request: Request) -> Identity | None:
    """The identity of a bearer token where one is sent, valid or not; else that of the session."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return tokens.verify(token.strip())
    person = _of_session()
    return None if person is None else _identity(person)


def authenticate(
    instance: Instance | None, uid: str, *, password: str, address: str | None, browser: str | None
) -> Person:
    """The person of that name and password. Raises WrongPassword, and TooMany for whoever tried too often.

    `browser` is what `known_browser` gave. The same work is done for names that nobody has.
    """
    form = _normal(uid)
    counted = attempts.subjects(instance.id if instance else None, form, address=address, browser=browser)
    attempts.begin(counted)
    person = people.find(instance.id, form) if instance else None
    stored = person.password_hash if person else None
    with _gate():
        fits = crypto.password_fits(people.spelled(password[: people.LONGEST_PASSWORD]), stored or NOBODY)
    if person is None or stored is None or not fits:
        raise WrongPassword(say("That name and password don't fit together."))
    attempts.succeeded(counted)
    return person


def begin(person: Person) -> None:
    """Starts a session for this person in the browser that asks; nothing of an earlier one survives."""
    session.clear()
    session[PERSON] = person.id
    session[BEGUN] = clock.now().isoformat()
    session.permanent = True


def end() -> None:
    """Ends the sessions of whoever is signed in here, in every browser."""
    person_id = session.get(PERSON)
    session.clear()
    if isinstance(person_id, int):
        people.end_sessions(person_id)


def known_browser(request: Request, instance: Instance | None, uid: str) -> str | None:
    """The mark of a browser in which this person has signed in before, else None."""
    known = _known(request)
    return known.id if _digest(instance, uid) in known.people else None


def remember_browser(request: Request, response: Response, *, instance: Instance, uid: str) -> None:
    """Leaves a mark in the browser, so that failures elsewhere don't make this person wait here."""
    known = _known(request)
    digests = list(dict.fromkeys((_digest(instance, uid), *known.people)))
    value = _marks().dumps({"id": known.id, "people": digests[:MOST_KNOWN]})
    response.set_cookie(
        KNOWN_COOKIE,
        str(value),
        max_age=KNOWN_LASTS,
        path=auth.SIGN_IN,
        httponly=True,
        samesite="Strict",
        secure=bool(current_app.config["SESSION_COOKIE_SECURE"]),
    )


def _of_session() -> Person | None:
    person_id, begun = session.get(PERSON), _moment(session.get(BEGUN))
    if not isinstance(person_id, int) or begun is None or clock.now() - begun > SESSION_LASTS:
        return None
    person = people.get(person_id)
    if person is None or (person.sessions_after is not None and begun <= person.sessions_after):
        return None
    return person


def _identity(person: Person) -> Identity:
    return Identity(
        person_id=person.id,
        instance_id=person.instance_id,
        uid=person.uid,
        admin=person.is_admin,
        operator=person.is_operator,
        via="session",
        scope=None,
        allow=(),
    )


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _normal(uid: str) -> str:
    try:
        return people.normal(uid.strip())
    except BadInput:
        return uid[: people.LONGEST_UID]


@contextmanager
def _gate() -> Iterator[None]:
    if not state.gate.acquire(timeout=GATE_SECONDS):
        raise TooMany(say("Too many people sign in at this moment. Try again."), retry_after=GATE_SECONDS)
    try:
        yield
    finally:
        state.gate.release()


def _known(request: Request) -> Known:
    try:
        found = _marks().loads(request.cookies.get(KNOWN_COOKIE, ""), max_age=int(KNOWN_LASTS.total_seconds()))
        return Known(str(found["id"]), tuple(str(each) for each in found["people"]))
    except (BadData, LookupError, TypeError):
        return Known(secrets.token_urlsafe(12), ())


def _marks() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(str(current_app.secret_key), salt=KNOWN_SALT)


def _digest(instance: Instance | None, uid: str) -> str:
    return hashlib.sha256(f"{instance.id if instance else 0} {_normal(uid)}".encode("utf-8", "replace")).hexdigest()[
        :32
    ]
