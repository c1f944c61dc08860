"""Slowing guessers down: failed sign-ins are counted for each name and each address, and each failure costs a wait.

Nobody is locked out for good: a wait has a longest length, failures are forgotten after a quiet day, and a browser in
which a person has signed in before is counted by itself, so that somebody who keeps guessing a name can't keep its
owner out. An attempt is counted before the password is looked at: many at once gain nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app.accounts.models import LoginFailure
from app.infra import clock
from app.infra.db import changed, insert_once, transaction
from app.infra.errors import TooMany
from app.infra.i18n import say
from app.infra.jobs import table

FORGET_AFTER = timedelta(days=1)
MOST_DOUBLINGS = 30


@dataclass(frozen=True)
class Patience:
    """How many failures are free, and the longest wait in seconds after more of them (1, 2, 4, ... before)."""

    free: int
    longest: float


FOR_NAME = Patience(free=5, longest=300.0)
# Many people may share one address.
FOR_ADDRESS = Patience(free=20, longest=60.0)
FOR_BROWSER = Patience(free=5, longest=300.0)


@dataclass(frozen=True)
class Subject:
    """Whom failures are counted for."""

    key: str
    patience: Patience


def subjects(instance_id: int | None, uid: str, *, address: str | None, browser: str | None) -> list[Subject]:
    """Who is counted: a browser that this person has signed in with before, else the name and the address."""
    name = hashlib.sha256(f"{instance_id} {uid}".encode("utf-8", "replace")).hexdigest()
    if browser is not None:
        return [Subject(f"browser:{browser}:{name}"[:255], FOR_BROWSER)]
    return [Subject(f"name:{name}", FOR_NAME), Subject(f"address:{_network(address)}", FOR_ADDRESS)]


def begin(counted: Sequence[Subject]) -> None:
    """Counts an attempt as failed until `succeeded` says otherwise. Raises TooMany while a wait lasts."""
    now = clock.now()
    # In a transaction of its own: MariaDB's INSERT IGNORE would hold shared locks that two attempts can't both raise.
    with transaction() as session:
        for subject in counted:
            insert_once(session, table(LoginFailure), {"subject": subject.key, "count": 0, "last_at": now})
    with transaction() as session:
        rows = [_locked(session, subject, now) for subject in counted]
        wait = max(_wait(row, subject.patience, now) for row, subject in zip(rows, counted, strict=True))
        if wait <= 0:
            for row in rows:
                row.count = 1 if now - row.last_at >= FORGET_AFTER else row.count + 1
                row.last_at = now
    if wait > 0:
        seconds = max(1, round(wait))
        raise TooMany(
            say("That was tried too often. Wait {seconds} s, then try again.", seconds=seconds), retry_after=wait
        )


def succeeded(counted: Sequence[Subject]) -> None:
    """Takes the attempt back: a name starts anew, an address only gets back this one.

    Else whoever has one account could clear the address again and again while guessing others.
    """
    with transaction() as session:
        for subject in counted:
            count = LoginFailure.count - 1 if subject.patience is FOR_ADDRESS else 0
            row = update(LoginFailure).where(LoginFailure.subject == subject.key, LoginFailure.count > 0)
            session.execute(row.values(count=count))


def forget(*, before: datetime) -> int:
    """Deletes counts that nobody added to since `before`; gives their number."""
    with transaction() as session:
        return changed(session.execute(delete(LoginFailure).where(LoginFailure.last_at < before)))


def _locked(session: Session, subject: Subject, now: datetime) -> LoginFailure:
    found = select(LoginFailure).where(LoginFailure.subject == subject.key).with_for_update()
    row = session.scalars(found).one_or_none()
    if row is None:  # forgotten in between
        row = LoginFailure(subject=subject.key, count=0, last_at=now)
        session.add(row)
    return row


def _wait(row: LoginFailure, patience: Patience, now: datetime) -> float:
    """Seconds until another attempt may be made."""
    over = row.count - patience.free
    if over < 0 or now - row.last_at >= FORGET_AFTER:
        return 0.0
    penalty = min(patience.longest, 2.0 ** min(over, MOST_DOUBLINGS))
    return penalty - (now - row.last_at).total_seconds()


def _network(address: str | None) -> str:
    """An address as it is counted: an IPv6 customer has a whole /64."""
    try:
        found = ip_address((address or "").partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or ip_network((found, 64), strict=False))
    return str(found)
