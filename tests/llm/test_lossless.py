from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm.toolcalls.lossless import Number, Unreadable, decode, loads, plain, write

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(words, values, max_size=5)


@given(values)
def test_json_is_read_as_json(value: Any) -> None:
    assert plain(loads(json.dumps(value))) == value
    assert plain(loads(json.dumps(value, ensure_ascii=False))) == value


@given(values)
def test_a_literal_of_python_is_read_as_the_same_value(value: Any) -> None:
    # repr writes control characters as \x.. and astral ones as they are
    assert plain(loads(repr(value))) == value


@given(values)
def test_what_is_read_is_written_without_loss(value: Any) -> None:
    text = json.dumps(value)
    assert json.loads(write(loads(text))) == json.loads(text)


@settings(max_examples=200)
@given(objects, st.integers(0, 10_000), st.booleans())
def test_a_text_that_ends_early_is_never_read(value: dict[str, Any], place: int, python: bool) -> None:
    text = repr(value) if python else json.dumps(value)
    beginning = text[: place % len(text)]
    with pytest.raises(Unreadable) as refused:
        loads(beginning)
    assert refused.value.reason == "ended"


@given(st.text(alphabet="{}[]\"'\\,:truefalsNon0123.eE+- \n\tjson`", max_size=60))
def test_any_text_is_read_or_refused_and_nothing_else_happens(text: str) -> None:
    with contextlib.suppress(Unreadable):
        plain(loads(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'from': '2026-06-01', 'include_private': True, 'labels': ['a,b', 'c}'],}", {"from": "2026-06-01", "include_private": True, "labels": ["a,b", "c}"]}),
        ('{"path": "N.md", "content": "a, ], b,}",}', {"path": "N.md", "content": "a, ], b,}"}),
        ('{"body": "one\ntwo\ttab\x07"}', {"body": "one\ntwo\ttab\x07"}),
        ("{'a': 'it\\'s', 'b': \"say \\'x\\'\"}", {"a": "it's", "b": "say 'x'"}),
        ("{'a': None, 'b': null, 'c': False}", {"a": None, "b": None, "c": False}),
        ("{'a': '\\x41\\u0042\\U0001F600'}", {"a": "AB😀"}),
        ("{'a': '\\ud83d\\ude00'}", {"a": "😀"}),
        ("{'a': '''it's \"long\"\nand more'''}", {"a": "it's \"long\"\nand more"}),
        ('json\n{"a": 1}', {"a": 1}),
        ('json{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": 1}}]', {"a": 1}),
        ("\ufeff {\"a\": 1}\n", {"a": 1}),
        ('{"a": 1, "a": 1}', {"a": 1}),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ],
)  # fmt: skip
def test_spellings_of_models_are_read(text: str, value: Any) -> None:
    assert plain(loads(text)) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ended"),
        ("{", "ended"),
        ('{"a": 1', "ended"),
        ('{"assignee": "kaj", "tags": ["sail"', "ended"),
        ('{"a": "x', "ended"),
        ("{'a': 'x", "ended"),
        ("{'a': 'x\\", "ended"),
        ('{"a": tr', "ended"),
        ('{"a": -', "ended"),
        ('{"a": "\\u12', "ended"),
        ('{"a" 1}', "wrong"),
        ("{a: 1}", "wrong"),
        ('{"a": 1} and more', "wrong"),
        ('{"a": 1}{"b": 2}', "wrong"),
        ('{"a": 1, "a": 2}', "wrong"),
        ('{"a": NaN}', "wrong"),
        ('{"a": -Infinity}', "wrong"),
        ('{"a": 007}', "wrong"),
        ('{"a": 1_000}', "wrong"),
        ('{"a": "\\d"}', "wrong"),
        ('{"a": "\\ud800"}', "wrong"),
        ("{'a': '\\U00110000'}", "wrong"),
        ('{"a": [1,,2]}', "wrong"),
        ("{,}", "wrong"),
        ("hello", "wrong"),
        ('{"a": undefined}', "wrong"),
        ("__import__('os')", "wrong"),
    ],
)
def test_what_can_not_be_read_without_guessing_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Unreadable) as refused:
        loads(text)
    assert refused.value.reason == reason


def test_a_number_keeps_its_spelling_until_somebody_wants_it() -> None:
    assert loads("[1.10, 1E2]") == [Number("1.10"), Number("1E2")]
    assert write(loads('{"a": [1.10, 1E2, -0]}')) == '{"a": [1.10, 1E2, -0]}'


@pytest.mark.parametrize("text", ['{"a": 1e999}', '{"a": ' + "1" * 5000 + "}"])
def test_a_number_that_would_be_lost_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        plain(loads(text))


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 200_000, "[" * 65 + "]" * 65, "['',[" * 200_000])
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        loads(text)
    assert loads("[" * 64 + "]" * 64)


def test_a_value_in_the_middle_of_a_text_is_read_up_to_its_end() -> None:
    assert decode('x {"a": "}"} y', 1) == ({"a": "}"}, 12)


def test_a_megabyte_is_read_in_linear_time() -> None:
    begin = time.process_time()
    loads("{'a': '" + "x" * 1_000_000 + "'}")
    loads("{'a': '" + "\\n" * 500_000 + "'}")
    loads("[" + "'a'," * 250_000 + "]")
    assert time.process_time() - begin < 5
