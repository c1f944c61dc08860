"""JSON bodies of requests: bytes become typed values at the door, and what is wrong is told at its field."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from app.infra.db import clean_text
from app.infra.errors import BadInput
from app.infra.i18n import Sentence, say

Kind = TypeVar("Kind")

MOST_BYTES = 1024 * 1024
DEEPEST = 32
LARGEST = 2**63 - 1  # what a column holds; infinities are larger


def read(raw: bytes, *, most: int = MOST_BYTES) -> dict[str, Any]:
    """The JSON object of a body, its texts cleaned; an empty body is an empty object. Raises BadInput."""
    if len(raw) > most:
        raise BadInput(say("The body has more than {most} bytes.", most=most))
    if not raw.strip():
        return {}
    try:
        value = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadInput(say("The body must be a JSON object.")) from None
    if not isinstance(value, dict):
        raise BadInput(say("The body must be a JSON object."))
    cleaned: dict[str, Any] = _cleaned(value, DEEPEST)
    return cleaned


def only(values: Mapping[str, Any], names: Collection[str]) -> None:
    """Refuses fields that nobody would read. Raises BadInput that names them."""
    unknown = {name[:64]: str(say("There is no field of this name.")) for name in values if name not in names}
    if unknown:
        raise BadInput(say("There is no field named {names}.", names=", ".join(unknown)), fields=unknown)


def needed(values: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    """The field, of that type. Raises BadInput when it is missing or another type."""
    if values.get(name) is None:
        raise _at(name, say("{name} is needed.", name=name))
    return optional(values, name, kind)  # type: ignore[return-value]


def optional(values: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind | None:
    """The field, or None where it is missing or null. Raises BadInput for another type; a bool is no number."""
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _at(name, say("{name} must be {kind}.", name=name, kind=_words(kind)))
    return value


def texts(values: Mapping[str, Any], name: str, *, most: int = 500) -> list[str] | None:
    """A list of texts, or None where it is missing or null. Raises BadInput."""
    value = optional(values, name, list)
    if value is None:
        return None
    if len(value) > most or not all(isinstance(each, str) for each in value):
        raise _at(name, say("{name} must be a list of at most {most} texts.", name=name, most=most))
    return value


def _words(kind: type[Any]) -> str:
    words = {str: say("a text"), int: say("a whole number"), bool: say("true or false"), list: say("a list")}
    return str(words.get(kind, say("an object")))


def _at(name: str, sentence: Sentence) -> BadInput:
    return BadInput(sentence, fields={name: str(sentence)})


def _cleaned(value: Any, depth: int) -> Any:
    if depth < 0:
        raise BadInput(say("The body is nested too deeply."))
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int | float) and not abs(value) <= LARGEST:
        raise BadInput(say("A number in the body is too large."))
    if isinstance(value, list):
        return [_cleaned(each, depth - 1) for each in value]
    if isinstance(value, dict):
        return {clean_text(name): _cleaned(each, depth - 1) for name, each in value.items()}
    return value


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
