from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm.base import ToolCall
from app.tools.arguments import ArgumentsRefused, read
from app.tools.schemas import problem

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "filter": {"type": "object"},
        "due": {"type": ["string", "null"]},
        "limit": {"type": ["integer", "null"]},
        "page": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "mode": {"enum": ["replace", "append"]},
        "level": {"enum": [1, 2]},
        "place": {"$ref": "#/$defs/place"},
    },
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "integer"}, "next": {"$ref": "#/$defs/place"}}}},
}
ANYTHING: dict[str, Any] = {"type": "object"}


def given_as(arguments: Any, schema: dict[str, Any] = SCHEMA, **extra: Any) -> Any:
    return read(ToolCall("c1", "tool", arguments, **extra), schema)


def refusal(arguments: Any, schema: dict[str, Any] = SCHEMA, **extra: Any) -> tuple[str, str]:
    with pytest.raises(ArgumentsRefused) as refused:
        given_as(arguments, schema, **extra)
    return refused.value.reason, refused.value.detail


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, values, max_size=4)


@given(objects, st.sampled_from([json.dumps, repr, lambda value: json.dumps(json.dumps(value)), dict]))
def test_any_object_in_any_spelling_arrives_unchanged(value: dict[str, Any], spell: Any) -> None:
    assert given_as(spell(value), ANYTHING) == value


@settings(max_examples=150)
@given(objects, st.integers(0, 10_000), st.sampled_from([json.dumps, repr]))
def test_arguments_that_end_early_are_refused_as_truncated(value: dict[str, Any], place: int, spell: Any) -> None:
    text = spell(value)
    beginning = text[: 1 + place % (len(text) - 1)]
    assert refusal(beginning, ANYTHING)[0] == "truncated"


@given(words)
def test_a_text_is_never_changed_for_a_text_parameter(text: str) -> None:
    assert given_as(json.dumps({"text": text})) == {"text": text}
    assert given_as({"text": text}, textual=True) == {"text": text}


@given(st.integers())
def test_an_integer_in_a_text_becomes_the_same_integer(number: int) -> None:
    assert given_as({"count": str(number)}) == {"count": number}
    assert given_as({"count": f" {number}\n"}, textual=True) == {"count": number}


@pytest.mark.parametrize(
    ("arguments", "read_as"),
    [
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ("{}", {}),
        ('"{}"', {}),
        ('{"text": "007", "count": "7"}', {"text": "007", "count": 7}),
        ('{"text": 1.10}', {"text": "1.10"}),
        ('{"text": 2026}', {"text": "2026"}),
        ('{"count": 3.0}', {"count": 3}),
        ('{"count": 123456789012345678901234567890}', {"count": 123456789012345678901234567890}),
        ('{"ratio": "0.5"}', {"ratio": 0.5}),
        ('{"ratio": 2}', {"ratio": 2}),
        ('{"on": "True"}', {"on": True}),
        ('{"on": 0}', {"on": False}),
        ('{"tags": "crew"}', {"tags": ["crew"]}),
        ('{"tags": "a,b"}', {"tags": ["a,b"]}),
        ('{"tags": "[\\"a\\", \\"b\\"]"}', {"tags": ["a", "b"]}),
        ('{"tags": [1.50]}', {"tags": ["1.50"]}),
        ('{"numbers": ["1", 2]}', {"numbers": [1, 2]}),
        ('{"filter": "{\\"a\\": 1}"}', {"filter": {"a": 1}}),
        ('{"due": null}', {"due": None}),
        ('{"due": "null"}', {"due": "null"}),
        ('{"limit": "null"}', {"limit": None}),
        ('{"limit": "5"}', {"limit": 5}),
        ('{"page": "5"}', {"page": 5}),
        ('{"page": null}', {"page": None}),
        ('{"text": null, "count": null}', {}),
        ('{"level": "2"}', {"level": 2}),
        ('{"place": {"x": "1", "next": {"x": "2"}}}', {"place": {"x": 1, "next": {"x": 2}}}),
        ('{"other": "5", "more": [1.5]}', {"other": "5", "more": [1.5]}),
    ],
)
def test_a_value_becomes_what_the_schema_wants_where_nothing_is_lost(arguments: str, read_as: dict[str, Any]) -> None:
    got = given_as(arguments)
    assert got == read_as
    assert [type(value) for value in got.values()] == [type(value) for value in read_as.values()]


@pytest.mark.parametrize(
    ("arguments", "read_as"),
    [
        ({"count": "200", "on": "false", "tags": '["crew"]'}, {"count": 200, "on": False, "tags": ["crew"]}),
        ({"text": "null", "due": "null"}, {"text": "null", "due": None}),
        ({"filter": '{"a": "5"}'}, {"filter": {"a": "5"}}),
        ({"tags": ["a", "b"]}, {"tags": ["a", "b"]}),
        ({"text": "  indented\n"}, {"text": "  indented\n"}),
        ({"other": "5"}, {"other": "5"}),
    ],
)
def test_texts_out_of_markup_become_what_the_schema_wants(arguments: dict[str, str], read_as: dict[str, Any]) -> None:
    assert given_as(arguments, textual=True) == read_as


@pytest.mark.parametrize(
    "arguments",
    [
        '{"count": "007"}',
        '{"count": "3.0"}',
        '{"count": "+3"}',
        '{"count": " 3"}',
        '{"count": 3.5}',
        '{"count": true}',
        '{"ratio": "0x10"}',
        '{"ratio": "1,5"}',
        '{"ratio": 1e999}',
        '{"on": "yes"}',
        '{"text": {"a": 1}}',
        '{"text": true}',
        '{"numbers": "1,2"}',
        '{"mode": "Append"}',
        '{"filter": "a"}',
        "[]",
        "5",
        '"\\"{}\\""',
        '{"text": NaN}',
        '{"text": "a", "text": "b"}',
    ],
)
def test_what_would_need_a_guess_is_refused(arguments: str) -> None:
    assert refusal(arguments)[0] == "bad_arguments"


def test_a_missing_parameter_is_named() -> None:
    reason, detail = refusal("", {**SCHEMA, "required": ["text"]})
    assert reason == "bad_arguments"
    assert "'text' is a required property" in detail


def test_null_for_a_required_parameter_is_not_dropped() -> None:
    assert refusal('{"text": null}', {**SCHEMA, "required": ["text"]})[1].startswith("text: None is not of type")


def test_a_call_that_was_cut_is_refused_even_when_its_arguments_look_whole() -> None:
    assert refusal('{"text": "a"}', complete=False)[0] == "truncated"


def test_a_huge_wrong_value_is_not_repeated_to_the_model() -> None:
    assert len(refusal(json.dumps({"count": "x" * 100_000}))[1]) < 600


@pytest.mark.parametrize(
    "arguments",
    [
        "[" * 500_000,
        '{"a": ' * 100_000,
        '{"a": ' + "9" * 10_000 + "}",
        json.dumps({"a": "x" * 1_000_001}),
        json.dumps({"a": [1] * 60_000}),
        "{'a': " * 100_000,
    ],
)
def test_size_and_depth_are_capped(arguments: str) -> None:
    begin = time.process_time()
    assert refusal(arguments, ANYTHING)[0] == "bad_arguments"
    assert time.process_time() - begin < 2


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}
    assert given_as('{"a": "1"}', schema) == {"a": "1"}


def test_a_remote_reference_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("somebody went to the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    schema = {"type": "object", "properties": {"a": {"$ref": "http://schemas.example.test/a.json"}}}
    assert given_as('{"a": 1}', schema) == {"a": 1}


def test_alternatives_with_references_are_chosen_by_what_fits() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"oneOf": [{"$ref": "#/$defs/number"}, {"type": "array", "items": {"type": "string"}}]}},
        "$defs": {"number": {"type": "integer"}},
    }
    assert given_as('{"a": "5"}', schema) == {"a": 5}
    assert given_as('{"a": ["x"]}', schema) == {"a": ["x"]}


def test_what_is_wrong_with_a_schema_is_told() -> None:
    assert problem(SCHEMA) == ""
    assert problem({"type": "array"}) == "its type is not object"
    assert "is not valid" in problem({"type": "object", "properties": {"a": {"type": "text"}}})
