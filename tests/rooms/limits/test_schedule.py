from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from app.rooms.limits.schedule import MINUTE, next_start

NOON = datetime(2026, 7, 25, 12, tzinfo=UTC)
MOST = st.integers(1, 5)
GAPS = st.lists(st.integers(0, 40), max_size=40)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def lately(starts: list[datetime], now: datetime) -> list[datetime]:
    return [start for start in starts if start > now - MINUTE]


def test_a_turn_begins_at_once_while_there_are_places() -> None:
    assert next_start([], 1, now=NOON) == NOON
    assert next_start([after(-30)] * 2, 3, now=NOON) == NOON


def test_a_turn_begins_when_the_oldest_of_the_minute_no_longer_counts() -> None:
    assert next_start([after(-10), after(-50)], 2, now=NOON) == after(10)


def test_whoever_stands_behind_others_begins_after_them() -> None:
    starts = [after(-50), after(-10)]
    assert [next_start(starts, 2, now=NOON, ahead=ahead) for ahead in range(5)] == [
        *(after(10), after(50), after(70), after(110), after(130)),
    ]


@settings(max_examples=300)
@given(GAPS, MOST)
def test_no_minute_ever_has_more_turns_than_it_may(gaps: list[int], most: int) -> None:
    starts: list[datetime] = []
    for number in range(len(gaps)):
        asked = after(sum(gaps[: number + 1]))
        starts.append(next_start(starts, most, now=asked))
    for begin in starts:
        assert sum(begin <= start < begin + MINUTE for start in starts) <= most


@settings(max_examples=300)
@given(GAPS, MOST, st.integers(0, 12))
def test_the_time_that_is_told_is_right_and_never_too_long(gaps: list[int], most: int, ahead: int) -> None:
    starts: list[datetime] = []
    now = NOON
    for gap in gaps:
        now += timedelta(seconds=gap)
        if next_start(lately(starts, now), most, now=now) == now:
            starts.append(now)
    told = next_start(lately(starts, now), most, now=now, ahead=ahead)
    for _ in range(ahead):
        begins = next_start(lately(starts, now), most, now=now)
        assert begins <= told
        starts.append(begins)
        now = begins
    assert next_start(lately(starts, now), most, now=now) == told
    assert next_start(lately(starts, told), most, now=told) == told
