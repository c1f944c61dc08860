"""JSON bodies become typed values, or a sentence at a field."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.infra.errors import BadInput
from app.infra.inputs import body

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_refused(raw: bytes) -> None:
    with suppress(BadInput):
        assert isinstance(body.read(raw), dict)


@given(st.dictionaries(st.text(max_size=10), VALUES, max_size=4))
def test_what_is_read_fits_every_database(values: dict[str, Any]) -> None:
    try:
        read = body.read(json.dumps(values).encode())
    except BadInput:
        return
    text = json.dumps(read, ensure_ascii=False, allow_nan=False)
    assert "\\u0000" not in text
    text.encode()


def test_an_empty_body_is_an_empty_object() -> None:
    assert body.read(b"") == body.read(b" \n") == body.read(b"{}") == {}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1e999}',
        b'{"a": NaN}',
        b'{"a": 9223372036854775808}',
        b"{" * 100_000,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b"x" * (body.MOST_BYTES + 1),
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_no_database_holds_is_refused(raw: bytes) -> None:
    with pytest.raises(BadInput):
        body.read(raw)


def test_fields_are_typed() -> None:
    values = {"text": "a", "number": 3, "flag": True, "list": ["a"], "none": None}
    assert body.needed(values, "text", str) == "a"
    assert body.optional(values, "number", int) == 3
    assert body.optional(values, "flag", bool) is True
    assert body.texts(values, "list") == ["a"]
    assert body.optional(values, "none", str) is None
    assert body.texts(values, "missing") is None


@pytest.mark.parametrize(
    ("value", "kind"), [(True, int), (1, bool), (1, str), ("1", int), (1.5, int), ([], str), ({}, list)]
)
def test_another_type_is_refused_at_its_field(value: Any, kind: type[Any]) -> None:
    with pytest.raises(BadInput) as caught:
        body.optional({"field": value}, "field", kind)
    assert list(caught.value.fields) == ["field"]


def test_missing_and_unknown_fields_are_named() -> None:
    with pytest.raises(BadInput, match="uid is needed"):
        body.needed({"uid": None}, "uid", str)
    with pytest.raises(BadInput, match="extra"):
        body.only({"uid": 1, "extra": 2}, {"uid"})
    with pytest.raises(BadInput) as caught:
        body.texts({"groups": ["a", 1]}, "groups")
    assert list(caught.value.fields) == ["groups"]
