from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.fragments import Fragments

NAMES = ("get_weather", "ping", "search", "search_notes")


def merged(*pieces: Any, names: tuple[str, ...] = NAMES) -> list[tuple[str, str]]:
    fragments = Fragments(names)
    for piece in pieces:
        fragments.add(piece if isinstance(piece, list) else [piece])
    return [(call.name, call.arguments) for call in fragments.calls(ended=True)]  # type: ignore[misc]


def piece(index: Any = None, id: Any = None, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    told = {"index": index, "id": id, "function": function or None}
    return {key: value for key, value in told.items() if value is not None}


A = '{"city":"Umeå"}'
B = '{"city":"Visby"}'


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        pytest.param([piece(0, "a", "ping", "{}")], [("ping", "{}")], id="whole"),
        pytest.param([piece(None, "a", "get_weather", ""), piece(arguments=A)], [("get_weather", A)], id="no index"),
        pytest.param([piece(7, "a", "get_weather"), piece(7, arguments=A)], [("get_weather", A)], id="index from 7"),
        pytest.param(
            [piece(0, "a", "get_weather", A), piece(0, "b", "get_weather", B)],
            [("get_weather", A), ("get_weather", B)],
            id="one index for all",
        ),
        pytest.param(
            [piece(0, None, "get_weather", A), piece(0, None, "get_weather", B)],
            [("get_weather", A), ("get_weather", B)],
            id="one index and no id",
        ),
        pytest.param(
            [piece(0, "a", "ping", "{}"), piece(0, "b", "get_weather", ""), piece(1, None, None, B)],
            [("ping", "{}"), ("get_weather", B)],
            id="the tail has another index than its head",
        ),
        pytest.param(
            [
                piece(0, "a", "get_weather", ""),
                piece(0, "a", "get_weather", A[:5]),
                piece(0, "a", "get_weather", A[5:]),
            ],
            [("get_weather", A)],
            id="everything resent",
        ),
        pytest.param(
            [piece(0, "a", "get_weather", A[:5]), piece(0, "x", "get_weather", A[5:9]), piece(0, "y", None, A[9:])],
            [("get_weather", A)],
            id="a new id with every piece",
        ),
        pytest.param(
            [piece(0, "a", "get_"), piece(0, None, "weather"), piece(0, None, None, A)],
            [("get_weather", A)],
            id="name in pieces",
        ),
        pytest.param(
            [piece(0, "a", "get_"), piece(0, None, "get_weather"), piece(0, None, None, A)],
            [("get_weather", A)],
            id="name grows",
        ),
        pytest.param(
            [piece(None, None, "ping", ""), piece(None, None, "get_weather", A)],
            [("ping", ""), ("get_weather", A)],
            id="neither index nor id",
        ),
        pytest.param(
            [piece(0, "a", "get_weather", "{}"), piece(0, arguments=A)], [("get_weather", A)], id="placeholder"
        ),
        pytest.param([piece(0, "a", "get_weather", A), piece(0, arguments=A)], [("get_weather", A)], id="sent twice"),
        pytest.param(
            [piece(0, "a", "get_weather"), piece(1, "b", "ping"), piece(0, arguments=A), piece(1, arguments="{}")],
            [("get_weather", A), ("ping", "{}")],
            id="interleaved",
        ),
        pytest.param(
            [piece(0, "a", "get_weather", A), piece(1, "a", "get_weather", B)],
            [("get_weather", A), ("get_weather", B)],
            id="one id for all",
        ),
        pytest.param(
            [piece(0, "a", "get_weather", {"city": "Umeå"})], [("get_weather", '{"city": "Umeå"}')], id="object"
        ),
        pytest.param([{"name": "ping", "arguments": "{}"}], [("ping", "{}")], id="legacy function_call"),
        pytest.param([None, 3, "x", [None], {}, {"function": 3}, {"index": True}], [], id="nonsense"),
        pytest.param([piece("0", 5, "ping", None)], [("ping", "")], id="wrong types"),
    ],
)
def test_pieces_become_calls(pieces: list[Any], calls: list[tuple[str, str]]) -> None:
    assert merged(*pieces) == calls


def test_ids_are_there_and_differ() -> None:
    fragments = Fragments(NAMES)
    fragments.add_whole([piece(0, id, "ping", "{}") for id in ("", "same", "same", None, "own")])
    ids = [call.id for call in fragments.calls(ended=True)]
    assert len(set(ids)) == 5
    assert all(ids)
    assert (ids[1], ids[4]) == ("same", "own")


def test_calls_of_a_whole_answer_are_never_joined() -> None:
    fragments = Fragments(NAMES)
    fragments.add_whole(
        [piece(None, None, "ping", None), piece(None, None, "ping", "{"), piece(None, None, "ping", "}")]
    )
    assert [call.arguments for call in fragments.calls(ended=True)] == ["", "{", "}"]


def test_the_last_call_of_an_answer_without_end_is_incomplete() -> None:
    fragments = Fragments(NAMES)
    fragments.add([piece(0, "a", "ping", "{}"), piece(1, "b", "get_weather", '{"ci')])
    assert [call.complete for call in fragments.calls(ended=False)] == [True, False]
    assert [call.complete for call in fragments.calls(ended=True)] == [True, True]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=4)),
    min_size=1,
    max_size=4,
)


@given(CALLS, st.data())
def test_any_cut_of_the_arguments_gives_the_same_calls(calls: list[tuple[str, dict[str, Any]]], data: Any) -> None:
    how = data.draw(st.sampled_from(["index", "ids", "names resent", "one index", "no index"]))
    pieces = []
    for number, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments, ensure_ascii=data.draw(st.booleans()))
        cuts = sorted({0, len(text), *data.draw(st.lists(st.integers(0, len(text)), max_size=8))})
        parts = [text[begin:end] for begin, end in zip(cuts, cuts[1:], strict=False)]
        index = {"one index": 0, "no index": None}.get(how, number)
        for place, part in enumerate(parts):
            again = place == 0 or how in ("ids", "names resent")
            named = place == 0 or how == "names resent"
            pieces.append(piece(index, f"c{number}" if again else None, name if named else None, part))
    together = data.draw(st.integers(1, 3))
    chunks = [pieces[start : start + together] for start in range(0, len(pieces), together)]
    found = [(name, json.loads(text)) for name, text in merged(*chunks)]
    assert found == calls


def test_a_flood_of_pieces_takes_no_time() -> None:
    fragments = Fragments(NAMES)
    for number in range(30_000):
        fragments.add([piece(0, "a", "get_weather", '{"a": "}' if number == 0 else '"}{"')])
        fragments.add([piece(number, None, None, "x")])
    assert fragments.calls(ended=True)
