"""Model endpoints: named model servers, their sealed keys, and the models they last listed.

The endpoint `offline` is built in (llm.offline): it stands in no table and its name can't be taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.infra import clock, crypto
from app.infra.db import changed, clean_text, reading, transaction
from app.infra.errors import BadInput, NotFound, Unavailable
from app.infra.i18n import Sentence, say
from app.infra.inputs import addresses
from app.settings import schema
from app.settings.models import Endpoint

OFFLINE = "offline"
NAME_FORM = re.compile(r"[a-z][a-z0-9-]{0,31}")
LONGEST_MODEL = 200
MOST_MODELS = 5000
LONGEST_ERROR = 500
FIRST = (
    select(Endpoint.name, Endpoint.default_model)
    .where(Endpoint.default_model.is_not(None))
    .order_by(Endpoint.id)
    .limit(1)
)


@dataclass(frozen=True)
class ModelInfo:
    """A model as an endpoint listed it; what it reads and what it writes in tokens, None where the server told none."""

    id: str
    context_length: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True)
class EndpointInfo:
    """A model server. `key` is the open secret: it never goes into a log, a trace or an answer."""

    name: str
    url: str
    key: str | None = field(default=None, repr=False)
    default_model: str | None = None
    allowed_models: tuple[str, ...] = ()
    models: tuple[ModelInfo, ...] = ()
    models_at: datetime | None = None
    models_error: str | None = None


def all() -> list[EndpointInfo]:
    """Every endpoint, the oldest (the primary one) first. A key that doesn't open counts as none."""
    with reading() as session:
        return [_info(row) for row in session.scalars(select(Endpoint).order_by(Endpoint.id))]


def get(name: str) -> EndpointInfo | None:
    """The endpoint of that name. Raises Unavailable when its key doesn't open with the present keys."""
    with reading() as session:
        row = _row(session, name)
        return None if row is None else _info(row, strict=True)


def first_reference() -> str | None:
    """The model reference of the oldest endpoint that has a default model."""
    with reading() as session:
        row = session.execute(FIRST).first()
        return None if row is None else f"{row.name}:{row.default_model}"


def save(
    name: str,
    *,
    url: str | None = None,
    key: str | None = None,
    model: str | None = None,
    allowed_models: Iterable[str] | None = None,
    clear_key: bool = False,
) -> EndpointInfo:
    """Creates the endpoint or changes what is given; a blank key, or its mask, keeps the stored one.

    `model` is its default model; an empty text takes it away. Raises BadInput with a sentence a field, changing nothing.
    A stored key is never sent to another host: when the address names one, the key is given again or cleared.
    """
    values = _checked(name, url, key=key, model=model, allowed=allowed_models)
    try:
        return _write(name, values, clear_key=clear_key)
    except IntegrityError:
        # Somebody else made it in this moment; now it is a change.
        return _write(name, values, clear_key=clear_key)


def remove(name: str) -> None:
    """Deletes the endpoint and its key. Raises NotFound."""
    with transaction() as session:
        if not changed(session.execute(delete(Endpoint).where(Endpoint.name == name))):
            raise NotFound(say("There is no endpoint named {name}.", name=name[:64]))


def remember_models(name: str, models: Iterable[ModelInfo], error: str | None) -> None:
    """Keeps what the endpoint listed. With an error the models of last time stay, so that a dead server hides none."""
    with transaction() as session:
        row = _row(session, name)
        if row is None:
            return
        row.models_error = clean_text(error)[:LONGEST_ERROR] if error else None
        if not error:
            row.models = [_wire(model) for model in models][:MOST_MODELS]
            row.models_at = clock.now()


def masked(info: EndpointInfo) -> str:
    """How the key is shown: empty when there is none."""
    return crypto.masked(info.key)


def _write(name: str, values: Mapping[str, Any], *, clear_key: bool) -> EndpointInfo:
    with transaction() as session:
        row = _row(session, name)
        if row is None:
            row = Endpoint(name=name, url=_needed(values.get("url")), allowed_models=[], created_at=clock.now())
            session.add(row)
        _apply_key(row, values, clear=clear_key)
        _apply(row, values)
        session.flush()
        return _info(row)


def _row(session: Session, name: str) -> Endpoint | None:
    return session.scalars(select(Endpoint).where(Endpoint.name == name)).one_or_none()


def _info(row: Endpoint, *, strict: bool = False) -> EndpointInfo:
    return EndpointInfo(
        name=row.name,
        url=row.url,
        key=_opened(row, strict=strict),
        default_model=row.default_model,
        allowed_models=tuple(row.allowed_models or ()),
        models=tuple(map(_listed, row.models or ())),
        models_at=row.models_at,
        models_error=row.models_error,
    )


def _opened(row: Endpoint, *, strict: bool) -> str | None:
    try:
        return crypto.unseal(row.key) if row.key else None
    except crypto.BrokenSeal:
        if not strict:
            return None
        sentence = say("The key of the endpoint {name} doesn't open any more. Set it again.", name=row.name)
        raise Unavailable(sentence) from None


def _listed(entry: Mapping[str, Any]) -> ModelInfo:
    return ModelInfo(entry["id"], entry.get("context_length"), entry.get("max_output_tokens"))


def _wire(model: ModelInfo) -> dict[str, Any]:
    told = {"context_length": model.context_length, "max_output_tokens": model.max_output_tokens}
    return {"id": clean_text(model.id), **{name: number for name, number in told.items() if number is not None}}


def _checked(
    name: str, url: str | None, *, key: str | None, model: str | None, allowed: Iterable[str] | None
) -> dict[str, Any]:
    """What was given, in its stored form; raises one BadInput with every problem."""
    problems: dict[str, Sentence] = {}
    values: dict[str, Any] = {}
    if not NAME_FORM.fullmatch(name) or name == OFFLINE:
        problems["name"] = say(
            "An endpoint's name has 1 to 32 of a-z, 0-9 and -, begins with a letter, is not offline."
        )
    if url is not None:
        try:
            values["url"] = addresses.checked(url)
        except BadInput as error:
            problems["url"] = error.sentence
    if key is not None and not schema.keeps(key):
        try:
            values["key"] = schema.checked_secret(key)
        except ValueError:
            problems["key"] = say("A key has at most {most} printable ASCII characters.", most=schema.LONGEST_SECRET)
    if model is not None:
        values["default_model"] = _model(model, problems, at="default_model") if model else None
    if allowed is not None:
        values["allowed_models"] = list(dict.fromkeys(_model(each, problems, at="allowed_models") for each in allowed))
    if problems:
        raise BadInput(next(iter(problems.values())), fields={at: str(text) for at, text in problems.items()})
    return values


def _model(text: str, problems: dict[str, Sentence], *, at: str) -> str:
    text = text.strip()
    if not 0 < len(text) <= LONGEST_MODEL or schema.CONTROL.search(text):
        problems[at] = say("A model's name has 1 to {most} characters in one line.", most=LONGEST_MODEL)
    return text


def _needed(url: str | None) -> str:
    if url is None:
        sentence = say("A new endpoint needs its address.")
        raise BadInput(sentence, fields={"url": str(sentence)})
    return url


def _apply_key(row: Endpoint, values: Mapping[str, Any], *, clear: bool) -> None:
    if clear:
        row.key = None
    elif "key" in values:
        row.key = crypto.seal(values["key"])
    elif row.key and addresses.host_changed(row.url, values.get("url", row.url)):
        sentence = say("The address names another server: give the key again, or clear it.")
        raise BadInput(sentence, fields={"key": str(sentence)})


def _apply(row: Endpoint, values: Mapping[str, Any]) -> None:
    if row.url != values.get("url", row.url):
        row.models, row.models_at, row.models_error = [], None, None
    for name in ("url", "default_model", "allowed_models"):
        if name in values:
            setattr(row, name, values[name])
    row.updated_at = clock.now()
