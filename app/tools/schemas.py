"""JSON Schemas of tools: checking values against them, and turning the spelling of a value into the wanted type.

Turning never loses anything: "3" becomes 3 for an integer, "007" stays a text, a single value becomes a list of one.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry

from app.llm.toolcalls import lossless
from app.llm.toolcalls.lossless import Number, Unreadable
from app.llm.toolcalls.names import without_markup

log = logging.getLogger(__name__)

INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,300})", re.ASCII)
WHOLE_NUMBER = re.compile(r"(-?\d+)\.0+", re.ASCII)
BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
# The order in which types are tried where a schema allows several.
TYPES = ("null", "boolean", "integer", "number", "object", "array", "string")
MOST_REFERENCES = 16
LONGEST_COMPLAINT = 300


def problem(schema: Mapping[str, Any]) -> str:
    """What is wrong with a schema itself, empty when it can be used."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{error.message}"[:LONGEST_COMPLAINT]
    return "" if schema.get("type", "object") == "object" else "its type is not object"


def complaint(value: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What is wrong with a value, in words for the model; empty when it fits. Remote references are never fetched."""
    try:
        error = best_match(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value))
    except Exception as error:
        # A schema that can't be worked with (an unknown reference) is not the model's fault: its server will judge.
        log.warning("a tool's schema can't be used: %s", str(error)[:LONGEST_COMPLAINT])
        return ""
    if error is None:
        return ""
    place = ".".join(str(part) for part in error.absolute_path)
    message = error.message if len(error.message) <= LONGEST_COMPLAINT else error.message[:LONGEST_COMPLAINT] + "…"
    return f"{place}: {message}" if place else message


@lru_cache(maxsize=512)
def _validator(schema: str) -> Draft202012Validator:
    # The registry of this library's default would go to the network for a remote $ref.
    return Draft202012Validator(json.loads(schema), registry=Registry())


def fitted(value: Any, schema: Any, *, textual: bool = False) -> Any:
    """The value as the schema wants it, every Number made plain. What doesn't fit stays for `complaint` to name.

    `textual`: texts are spellings out of markup, where no other type can be written. Raises Unreadable.
    """
    return _Fitting(schema, textual=textual).value(value, schema)


class _Fitting:
    def __init__(self, root: Any, *, textual: bool) -> None:
        self._root = root
        self._textual = textual

    def value(self, value: Any, schema: Any) -> Any:
        schema = self._resolved(schema)
        types = _types(schema)
        if self._fits_already(value, types):
            return self._inside(value, schema)
        for name in TYPES:
            if name not in types:
                continue
            made, done = self._made(value, name, schema)
            if done:
                return made
        return self._chosen(value, schema)

    def _fits_already(self, value: Any, types: frozenset[str]) -> bool:
        if not types or (self._textual and isinstance(value, str)):
            return False
        if isinstance(value, Number):
            whole = INTEGER.fullmatch(value.text) or WHOLE_NUMBER.fullmatch(value.text)
            return "number" in types or ("integer" in types and whole is not None)
        return _type_of(value) in types

    def _inside(self, value: Any, schema: Mapping[str, Any]) -> Any:
        """A value of the right type, with what it holds made to fit too."""
        if isinstance(value, Number):
            whole = WHOLE_NUMBER.fullmatch(value.text)
            return lossless.plain(Number(whole[1]) if whole and "integer" in _types(schema) else value)
        if isinstance(value, dict):
            return self._object(value, schema)
        if isinstance(value, list):
            return [self.value(item, schema.get("items", True)) for item in value]
        return value

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        required = schema.get("required") or ()
        made: dict[str, Any] = {}
        for written, item in value.items():
            key = _key(written, known, value)
            wanted = known.get(key, schema.get("additionalProperties", True))
            # null for what may be left out says nothing: models send it for every parameter they don't use.
            if item is None and key in known and key not in required and not self._allows_null(wanted):
                continue
            made[key] = self.value(item, wanted)
        return made

    def _made(self, value: Any, name: str, schema: Mapping[str, Any]) -> tuple[Any, bool]:
        """The value as type `name`, and whether that could be done without loss."""
        if isinstance(value, str):
            return self._from_text(value, name, schema)
        if name == "string" and isinstance(value, Number):
            return value.text, True
        if name == "boolean" and isinstance(value, Number) and value.text in BOOLEANS:
            return BOOLEANS[value.text], True
        if name == "array" and value is not None and not isinstance(value, list):
            return [self.value(value, schema.get("items", True))], True
        return value, False

    def _from_text(self, text: str, name: str, schema: Mapping[str, Any]) -> tuple[Any, bool]:
        stripped = text.strip() if self._textual else text
        if name == "string":
            return text, True
        if name == "null":
            return None, stripped == "null"
        if name == "boolean":
            return BOOLEANS.get(stripped.lower()), stripped.lower() in BOOLEANS
        if name == "integer":
            return (int(stripped), True) if INTEGER.fullmatch(stripped) else (text, False)
        if name == "number":
            return (lossless.plain(Number(stripped)), True) if lossless.NUMBER.fullmatch(stripped) else (text, False)
        read = _read(stripped, dict if name == "object" else list)
        if read is not None:
            return self._nested(read, schema), True
        return ([self.value(text, schema.get("items", True))], True) if name == "array" else (text, False)

    def _nested(self, read: Any, schema: Mapping[str, Any]) -> Any:
        """What was read from JSON inside a text is JSON: its texts are texts."""
        return _Fitting(self._root, textual=False)._inside(read, schema)

    def _chosen(self, value: Any, schema: Mapping[str, Any]) -> Any:
        """Without a type of its own: one of the alternatives, one of the enumerated values, else the value itself."""
        for branch in (*_list(schema.get("anyOf")), *_list(schema.get("oneOf"))):
            made = self.value(value, branch)
            if self._is_valid(made, branch):
                return made
        for allowed in _list(schema.get("enum")):
            if isinstance(value, str) and not isinstance(allowed, str) and value == json.dumps(allowed):
                return allowed
        return lossless.plain(value)

    def _is_valid(self, value: Any, branch: Any) -> bool:
        root = self._root if isinstance(self._root, dict) else {}
        definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
        schema = {**definitions, **branch} if isinstance(branch, dict) else {"not": {}} if branch is False else {}
        return not complaint(value, schema)

    def _allows_null(self, schema: Any) -> bool:
        schema = self._resolved(schema)
        types = _types(schema)
        if types:
            return "null" in types
        branches = (*_list(schema.get("anyOf")), *_list(schema.get("oneOf")))
        return any(self._allows_null(branch) for branch in branches) if branches else None in schema.get("enum", [None])

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        """The schema that a local reference stands for; an unknown one allows everything here."""
        for _ in range(MOST_REFERENCES):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str):
                return schema if isinstance(schema, dict) else {}
            schema = _pointed(self._root, reference)
        return {}


def _key(written: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """A parameter's name without the tags of a notation that leaked into it, where it names a parameter then."""
    if written in known or "<" not in written or not known:
        return written
    key = without_markup(written)
    if key not in known or key in given:
        raise Unreadable("wrong", f"markup leaked into the name of a parameter: {written[:80]!r}")
    return key


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    named = schema.get("type")
    if named is None:
        return frozenset({"object"} if "properties" in schema else {"array"} if "items" in schema else ())
    return frozenset(name for name in _list(named) if isinstance(name, str))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "")


def _read(text: str, wanted: type) -> Any:
    """What a text spells in JSON, when it is of the wanted kind."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = lossless.loads(text)
    except Unreadable:
        return None
    return value if isinstance(value, wanted) else None


def _pointed(root: Any, reference: str) -> Any:
    if not reference.startswith("#"):
        return {}
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        root = root.get(part) if isinstance(root, dict) else None
    return root
