from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.infra import clock
from app.infra.caches.bounded import Bounded


def made(**limits: float) -> Bounded[str, str]:
    given = {"entries": 3, "weight": 10, "seconds": 60.0} | limits
    return Bounded(weigh=len, **given)  # type: ignore[arg-type]


def test_the_oldest_goes_when_there_are_too_many_or_they_weigh_too_much() -> None:
    cache = made()
    for key in "abcd":
        cache.put(key, key)
    assert [cache.get(key) for key in "abcd"] == [None, "b", "c", "d"]
    cache.put("e", "x" * 9)
    assert [cache.get(key) for key in "bcde"] == [None, None, "d", "x" * 9]


def test_what_is_too_heavy_alone_is_not_kept_and_drops_what_it_replaces() -> None:
    cache = made()
    cache.put("a", "small")
    cache.put("a", "x" * 11)
    assert (cache.get("a"), len(cache)) == (None, 0)


def test_time_counts_from_when_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, start = made(), clock.monotonic()
    cache.put("a", "1", asked_at=start - 30)
    monkeypatch.setattr(clock, "monotonic", lambda: start + 29)
    assert cache.get("a") == "1"
    monkeypatch.setattr(clock, "monotonic", lambda: start + 31)
    assert (cache.get("a"), len(cache)) == (None, 0)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12), st.booleans()), max_size=60))
def test_it_never_grows_past_its_limits_and_never_gives_an_older_value(steps: list[tuple[str, int, bool]]) -> None:
    cache, last = made(), {}
    for key, size, drops in steps:
        if drops:
            cache.drop(key)
            last.pop(key, None)
        else:
            cache.put(key, "x" * size)
            last[key] = "x" * size
        assert len(cache) <= 3
        kept = {each: cache.get(each) for each in "abcdef"}
        assert sum(len(value) for value in kept.values() if value is not None) <= 10
        assert all(value is None or value == last.get(each) for each, value in kept.items())
