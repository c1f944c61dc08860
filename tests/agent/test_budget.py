from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent import budget
from app.agent.budget import ContextTooLong, estimate, fit
from app.llm.base import Message, ToolCall, ToolSchema

SYSTEM = Message("system", "s" * 350)
NEWEST = Message("user", "n" * 350)
TOOL = ToolSchema("search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})


def exchange(number: int, size: int = 35) -> list[Message]:
    return [Message("user", f"{number}" * size), Message("assistant", f"{number}" * size)]


HISTORY = [message for number in range(5) for message in exchange(number)]


def test_tokens_are_estimated_from_characters_and_tools_count() -> None:
    assert estimate([Message("user", "x" * 35)]) == 14
    assert estimate([Message("user", "x" * 36)]) == 15
    assert estimate([], [TOOL]) > 25
    call = ToolCall("c1", "search", {"query": "x" * 350})
    assert estimate([Message("assistant", "", (call,))]) > 100
    picture = ({"type": "text", "text": "x" * 35}, {"type": "image_url", "image_url": {"url": "data:..."}})
    assert estimate([Message("user", picture)]) == 14 + budget.TOKENS_PER_PICTURE


def test_what_fits_is_kept_in_its_order() -> None:
    assert fit(SYSTEM, HISTORY, NEWEST, [], budget=10_000) == (SYSTEM, *HISTORY, NEWEST)


def test_the_oldest_exchanges_go_first_and_go_whole() -> None:
    fixed = estimate([SYSTEM, NEWEST])
    one = estimate(exchange(0))
    assert fit(SYSTEM, HISTORY, NEWEST, [], budget=fixed + 2 * one) == (SYSTEM, *HISTORY[-4:], NEWEST)
    assert fit(SYSTEM, HISTORY, NEWEST, [], budget=fixed + 2 * one - 1) == (SYSTEM, *HISTORY[-2:], NEWEST)


def test_the_schemas_of_tools_take_from_the_history() -> None:
    limit = estimate([SYSTEM, NEWEST]) + estimate(HISTORY)
    assert len(fit(SYSTEM, HISTORY, NEWEST, [], budget=limit)) == 12
    assert len(fit(SYSTEM, HISTORY, NEWEST, [TOOL], budget=limit)) < 12


def test_the_newest_message_is_always_in() -> None:
    long = Message("user", "n" * 32_000)
    assert fit(SYSTEM, HISTORY, long, [], budget=1000) == (SYSTEM, long)


def test_a_message_that_the_model_can_not_take_is_told_with_numbers() -> None:
    long = Message("user", "n" * 32_000)
    with pytest.raises(ContextTooLong) as refused:
        fit(SYSTEM, HISTORY, long, [], budget=8000, window=4096)
    assert "about 9251 tokens" in str(refused.value.sentence)
    assert "4096" in str(refused.value.sentence)
    with pytest.raises(ContextTooLong):
        fit(SYSTEM, HISTORY, Message("user", "n" * 1_000_000), [], budget=8000)


def test_the_window_of_the_model_bounds_the_budget() -> None:
    kept = fit(SYSTEM, HISTORY * 100, NEWEST, [], budget=100_000, window=4096)
    assert estimate(kept) <= 4096 - budget.ANSWER_TOKENS / 2
    assert len(kept) > 12


messages = st.builds(Message, st.sampled_from(["user", "assistant"]), st.text(max_size=60))


@given(st.lists(messages, max_size=20), messages, st.integers(0, 600))
def test_whatever_is_dropped_the_end_of_the_conversation_stays(
    history: list[Message], newest: Message, limit: int
) -> None:
    kept = fit(SYSTEM, history, newest, [], budget=limit)
    assert kept[0] == SYSTEM
    assert kept[-1] == newest
    middle = list(kept[1:-1])
    assert middle == history[len(history) - len(middle) :]
    assert estimate(kept) <= max(limit, estimate([SYSTEM, newest]))
