"""Instances: the servers and domains that Parley serves. Each owns its people, rooms and registrations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.models import Instance
from app.infra import auth, clock
from app.infra.db import insert_once, reading, transaction
from app.infra.errors import BadInput, Conflict
from app.infra.i18n import Sentence, say
from app.infra.inputs import addresses
from app.infra.jobs import table

SANDBOX = "sandbox"
BUILT_IN = (SANDBOX, "sandbox-personal")
KINDS = ("nextcloud", "personal")
NAME_FORM = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
DOMAIN_FORM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,245}[a-z0-9])?(:[0-9]{1,5})?")
CONTEXT_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}")


def get(id: int) -> Instance | None:
    """The instance with that id."""
    with reading() as session:
        return session.get(Instance, id)


def by_name(name: str) -> Instance | None:
    """The instance of that name, compared exactly."""
    with reading() as session:
        return session.scalars(select(Instance).where(Instance.name == name)).one_or_none()


def by_domain(domain: str) -> Instance | None:
    """The instance that serves a domain such as ada.example.com or localhost:8080."""
    with reading() as session:
        return session.scalars(select(Instance).where(Instance.domain == domain.lower())).one_or_none()


def all() -> Sequence[Instance]:
    """Every instance, the oldest first."""
    with reading() as session:
        return session.scalars(select(Instance).order_by(Instance.id)).all()


def add(
    name: str, url: str, *, kind: str = "nextcloud", domain: str | None = None, context: str | None = None
) -> Instance:
    """A new instance. Raises BadInput with a sentence a field, Conflict when name or domain is taken."""
    domain = domain.lower() if domain else None
    problems: dict[str, Sentence] = {}
    if not NAME_FORM.fullmatch(name) or name in BUILT_IN:
        problems["name"] = say(
            "An instance's name has 1 to 64 of a-z, 0-9, dot, _ and -, and is not {taken}.", taken=" or ".join(BUILT_IN)
        )
    if kind not in KINDS:
        problems["kind"] = say("The kind is one of: {kinds}.", kinds=", ".join(KINDS))
    if domain and not DOMAIN_FORM.fullmatch(domain):
        problems["domain"] = say("A domain is a host name, with a port where it needs one.")
    if context and not CONTEXT_FORM.fullmatch(context):
        problems["context"] = say("A context has 1 to 64 letters, digits, dots, _ and -.")
    if problems:
        raise BadInput(next(iter(problems.values())), fields={at: str(text) for at, text in problems.items()})
    return _insert(name, addresses.checked(url), kind=kind, domain=domain, context=context or None)


def ensure_sandbox(base_url: str) -> Instance:
    """The sandbox: a small Talk server of our own, below `base_url`/sandbox; follows a changed address."""
    url = base_url.rstrip("/").removesuffix("/sandbox") + "/sandbox"
    found = by_name(SANDBOX)
    if found is not None and found.url == url:
        return found
    with transaction() as session:
        _put(session, SANDBOX, url, kind=SANDBOX, domain=None, context=None)
        made = session.scalars(select(Instance).where(Instance.name == SANDBOX)).one()
        made.url = url
        return made


def chosen(name: str | None) -> Instance:
    """The instance that a command is about: the named one, else the only one that is not built in, else the sandbox.

    Raises BadInput that lists them where the choice is not clear.
    """
    known = all()
    if name is not None:
        found = next((instance for instance in known if instance.name == name), None)
        if found is None:
            raise BadInput(
                say("There is no instance named {name}. There are: {known}.", name=name, known=_names(known))
            )
        return found
    own = [instance for instance in known if instance.name not in BUILT_IN]
    if len(own) > 1:
        raise BadInput(say("Say which instance, with --instance NAME. There are: {known}.", known=_names(own)))
    if own:
        return own[0]
    # The running server has set the sandbox's address; this process may be configured for another one.
    sandbox = next((instance for instance in known if instance.name == SANDBOX), None)
    return sandbox or ensure_sandbox(auth.base_url())


def _insert(name: str, url: str, *, kind: str, domain: str | None, context: str | None) -> Instance:
    with transaction() as session:
        if _put(session, name, url, kind=kind, domain=domain, context=context) is None:
            raise Conflict(say("There is an instance with that name or domain already."))
        return session.scalars(select(Instance).where(Instance.name == name)).one()


def _put(session: Session, name: str, url: str, *, kind: str, domain: str | None, context: str | None) -> int | None:
    row: dict[str, Any] = {
        "name": name,
        "url": url,
        "kind": kind,
        "domain": domain,
        "context": context,
        "flags": {},
        "language": "en",
        "timezone": "UTC",
        "verify_tls": True,
        "backends": [],
        "created_at": clock.now(),
    }
    return insert_once(session, table(Instance), row)


def _names(found: Sequence[Instance]) -> str:
    return ", ".join(instance.name for instance in found)
