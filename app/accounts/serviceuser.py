"""The service user of an instance: an account there with an app password, as which Parley reads what no bot may read.

The password is sealed. A server that refuses it once is not asked again for a day, or until another password is given:
each refusal slows down everything else that comes from our address (spec: nextcloud.md 0.3).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from sqlalchemy import update

from app.accounts import people
from app.accounts.models import Instance, Person
from app.infra import clock, crypto
from app.infra.db import changed, clean_text, reading, transaction
from app.infra.errors import BadInput, NotFound, ParleyError
from app.infra.i18n import Sentence, say

log = logging.getLogger(__name__)

Reason = Literal[
    "no_service_user",
    "sealed",
    "refused",
    "throttled",
    "forbidden",
    "missing",
    "unknown_route",
    "maintenance",
    "unreachable",
    "not_nextcloud",
    "too_large",
    "too_far",
]
SENTENCES: Mapping[str, Sentence] = {
    "no_service_user": say("no service user is set for this server"),
    "sealed": say("the service user's app password can't be opened with the present keys"),
    "refused": say("the server refused the service user's app password"),
    "throttled": say("the server slows us down after refused requests"),
    "forbidden": say("the server does not tell this to the service user"),
    "missing": say("the service user is no member there, or it does not exist"),
    "unknown_route": say("the server does not know this question; an app may be missing there"),
    "maintenance": say("the server is in maintenance mode or overloaded"),
    "unreachable": say("the server can't be reached"),
    "not_nextcloud": say("something else than Nextcloud answers at the server's address"),
    "too_large": say("the server's answer is too large"),
    "too_far": say("it lies further back than is looked"),
}
PASSING = frozenset({"throttled", "maintenance", "unreachable"})
# Stay after the server is mended, and are mended by an administrator only.
BLOCKING = ("refused", "throttled")
REFUSED_FOR = timedelta(days=1)
LONGEST_PASSWORD = 1024


class Untold(ParleyError):
    """The server doesn't tell, and `reason` says why. Whoever catches it must treat the answer as unknown, never as none."""

    code = "untold"
    status = 502

    def __init__(self, reason: Reason, *, detail: str = "") -> None:
        super().__init__(say("This can't be told: {why}.", why=SENTENCES[reason]), detail=detail)
        self.reason: Reason = reason
        self.permanent = reason not in PASSING


@dataclass(frozen=True)
class Login:
    """Where and as whom to ask, with the password open. Made for one use, never stored."""

    instance_id: int
    base_url: str
    uid: str
    password: str = field(repr=False)
    sealed: str = field(repr=False)
    verify_tls: bool = True
    ca_file: str | None = None


def login(instance_id: int) -> Login:
    """The login to ask with now. Raises Untold while there is none, or while the server refuses it."""
    with reading() as session:
        instance = session.get(Instance, instance_id)
    if instance is None or not instance.service_uid or not instance.service_secret:
        raise Untold("no_service_user")
    reason = blocked(instance)
    if reason is not None:
        raise Untold(reason)
    try:
        password = crypto.unseal(instance.service_secret)
    except crypto.BrokenSeal:
        raise Untold("sealed") from None
    return Login(
        instance_id=instance.id,
        base_url=instance.url.rstrip("/"),
        uid=instance.service_uid,
        password=password,
        sealed=instance.service_secret,
        verify_tls=instance.verify_tls,
        ca_file=instance.ca_file,
    )


def exists(instance: Instance) -> bool:
    """True when somebody was set who can be asked as, whether or not the server lets them now."""
    return bool(instance.service_uid and instance.service_secret)


def blocked(instance: Instance) -> Reason | None:
    """Why the server is not asked at present; None when it may be."""
    until = instance.service_blocked_until
    if until is None or until <= clock.now():
        return None
    return "throttled" if instance.service_blocked_reason == "throttled" else "refused"


def give(instance_id: int, uid: str, password: str) -> Instance:
    """Sets the service user and its app password, unproven; what was known of groups and teams is to be confirmed anew.

    Raises BadInput, NotFound.
    """
    form = people.normal(uid)
    password = password.strip()
    if not 0 < len(password) <= LONGEST_PASSWORD or clean_text(password) != password or not password.isprintable():
        sentence = say("An app password has 1 to {most} characters, all of them visible.", most=LONGEST_PASSWORD)
        raise BadInput(sentence, fields={"password": str(sentence)})
    return _change(instance_id, form, crypto.seal(password))


def take_away(instance_id: int) -> Instance:
    """Forgets the service user; groups, teams and members of this server are unknown from now on. Raises NotFound."""
    return _change(instance_id, None, None)


def block(used: Login, reason: Literal["refused", "throttled"], *, seconds: float | None = None) -> None:
    """The server refused this login: nobody asks with it again for a while. A password that was changed since is free."""
    until = clock.now() + (REFUSED_FOR if seconds is None else timedelta(seconds=seconds))
    mine = (Instance.id == used.instance_id, Instance.service_secret == used.sealed)
    with transaction() as session:
        values = {"service_blocked_until": until, "service_blocked_reason": reason}
        if changed(session.execute(update(Instance).where(*mine).values(**values))):
            log.warning("the service user of instance %s is not used until %s: %s", used.instance_id, until, reason)


def _change(instance_id: int, uid: str | None, sealed: str | None) -> Instance:
    with transaction() as session:
        row = session.get(Instance, instance_id)
        if row is None:
            raise NotFound
        row.service_uid, row.service_secret = uid, sealed
        row.service_blocked_until = row.service_blocked_reason = None
        # Told by another service user, or kept by hand while there was none: neither is this one's word.
        stale = {"groups_seen_at": None, "teams_seen_at": None, "directory_problem": None}
        session.execute(update(Person).where(Person.instance_id == instance_id).values(**stale))
        return row
