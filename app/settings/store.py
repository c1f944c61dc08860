"""The values of settings: always read from the database, so that a change takes effect everywhere at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.infra import clock, crypto
from app.infra.db import reading, transaction
from app.infra.errors import BadInput, Unavailable
from app.infra.i18n import say
from app.settings import endpoints, schema
from app.settings.models import SettingValue
from app.settings.schema import Setting

log = logging.getLogger(__name__)

# A few rows at most: reading them all costs less than building a statement for some of them.
STORED = select(SettingValue.name, SettingValue.value, SettingValue.sealed)

# Defaults that depend on what else is set up.
COMPUTED: Mapping[str, Callable[[], Any]] = {"default_model": endpoints.first_reference}


def get(name: str) -> Any:
    """The value of a setting, or its default. Raises BadInput for an unknown name, Unavailable for a broken seal.

    One query; `several` reads many at the same price.
    """
    return several(name)[name]


def several(*names: str) -> dict[str, Any]:
    """The values of these settings by name, read at one moment."""
    wanted = [schema.find(name) for name in names]
    with reading() as session:
        rows = {row.name: row for row in session.execute(STORED)}
        return {setting.name: _value(setting, rows.get(setting.name)) for setting in wanted}


def set(name: str, value: Any) -> None:
    """Stores one value. Raises BadInput with the limits; a bad value changes nothing."""
    update({name: value})


def clear(name: str) -> None:
    """Back to the default; a secret is deleted."""
    setting = schema.find(name)
    with transaction() as session:
        session.execute(delete(SettingValue).where(SettingValue.name == setting.name))


def update(values: Mapping[str, Any]) -> list[str]:
    """Stores all of `values` or nothing, and gives the names that were written.

    For a secret an empty text, or the mask that `show` gave, keeps it, and None clears it. Raises BadInput with one
    sentence a field.
    """
    changes: dict[str, tuple[Any] | None] = {}
    problems: dict[str, str] = {}
    for name, value in values.items():
        try:
            setting = schema.find(name)
            if not _keeps(setting, value):
                changes[name] = None if _clears(setting, value) else (schema.check(setting, value),)
        except BadInput as error:
            problems |= error.fields
    if problems:
        raise BadInput(say("Nothing was changed: {problems}", problems=" ".join(problems.values())), fields=problems)
    try:
        _write(changes)
    except IntegrityError:
        # Somebody else stored the same name for the first time in this moment; now it is an update.
        _write(changes)
    return sorted(changes)


def show(names: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Settings for people: name, kind, value (secrets masked), default, limits, about and is_default of each."""
    wanted = [schema.find(name) for name in names] if names is not None else schema.SETTINGS
    with reading() as session:
        rows = {row.name: row for row in session.execute(STORED)}
        return [_shown(setting, rows.get(setting.name)) for setting in wanted]


def _value(setting: Setting, row: Any) -> Any:
    if row is None:
        return _default(setting)
    if setting.kind == "secret":
        return _opened(setting, row.sealed)
    try:
        return schema.check(setting, row.value)
    except BadInput:
        # Stored by a version with other limits: a turn must go on.
        log.warning("the stored value of the setting %s is outside its limits; its default serves", setting.name)
        return _default(setting)


def _default(setting: Setting) -> Any:
    computed = COMPUTED[setting.name]() if setting.name in COMPUTED else None
    value = setting.default if computed is None else computed
    return value.copy() if isinstance(value, list | dict) else value


def _opened(setting: Setting, sealed: str | None) -> str | None:
    try:
        return None if sealed is None else crypto.unseal(sealed)
    except crypto.BrokenSeal:
        sentence = say("The secret {name} doesn't open with the present keys. Set it again.", name=setting.name)
        raise Unavailable(sentence) from None


def _shown(setting: Setting, row: Any) -> dict[str, Any]:
    secret = setting.kind == "secret"
    return {
        "name": setting.name,
        "kind": setting.kind,
        "value": _mask(setting, row) if secret else _value(setting, row),
        "default": setting.default,
        "limits": schema.limits(setting),
        "choices": list(setting.choices),
        "about": setting.about,
        "is_default": row is None,
    }


def _mask(setting: Setting, row: Any) -> str:
    try:
        return crypto.masked(_value(setting, row))
    except Unavailable as error:
        return str(error.sentence)


def _keeps(setting: Setting, value: Any) -> bool:
    return setting.kind == "secret" and isinstance(value, str) and schema.keeps(value)


def _clears(setting: Setting, value: Any) -> bool:
    if setting.kind == "secret":
        return value is None
    return setting.blank and (value is None or value == "")


def _write(values: Mapping[str, tuple[Any] | None]) -> None:
    with transaction() as session:
        for name in sorted(values):
            change = values[name]
            if change is None:
                session.execute(delete(SettingValue).where(SettingValue.name == name))
            else:
                _put(session, schema.BY_NAME[name], change[0])


def _put(session: Session, setting: Setting, value: Any) -> None:
    row = session.get(SettingValue, setting.name)
    if row is None:
        row = SettingValue(name=setting.name)
        session.add(row)
    secret = setting.kind == "secret"
    row.value = None if secret else value
    row.sealed = crypto.seal(value) if secret else None
    row.updated_at = clock.now()
