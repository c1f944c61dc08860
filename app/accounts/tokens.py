"""Bearer tokens: shown once, kept as their SHA-256, and worth no more than their person is at the moment of use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import Session

from app.accounts.models import Person, Token
from app.infra import clock, crypto
from app.infra.auth import TOKEN_PREFIX, Identity
from app.infra.db import changed, in_transaction, reading, transaction
from app.infra.errors import BadInput, NotAllowed, NotFound
from app.infra.i18n import Sentence, say

SCOPES = ("user", "administrator", "operator")
ALLOW_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._*-]{0,99}(:[A-Za-z,]{1,100}(:[^\s\x00-\x1f]{1,500})?)?")
MOST_ALLOWS = 50
LONGEST_TOKEN = 200
SECRET_BYTES = 32
DEFAULT_DAYS = 365
MOST_DAYS = 3650
# A token in steady use costs one write in this time.
USED_EVERY = timedelta(minutes=5)


def issue(
    instance_id: int,
    *,
    person_id: int | None = None,
    scope: str | None = None,
    allow: Iterable[str] = (),
    days: int = DEFAULT_DAYS,
) -> tuple[int, str, datetime]:
    """A new token as (id, token, expires_at); the text of the token exists nowhere afterwards.

    Either a `scope`, or `allow` permissions TYPE[:VERBS[:VALUES]] of a domain (then without a person). Raises BadInput,
    and NotAllowed for a scope that the person has no right to.
    """
    permissions = list(allow)
    _check(person_id, scope, permissions=permissions, days=days)
    token = TOKEN_PREFIX + crypto.new_secret(SECRET_BYTES)
    expires_at = clock.now() + timedelta(days=days)
    with transaction() as session:
        _check_person(session, instance_id, person_id=person_id, scope=scope)
        row = Token(
            instance_id=instance_id,
            person_id=person_id,
            digest=digest(token),
            scope=scope,
            allow=permissions,
            expires_at=expires_at,
            created_at=clock.now(),
        )
        session.add(row)
        session.flush()
        return row.id, token, expires_at


def verify(text: str) -> Identity | None:
    """Who sends this token; None when it is unknown, expired, or claims a right that its person has lost."""
    if not text.startswith(TOKEN_PREFIX) or len(text) > LONGEST_TOKEN or not text.isascii():
        return None
    now = clock.now()
    with reading() as session:
        found = session.execute(
            select(Token, Person).outerjoin(Person, Person.id == Token.person_id).where(Token.digest == digest(text))
        ).first()
    if found is None:
        return None
    token, person = found
    if token.expires_at is not None and token.expires_at <= now:
        return None
    identity = _identity(token, person)
    if identity is not None:
        _used(token, now)
    return identity


def digest(text: str) -> str:
    """What is kept of a token. It has 256 random bits, so a plain hash is as good as a slow one."""
    return hashlib.sha256(text.encode()).hexdigest()


def of_person(person_id: int) -> Sequence[Token]:
    """The tokens of a person, the newest first."""
    with reading() as session:
        return session.scalars(select(Token).where(Token.person_id == person_id).order_by(Token.id.desc())).all()


def of_instance(instance_id: int) -> Sequence[Token]:
    """Every token of an instance, the newest first."""
    with reading() as session:
        return session.scalars(select(Token).where(Token.instance_id == instance_id).order_by(Token.id.desc())).all()


def revoke(id: int, *, person_id: int | None = None, instance_id: int | None = None) -> None:
    """Ends a token, where given only that of this person or instance. Raises NotFound."""
    statement = delete(Token).where(Token.id == id)
    if person_id is not None:
        statement = statement.where(Token.person_id == person_id)
    if instance_id is not None:
        statement = statement.where(Token.instance_id == instance_id)
    with transaction() as session:
        if not changed(session.execute(statement)):
            raise NotFound


def forget_expired(*, before: datetime) -> int:
    """Deletes tokens that ended before that moment; gives their number."""
    with transaction() as session:
        return changed(session.execute(delete(Token).where(Token.expires_at < before)))


def _identity(token: Token, person: Person | None) -> Identity | None:
    if token.person_id is not None and person is None:
        return None
    admin = token.scope == "administrator"
    operator = token.scope == "operator"
    if admin and (person is None or not person.is_admin):
        return None
    if operator and person is not None and not person.is_operator:
        return None
    return Identity(
        person_id=token.person_id,
        instance_id=token.instance_id,
        uid="" if person is None else person.uid,
        admin=admin,
        operator=operator,
        via="token",
        scope=token.scope,
        allow=tuple(token.allow or ()),
    )


def _used(token: Token, now: datetime) -> None:
    if in_transaction() or (token.used_at is not None and now - token.used_at < USED_EVERY):
        return
    with transaction() as session:
        stale = or_(Token.used_at.is_(None), Token.used_at < now)
        session.execute(update(Token).where(Token.id == token.id, stale).values(used_at=now))


def _check(person_id: int | None, scope: str | None, *, permissions: list[str], days: int) -> None:
    problems: dict[str, Sentence] = {}
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MOST_DAYS:
        problems["days"] = say("A token lasts 1 to {most} days.", most=MOST_DAYS)
    if scope is not None and scope not in SCOPES:
        problems["scope"] = say("The scope is one of: {scopes}.", scopes=", ".join(SCOPES))
    if bool(scope) == bool(permissions):
        problems["scope"] = say("Give either a scope or what the token allows.")
    if permissions and person_id is not None:
        problems["allow"] = say("What a token allows is for a domain, not for a person.")
    if len(permissions) > MOST_ALLOWS or not all(ALLOW_FORM.fullmatch(each) for each in permissions):
        problems["allow"] = say(
            "Write TYPE, TYPE:VERBS or TYPE:VERBS:VALUES, at most {most} of them.", most=MOST_ALLOWS
        )
    if person_id is None and scope in ("user", "administrator"):
        problems["scope"] = say("A token of scope {scope} is for a person.", scope=scope)
    if problems:
        raise BadInput(next(iter(problems.values())), fields={at: str(text) for at, text in problems.items()})


def _check_person(session: Session, instance_id: int, *, person_id: int | None, scope: str | None) -> None:
    if person_id is None:
        return
    person = session.get(Person, person_id)
    if person is None or person.instance_id != instance_id:
        raise NotFound
    if (scope == "administrator" and not person.is_admin) or (scope == "operator" and not person.is_operator):
        raise NotAllowed(say("{uid} is no {scope}.", uid=person.uid, scope=scope))
