from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, update
from sqlalchemy.exc import OperationalError

from app.infra import clock
from app.infra.db import reading, transaction
from app.llm import catalog
from app.llm.base import ErrorClass
from app.llm.limits import buckets
from app.llm.limits.buckets import SECOND, SLICES, WINDOWS
from app.llm.models import ModelRate
from app.settings import endpoints, store
from tests.fakes.model_server import ModelServer

NOON = datetime(2026, 7, 25, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MOMENTS = st.lists(st.integers(0, 3 * SECOND), max_size=60)
LIMITS = st.dictionaries(st.sampled_from(sorted(WINDOWS)), st.integers(1, 6), min_size=1)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock to so many seconds after noon."""

    def move(seconds: float) -> None:
        monkeypatch.setattr(clock, "now", lambda: NOON + timedelta(seconds=seconds))

    move(0)
    return move


def taken(limits: dict[str, int], times: int = 1, *, endpoint: str = "primary") -> list[float]:
    return [buckets.take(endpoint, "m", limits) for _ in range(times)]


def simulate(limits: dict[str, int], moments: list[int]) -> Iterator[int]:
    """The moments at which a call was let through."""
    takes: Any = {}
    for now in moments:
        if buckets.waiting(takes, limits, now) == 0:
            takes = buckets.counted(takes, limits, now)
            yield now


@settings(max_examples=200)
@given(LIMITS, MOMENTS, st.integers(1, 86400))
def test_no_stretch_of_a_window_ever_gets_more_than_its_limit(
    limits: dict[str, int], gaps: list[int], scale: int
) -> None:
    moments = [sum(gaps[:number]) * scale for number in range(len(gaps))]
    calls = list(simulate(limits, moments))
    for window, most in limits.items():
        for begin in calls:
            assert sum(begin <= call < begin + WINDOWS[window] for call in calls) <= most


@settings(max_examples=200)
@given(LIMITS, MOMENTS, st.integers(1, 86400))
def test_after_the_waiting_time_that_is_told_a_call_is_let_through(
    limits: dict[str, int], gaps: list[int], scale: int
) -> None:
    takes: Any = {}
    now = 10**15
    for gap in gaps:
        now += gap * scale
        wait = buckets.waiting(takes, limits, now)
        assert 0 <= wait <= max(WINDOWS[window] + WINDOWS[window] // SLICES for window in limits)
        if wait:
            assert buckets.waiting(takes, limits, now + wait - 1) > 0
            now += wait
        assert buckets.waiting(takes, limits, now) == 0
        takes = buckets.counted(takes, limits, now)


@settings(max_examples=100)
@given(LIMITS, MOMENTS, st.integers(1, 86400))
def test_every_bucket_is_full_again_after_its_longest_window(
    limits: dict[str, int], gaps: list[int], scale: int
) -> None:
    takes: Any = {}
    now = 10**15
    for gap in gaps:
        now += gap * scale
        takes = buckets.counted(takes, limits, now)
        assert all(len(slices) <= 2 * SLICES + 1 for slices in takes.values())
    later = now + max(WINDOWS[window] for window in limits) * (SLICES + 1) // SLICES
    assert len(list(simulate_on(takes, limits, later, min(limits.values())))) == min(limits.values())


def simulate_on(takes: Any, limits: dict[str, int], now: int, times: int) -> Iterator[int]:
    for _ in range(times):
        if buckets.waiting(takes, limits, now) == 0:
            takes = buckets.counted(takes, limits, now)
            yield now


@given(st.integers(-2 * 86400 * 365, 2 * 86400 * 365), LIMITS)
def test_a_clock_that_was_wrong_closes_no_bucket_for_long(seconds: int, limits: dict[str, int]) -> None:
    takes: Any = {}
    for _ in range(10):
        takes = buckets.counted(takes, limits, 10**15 + seconds * SECOND)
    wait = buckets.waiting(takes, limits, 10**15)
    assert wait <= 2 * max(WINDOWS[window] + WINDOWS[window] // SLICES for window in limits)


@pytest.mark.parametrize(("window", "seconds"), [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400)])
def test_each_window_recovers_by_itself(app: Flask, at: Callable[[float], None], window: str, seconds: float) -> None:
    assert taken({window: 2}, 2) == [0.0, 0.0]
    (wait,) = taken({window: 2})
    assert seconds <= wait <= seconds * 1.01
    at(seconds - 0.001)
    assert taken({window: 2})[0] > 0
    at(wait)
    assert taken({window: 2}, 3)[:2] == [0.0, 0.0]


def test_a_call_that_one_window_refuses_is_counted_in_none(app: Flask, at: Callable[[float], None]) -> None:
    limits = {"second": 1, "minute": 2}
    assert taken(limits) == [0.0]
    assert all(wait > 0 for wait in taken(limits, 5))
    at(2)
    assert taken(limits) == [0.0]
    at(4)
    assert 55 < taken(limits)[0] < 60


def test_endpoints_have_buckets_of_their_own(app: Flask, at: Callable[[float], None]) -> None:
    assert taken({"day": 1}) == [0.0]
    assert taken({"day": 1}, endpoint="secondary") == [0.0]
    assert taken({"day": 1}, endpoint="secondary")[0] > 0


def test_all_models_of_an_endpoint_share_its_bucket(app: Flask, at: Callable[[float], None]) -> None:
    assert buckets.take("primary", "a", {"day": 1}) == 0
    assert buckets.take("primary", "b", {"day": 1}) > 0


def test_nothing_is_counted_or_written_without_limits(app: Flask) -> None:
    assert taken({}, 100) == [0.0] * 100
    with reading() as session:
        assert session.scalar(select(func.count(ModelRate.id))) == 0


def test_asking_for_the_time_counts_nothing(app: Flask, at: Callable[[float], None]) -> None:
    assert [buckets.due_in("primary", "m", {"day": 1}) for _ in range(3)] == [0.0] * 3
    taken({"day": 1})
    assert buckets.due_in("primary", "m", {"day": 1}) > 86000


def test_a_limit_that_was_raised_counts_what_was_used(app: Flask, at: Callable[[float], None]) -> None:
    taken({"minute": 2}, 3)
    assert taken({"minute": 3}, 2)[0] == 0.0
    assert taken({"minute": 3})[0] > 0


def test_a_limit_that_was_lowered_counts_what_was_used(app: Flask, at: Callable[[float], None]) -> None:
    taken({"minute": 5}, 4)
    (wait,) = taken({"minute": 2})
    assert 60 <= wait <= 60.6
    at(wait)
    assert taken({"minute": 2}, 3)[:2] == [0.0, 0.0]


def test_a_window_that_is_new_counts_from_now_on_and_one_that_is_gone_hinders_nobody(
    app: Flask, at: Callable[[float], None]
) -> None:
    taken({"minute": 1})
    assert taken({"hour": 1}) == [0.0]
    assert taken({"hour": 1})[0] > 3000
    assert taken({"second": 100}) == [0.0]
    assert taken({}) == [0.0]


@pytest.mark.parametrize("jump", [-7200.0, -90.0, 90.0, 7200.0])
@pytest.mark.parametrize("window", sorted(WINDOWS))
def test_after_a_jump_of_the_clock_a_bucket_is_open_again_in_time(
    app: Flask, at: Callable[[float], None], window: str, jump: float
) -> None:
    seconds = WINDOWS[window] / SECOND
    taken({window: 1})
    at(jump)
    (wait,) = taken({window: 1})
    assert wait <= 2 * (seconds * 1.01)
    at(jump + wait)
    assert taken({window: 1})[0] == 0.0 or wait == 0.0


def test_those_who_wait_before_count_too(app: Flask, at: Callable[[float], None]) -> None:
    limits = {"minute": 2}
    assert [buckets.due_in("primary", "m", limits, ahead=ahead) for ahead in (0, 1)] == [0.0, 0.0]
    assert buckets.due_in("primary", "m", limits, ahead=2) == pytest.approx(60, abs=0.7)
    taken(limits, 2)
    told = [buckets.due_in("primary", "m", limits, ahead=ahead) for ahead in range(4)]
    assert told == pytest.approx([60, 60, 120, 120], abs=1.5)
    assert buckets.due_in("primary", "m", {}, ahead=1000) == 0.0
    assert buckets.due_in("primary", "m", {"second": 1}, ahead=10**9) < 600


@settings(max_examples=50)
@given(LIMITS, st.integers(0, 30), st.integers(0, 20))
def test_the_time_behind_others_is_right(limits: dict[str, int], before: int, ahead: int) -> None:
    takes: Any = {}
    now = 10**15
    for _ in range(min(before, *limits.values())):
        takes = buckets.counted(takes, limits, now)
    told = now + buckets._behind(takes, limits, now, ahead=ahead)
    moment = now
    for _ in range(ahead):
        moment += buckets.waiting(takes, limits, moment)
        takes = buckets.counted(takes, limits, moment)
    assert moment <= told
    assert buckets.waiting(takes, limits, told) == 0


def test_nobody_looks_for_limits_where_none_was_ever_reached(app: Flask, at: Callable[[float], None]) -> None:
    assert not buckets.in_use()
    buckets.heed("primary", "m", {"x-ratelimit-remaining-requests": "5"})
    assert not buckets.in_use()
    taken({"minute": 1})
    assert buckets.in_use()


def test_a_refusal_that_names_a_time_keeps_everybody_off_the_model(app: Flask, at: Callable[[float], None]) -> None:
    buckets.heed("primary", "m", {}, named=40.0, refused=True)
    assert (buckets.due_in("primary", "m", {}), buckets.due_in("primary", "other", {})) == (40.0, 0.0)
    # A server that is down for a moment has not used up anything.
    buckets.heed("primary", "other", {}, named=40.0)
    assert buckets.due_in("primary", "other", {}) == 0.0


def test_a_test_of_its_endpoint_opens_a_model_again_whose_server_asked_for_a_pause(
    app: Flask, model_server: ModelServer
) -> None:
    endpoints.save("primary", url=model_server.url, model="case-model")
    for name in ("primary", "secondary"):
        buckets.heed(name, "case-model", {}, named=600.0, refused=True)
    catalog.test("primary")
    assert buckets.due_in("primary", "case-model", {}) == 0
    assert buckets.due_in("secondary", "case-model", {}) > 500


def test_a_list_of_models_is_no_call(app: Flask, model_server: ModelServer) -> None:
    endpoints.save("primary", url=model_server.url, model="case-model")
    store.set("rate_limits", {"primary": {"day": 1}})
    assert catalog.test("primary").ok
    assert taken({"day": 1}) == [0.0]


def test_a_model_whose_server_has_nothing_left_is_not_asked_until_it_has(
    app: Flask, at: Callable[[float], None]
) -> None:
    buckets.heed("primary", "m", {"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "30s"})
    assert buckets.take("primary", "m", {}) == 30
    assert buckets.take("primary", "m", {"minute": 5}) == 30
    assert buckets.take("primary", "other", {}) == 0
    assert buckets.take("secondary", "m", {}) == 0
    at(10)
    buckets.heed("primary", "m", {"ratelimit-remaining": "0", "ratelimit-reset": "5"})
    assert buckets.due_in("primary", "m", {}) == 20
    at(30)
    assert buckets.take("primary", "m", {"minute": 5}) == 0


def test_a_server_can_not_be_abused_to_close_a_model_for_ever(app: Flask, at: Callable[[float], None]) -> None:
    buckets.heed("primary", "m", {"ratelimit-remaining": "0", "ratelimit-reset": "999999999"})
    assert buckets.due_in("primary", "m", {}) == 3600
    with transaction() as session:
        session.execute(update(ModelRate).values(blocked_until=NOON + 900 * DAY))
    assert buckets.due_in("primary", "m", {}) == 3600


def test_pauses_of_models_that_nobody_asks_any_more_are_forgotten(app: Flask, at: Callable[[float], None]) -> None:
    for number in range(5):
        buckets.heed("primary", f"m{number}", {"ratelimit-remaining": "0", "ratelimit-reset": "5"})
    at(2 * 86400)
    buckets.heed("primary", "new", {"ratelimit-remaining": "0", "ratelimit-reset": "5"})
    with reading() as session:
        assert list(session.scalars(select(ModelRate.model))) == ["new"]


def test_without_limits_a_database_that_is_away_hinders_no_call(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise OperationalError("select", {}, Exception("away"))

    monkeypatch.setattr(buckets, "reading", away)
    monkeypatch.setattr(buckets, "transaction", away)
    assert not buckets.in_use()
    buckets.heed("primary", "m", {"ratelimit-remaining": "0", "ratelimit-reset": "5"})
    assert taken({}) == [0.0]
    with pytest.raises(OperationalError):
        taken({"minute": 1})


def test_many_that_ask_at_once_get_exactly_what_there_is(any_app: Flask) -> None:
    got: list[float] = []

    def ask() -> None:
        with any_app.app_context():
            for _ in range(5):
                while (wait := buckets.take("primary", "m", {"hour": 20, "day": 1000})) == buckets.LONGEST_TRY_SECONDS:
                    clock.sleep(wait)
                got.append(wait)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(got) == 40
    assert got.count(0.0) == 20
    with reading() as session:
        row = session.scalars(select(ModelRate)).one()
    assert {window: sum(calls for _, calls in slices) for window, slices in row.takes.items()} == {
        "hour": 20,
        "day": 20,
    }


def test_a_limit_holds_on_every_database(any_app: Flask, at: Callable[[float], None]) -> None:
    assert taken({"minute": 2}, 2) == [0.0, 0.0]
    assert 60 <= taken({"minute": 2})[0] <= 60.6
    buckets.heed("primary", "m", {"ratelimit-remaining": "0", "ratelimit-reset": "90"})
    assert taken({"minute": 2}) == [90.0]
    at(91)
    assert taken({"minute": 2}) == [0.0]


@pytest.mark.parametrize(
    ("setting", "limits"),
    [
        ({}, {}),
        ({"*": {"minute": 3}}, {"minute": 3}),
        ({"*": {"minute": 3}, "primary": {"day": 5}}, {"day": 5}),
        ({"*": {"minute": 3}, "primary": {}}, {}),
        ({"secondary": {"minute": 3}}, {}),
    ],
)
def test_an_endpoint_has_its_own_limits_or_the_general_ones(setting: Any, limits: Any) -> None:
    assert buckets.limits_of("primary", setting) == limits


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 second"),
        (1.2, "2 seconds"),
        (59.4, "60 seconds"),
        (119, "119 seconds"),
        (121, "3 minutes"),
        (7300, "3 hours"),
    ],
)
def test_the_sentence_names_the_waiting_time(seconds: float, text: str) -> None:
    error = buckets.refused(seconds)
    assert (error.error_class, error.retry_after, error.permanent) == (ErrorClass.RATE_LIMIT, seconds, False)
    assert str(error.sentence).endswith(f"again in {text}.")
