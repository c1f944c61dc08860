from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.policy import Circles, Deadlines, most_model_calls
from app.agent.turn import Limits
from app.infra import clock


def noticed(calls: list[str], most: int = 3) -> int | None:
    """The place of the first call that is noticed as a repetition."""
    circles = Circles(most)
    return next((place for place, name in enumerate(calls) if circles.closes(name, {})), None)


@pytest.mark.parametrize("cycle", ["a", "ab", "abc", "abcd", "aab", "abac"])
def test_a_cycle_is_noticed_when_it_would_begin_once_more(cycle: str) -> None:
    assert noticed(list(cycle * 6)) == 3 * len(cycle)
    assert noticed(list("xyz" + cycle * 6)) == 3 + 3 * len(cycle)
    assert noticed(list(cycle * 6), most=2) == 2 * len(cycle)


def test_longer_cycles_and_progress_are_left_alone() -> None:
    assert noticed(list("abcde" * 6)) is None
    assert noticed([f"call {number}" for number in range(100)]) is None
    assert noticed(list("aaabbbccc")) is None


def test_arguments_are_compared_whole_and_in_any_order_of_their_keys() -> None:
    circles = Circles(1)
    assert not circles.closes("a", {"x": 1, "y": "z" * 10_000})
    assert not circles.closes("a", {"y": "z" * 10_000 + "!", "x": 1})
    assert circles.closes("a", {"x": 1, "y": "z" * 10_000 + "!"})


def test_a_number_and_a_text_differ() -> None:
    circles = Circles(1)
    assert not circles.closes("a", {"x": 1})
    assert not circles.closes("a", {"x": "1"})


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_what_is_noticed_is_a_cycle(calls: list[str]) -> None:
    place = noticed(calls)
    if place is None:
        return
    tail = calls[: place + 1]
    assert any(tail[-(3 * length + 1) :][length:] == tail[-(3 * length + 1) :][:-length] for length in range(1, 5))


@pytest.mark.parametrize(("asked", "given_calls"), [(0, 1), (1, 1), (24, 24), (50, 50), (1000, 50)])
def test_the_number_of_model_calls_is_bounded(asked: int, given_calls: int) -> None:
    assert most_model_calls(Limits(model_calls=asked)) == given_calls


@pytest.mark.parametrize(
    ("asked", "tools", "answer"), [(10, 8, 10), (100, 80, 100), (300, 240, 300), (900, 840, 900), (5000, 840, 900)]
)
def test_the_end_of_the_time_belongs_to_the_answer(
    monkeypatch: pytest.MonkeyPatch, asked: float, tools: float, answer: float
) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 0.0)
    assert Deadlines.of(Limits(seconds=asked)) == Deadlines(tools, answer)
