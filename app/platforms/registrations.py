"""Registrations: one webhook address and secret each, as a chat system knows a bot of ours.

`Inlet` is what a webhook needs to know, in one read. A rotated registration takes both secrets, and answers with the
old one, until the first event comes under the new one: the chat system knows only one of them at a time.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import bindparam, select, update

from app.accounts.models import Instance
from app.infra import auth, clock, crypto
from app.infra.db import clean_text, reading, transaction
from app.infra.errors import BadInput, NotFound
from app.infra.i18n import say
from app.infra.sql.prepared import Query
from app.platforms.base import Address, Outcome
from app.platforms.models import Registration

log = logging.getLogger(__name__)

WEBHOOK_PATH = "/webhook/talk/"
KEY_BYTES = 24
SECRET_BYTES = 48
SECRET_LENGTHS = range(40, 129)
NAME_BYTES = 64
BREAK_SECONDS = 600.0
ROTATION_HOURS = 24.0
SANDBOX = "sandbox"
COLUMNS = (
    Registration.id,
    Registration.instance_id,
    Registration.secret,
    Registration.previous_secret,
    Registration.previous_until,
    Registration.last_event_at,
    Registration.backend_seen,
    Instance.url,
    Instance.backends,
)
JOINED = select(*COLUMNS).join(Instance, Instance.id == Registration.instance_id)
BY_KEY = Query(JOINED.where(Registration.key == bindparam("key")))
THE_ONLY = Query(JOINED.where(Instance.kind != SANDBOX).limit(2))


@dataclass(frozen=True)
class Inlet:
    """Where a webhook address leads: a registration, its secrets (open, newest first), and what its server is called."""

    id: int
    instance_id: int
    secrets: tuple[str | None, str | None] = field(repr=False)
    backends: tuple[str, ...]
    last_event_at: datetime | None
    backend_seen: str | None

    @property
    def rotating(self) -> bool:
        """True while an older secret is taken as well."""
        return self.secrets[1] is not None


def create(
    instance_id: int,
    name: str,
    *,
    shared: bool = True,
    base_url: str | None = None,
    key: str | None = None,
    secret: str | None = None,
    webhook_url: str | None = None,
) -> Registration:
    """A new registration with a fresh key and secret; `base_url` is where the chat system reaches us, by default PARLEY_BASE_URL.

    `key`, `secret` and `webhook_url` are given where a registration that exists elsewhere is taken over.
    """
    key = key or secrets.token_urlsafe(KEY_BYTES)
    secret = secret or fresh_secret()
    if len(secret.encode("utf-8", "replace")) not in SECRET_LENGTHS:
        raise BadInput(say("A secret must have 40 to 128 bytes."), fields={"secret": str(say("40 to 128 bytes"))})
    url = webhook_url or (base_url or auth.base_url()).rstrip("/") + WEBHOOK_PATH + key
    made = Registration(
        instance_id=instance_id,
        name=fitted_name(name),
        key=key,
        secret=crypto.seal(secret),
        webhook_url=url,
        actor_hash=hashlib.sha1(url.encode()).hexdigest(),
        shared=shared,
        created_at=clock.now(),
    )
    with transaction() as session:
        session.add(made)
        # Inside a surrounding transaction nothing else would give it its id.
        session.flush()
    return made


def get(registration_id: int) -> Registration:
    """Raises NotFound."""
    with reading() as session:
        found = session.get(Registration, registration_id)
    if found is None:
        raise NotFound(say("There is no such registration."))
    return found


def by_key(key: str) -> Registration | None:
    """The registration whose webhook address ends in this key."""
    with reading() as session:
        return session.scalars(select(Registration).where(Registration.key == key)).first()


def only_one() -> Registration | None:
    """The registration that serves addresses without a key: the only one besides the sandbox's, else None."""
    query = select(Registration).join(Instance, Instance.id == Registration.instance_id)
    with reading() as session:
        found = session.scalars(query.where(Instance.kind != SANDBOX).limit(2)).all()
    return found[0] if len(found) == 1 else None


def of_instance(instance_id: int) -> Sequence[Registration]:
    """Every registration of an instance, oldest first."""
    query = select(Registration).where(Registration.instance_id == instance_id).order_by(Registration.id)
    with reading() as session:
        return session.scalars(query).all()


def shared_of(instance_id: int) -> Registration | None:
    """The registration that bots without one of their own use: the oldest shared one."""
    return next((found for found in of_instance(instance_id) if found.shared), None)


def inlet(key: str | None) -> Inlet | None:
    """Where a webhook leads, in one read; without a key the only registration besides the sandbox's."""
    found = BY_KEY.rows(key=key) if key is not None else THE_ONLY.rows()
    return _inlet(*found[0]) if len(found) == 1 else None


def secret(registration: Registration) -> str:
    """The secret to show and to install."""
    return crypto.unseal(registration.secret)


def known_secrets(registration: Registration) -> tuple[str, ...]:
    """The secrets that are valid now, newest first."""
    old = _previous(registration.previous_secret, registration.previous_until)
    return tuple(known for known in (_opened(registration.secret), old) if known)


def address(registration: Registration) -> Address:
    """Where and as whom to post; during a rotation the secret that the chat system still has."""
    with reading() as session:
        instance = session.get(Instance, registration.instance_id)
    if instance is None:
        raise NotFound(say("The instance of this registration is gone."))
    old = _previous(registration.previous_secret, registration.previous_until)
    return Address(
        registration_id=registration.id,
        instance_id=instance.id,
        base_url=instance.url.rstrip("/"),
        secret=old or secret(registration),
        verify_tls=instance.verify_tls,
        ca_file=instance.ca_file,
    )


def actor_id(registration: Registration) -> str:
    """Who we are in the rooms of this registration."""
    return f"bots/bot-{registration.actor_hash}"


def rotate(registration_id: int, *, keep_hours: float = ROTATION_HOURS) -> Registration:
    """Gives a fresh secret; the old one is taken for `keep_hours` more, or until the new one is first used."""
    with transaction() as session:
        found = session.get(Registration, registration_id)
        if found is None:
            raise NotFound(say("There is no such registration."))
        found.previous_secret = found.secret if keep_hours > 0 else None
        found.previous_until = clock.now() + timedelta(hours=keep_hours) if keep_hours > 0 else None
        found.secret = crypto.seal(fresh_secret())
        found.blocked_until = found.blocked_reason = found.refused_at = None
    return found


def confirmed(found: Inlet) -> None:
    """An event came under the new secret: the chat system has forgotten the old one, and so do we. Never raises."""
    _note(found.id, previous_secret=None, previous_until=None)


def misnamed(found: Inlet, backend: str) -> None:
    """Notes what a server calls itself whose signature fits but whose name doesn't, for whoever looks why. Never raises."""
    if found.backend_seen != backend:
        _note(found.id, backend_seen=clean_text(backend)[:1024])


def posted(registration_id: int, outcome: Outcome) -> None:
    """Notes what became of a post; a refused signature opens the breaker, because each costs the server's patience."""
    status = f"{outcome.status} {outcome.reason}" if outcome.status else outcome.reason
    now = clock.now()
    lately: dict[str, Any] = {"throttled_at": now} if outcome.throttled else {}
    if outcome.kind == "success":
        lately["refused_at"] = None
    _change(registration_id, last_post_at=now, last_post_status=(status or outcome.kind)[:64], **lately)
    if outcome.status == 401:
        trip(registration_id, outcome.reason)
        refused(registration_id)


def refused(registration_id: int) -> None:
    """Notes that our signature was refused just now: whoever only wants to know does not try again so soon."""
    _change(registration_id, refused_at=clock.now())


def blocked(registration: Registration) -> bool:
    """True while the breaker is open: nothing may be posted."""
    return blocked_until(registration.id) is not None


def blocked_until(registration_id: int) -> datetime | None:
    """When the breaker closes; None when it is closed."""
    with reading() as session:
        until = session.scalar(select(Registration.blocked_until).where(Registration.id == registration_id))
    return until if until is not None and until > clock.now() else None


def trip(registration_id: int, reason: str, seconds: float = BREAK_SECONDS) -> None:
    """Opens the breaker of one registration."""
    _change(registration_id, blocked_until=clock.now() + timedelta(seconds=seconds), blocked_reason=reason[:255])


def untrip(registration_id: int) -> None:
    """Closes the breaker: an administrator has put it right."""
    _change(registration_id, blocked_until=None, blocked_reason=None, refused_at=None)


def fresh_secret() -> str:
    """64 URL-safe characters; never a dash first, which a shell command would take for an option."""
    while True:
        made = crypto.new_secret(SECRET_BYTES)
        if made[0] != "-":
            return made


def fitted_name(name: str) -> str:
    """The name as Talk takes it: 1 to 64 bytes, no dash first."""
    text = " ".join(name.split()).lstrip("-")
    fitted = text.encode("utf-8", "replace")[:NAME_BYTES].decode("utf-8", "ignore").strip()
    if not fitted:
        raise BadInput(say("A registration needs a name."), fields={"name": str(say("Give a name."))})
    return fitted


def _change(registration_id: int, **values: Any) -> None:
    with transaction() as session:
        session.execute(update(Registration).where(Registration.id == registration_id).values(**values))


def _note(registration_id: int, **values: Any) -> None:
    try:
        _change(registration_id, **values)
    except Exception:
        # Worth knowing, never worth an event.
        log.exception("something about a registration was not noted")


def _inlet(  # the values of COLUMNS
    id: int,
    instance_id: int,
    secret: str,
    previous_secret: str | None,
    previous_until: datetime | None,
    last_event_at: datetime | None,
    backend_seen: str | None,
    url: str,
    backends: Sequence[str] | None,
) -> Inlet:
    old = _previous(previous_secret, previous_until)
    return Inlet(id, instance_id, (_opened(secret), old), (url, *(backends or ())), last_event_at, backend_seen)


def _previous(sealed: str | None, until: datetime | None) -> str | None:
    return _opened(sealed) if sealed and until is not None and until > clock.now() else None


# Keyed by the sealed text, so that a change of the secret is a change of the key.
@lru_cache(maxsize=256)
def _opened(sealed: str) -> str | None:
    try:
        return crypto.unseal(sealed)
    except crypto.BrokenSeal:
        log.error("the secret of a registration does not open with the present keys")
        return None
