"""The arguments of a call, from the model's spelling to values that fit the tool's schema; never guessed, never cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from app.infra.errors import ParleyError
from app.infra.i18n import say
from app.llm.base import ToolCall
from app.llm.toolcalls import lossless
from app.llm.toolcalls.lossless import Unreadable
from app.tools import schemas

LONGEST_TEXT = 1_000_000
MOST_VALUES = 50_000
LONGEST_DETAIL = 500


class ArgumentsRefused(ParleyError):
    """The call must not run. `reason` is "truncated" where its text ended early; `detail` tells the model what to change."""

    code = "bad_arguments"
    status = 400

    def __init__(self, reason: Literal["bad_arguments", "truncated"], detail: str) -> None:
        super().__init__(say("The arguments of a tool call could not be used."), detail=detail[:LONGEST_DETAIL])
        self.reason: Literal["bad_arguments", "truncated"] = reason


def read(call: ToolCall, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of `call`, as `schema` (of type object) wants them. Raises ArgumentsRefused."""
    if not call.complete:
        raise ArgumentsRefused("truncated", "the call ended before its arguments did")
    try:
        given = _object(call.arguments)
        fitted = schemas.fitted(given, {**schema, "type": "object"}, textual=call.textual)
    except Unreadable as error:
        raise ArgumentsRefused("truncated" if error.reason == "ended" else "bad_arguments", error.detail) from None
    except RecursionError:
        raise ArgumentsRefused("bad_arguments", "the arguments are nested too deeply") from None
    if wrong := schemas.complaint(fitted, schema):
        raise ArgumentsRefused("bad_arguments", wrong)
    return fitted if isinstance(fitted, dict) else {}


def _object(given: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The object that was written; nothing at all means no arguments. Raises Unreadable."""
    value = _value(given)
    if isinstance(value, str):
        # One level of double encoding; a text in a text in a text is something else.
        value = _value(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unreadable("wrong", "the arguments are not a JSON object")
    if _count(value) > MOST_VALUES:
        raise Unreadable("wrong", f"the arguments hold more than {MOST_VALUES} values")
    return value


def _value(given: str | Mapping[str, Any] | None) -> Any:
    if given is None:
        return None
    if not isinstance(given, str):
        return dict(given)
    if len(given) > LONGEST_TEXT:
        raise Unreadable("wrong", f"the arguments are longer than {LONGEST_TEXT} characters")
    return lossless.loads(given) if given.strip() else None


def _count(value: Any) -> int:
    """How many values are nested in `value`, counted until it is too many."""
    count, open_values = 0, [value]
    while open_values and count <= MOST_VALUES:
        inner = open_values.pop()
        count += 1
        if isinstance(inner, dict):
            open_values.extend(inner.values())
        elif isinstance(inner, list):
            open_values.extend(inner)
    return count
