"""Rotation of the key that seals secrets: every sealed column is sealed again, and a crash at any point loses nothing.

With a generated key file: the new key is put first, everything is sealed with it, then the old keys are dropped; a run
that was cut off leaves all keys in the file, and the next run goes on. With PARLEY_SECRET_KEY the operator puts the new
key first, and learns when the old one may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import InstrumentedAttribute

from app.accounts.models import Instance
from app.config import Config
from app.infra import clock, crypto
from app.infra.db import changed, reading, transaction
from app.infra.errors import Conflict
from app.infra.i18n import say
from app.platforms.models import Registration
from app.settings.models import Endpoint, SettingValue

SEALED: tuple[InstrumentedAttribute[Any], ...] = (
    SettingValue.sealed,
    Endpoint.key,
    Registration.secret,
    Registration.previous_secret,
    Instance.service_secret,
)
"""Every column that holds a sealed value; a test compares it with the models."""

# A running server may be about to store what it sealed with the old key a moment ago.
SETTLE = 1.0
MOST_PASSES = 10


@dataclass(frozen=True)
class Rotated:
    """How many values were sealed again, which ones open with no key, how many keys are gone, how many there were."""

    resealed: int
    broken: tuple[str, ...]
    dropped: int
    keys: int


def rotate(config: Config) -> Rotated:
    """Seals everything with the newest key. Raises Conflict when values keep coming under an old one."""
    path = crypto.vault.path
    old = crypto.keys_of(config)
    if path is None:
        resealed, unopened = _reseal_all()
        return Rotated(resealed, unopened, dropped=0, keys=len(old))
    fresh = crypto.new_secret()
    crypto.store_keys(path, [fresh, *old])
    resealed, unopened = _reseal_all()
    crypto.store_keys(path, [fresh])
    return Rotated(resealed, unopened, dropped=len(old), keys=len(old))


def broken() -> tuple[str, ...]:
    """The sealed values that open with no key of this installation."""
    found = []
    for column, key, sealed in _old_values():
        try:
            crypto.reseal(sealed)
        except crypto.BrokenSeal:
            found.append(_place(column, key))
    return tuple(found)


def _reseal_all() -> tuple[int, tuple[str, ...]]:
    total = 0
    for _ in range(MOST_PASSES):
        done, unopened = _one_pass()
        total += done
        if not done:
            return total, unopened
        clock.sleep(SETTLE)
    raise Conflict(say("Secrets are still being stored under the old key. Stop Parley, and rotate again."))


def _one_pass() -> tuple[int, tuple[str, ...]]:
    done, unopened = 0, []
    for column, key, sealed in _old_values():
        try:
            done += _replace(column, key, sealed)
        except crypto.BrokenSeal:
            unopened.append(_place(column, key))
    return done, tuple(unopened)


def _old_values() -> Iterator[tuple[InstrumentedAttribute[Any], Any, str]]:
    """(column, primary key, sealed value) of everything that the newest key doesn't open."""
    for column in SEALED:
        primary = _primary(column)
        with reading() as session:
            rows = session.execute(select(primary, column).where(column.is_not(None))).all()
        for key, sealed in rows:
            if not crypto.opens_with_newest(sealed):
                yield column, key, sealed


def _replace(column: InstrumentedAttribute[Any], key: Any, sealed: str) -> int:
    fresh = crypto.reseal(sealed)
    # Only where nobody stored another secret meanwhile.
    statement = update(column.class_).where(_primary(column) == key, column == sealed).values({column.key: fresh})
    with transaction() as session:
        return changed(session.execute(statement))


def _primary(column: InstrumentedAttribute[Any]) -> Any:
    return list(column.class_.__table__.primary_key)[0]


def _place(column: InstrumentedAttribute[Any], key: Any) -> str:
    return f"{column.class_.__tablename__}.{column.key} of {key}"
