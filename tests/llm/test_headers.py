from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.infra import clock
from app.llm import failures
from app.llm.base import ErrorClass
from app.llm.limits import headers

NOON = datetime(2026, 7, 25, 12, tzinfo=UTC)
UNIX = int(NOON.timestamp())


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)


@pytest.mark.parametrize(
    ("given_", "seconds"),
    [
        ({}, 0),
        ({"content-type": "application/json"}, 0),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "30s"}, 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s"}, 90),
        ({"X-RateLimit-Remaining-Tokens": "0", "X-RateLimit-Reset-Tokens": "7.66s"}, 7.66),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-minute": "0"}, 60),
        ({"x-ratelimit-remaining-second": "0"}, 1),
        ({"x-ratelimit-remaining-hour": "0", "ratelimit-reset": "25"}, 25),
        ({"x-ratelimit-remaining-minute": "0", "ratelimit-reset": "2500"}, 60),
        ({"x-ratelimit-remaining-day": "0"}, 3600),
        ({"x-ratelimit-remaining-month": "0"}, 3600),
        ({"x-ratelimit-remaining-requests-day": "0", "x-ratelimit-reset-requests-day": "33.5"}, 33.5),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(UNIX + 12)}, 12),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str((UNIX + 12) * 1000)}, 12),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(UNIX - 12)}, 0),
        ({"x-ratelimit-remaining": "0"}, 0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "5"}, 5),
        ({"ratelimit-remaining": "0, 0;w=1", "ratelimit-reset": "5;x"}, 5),
        ({"ratelimit": '"default";r=0;t=30'}, 30),
        ({"ratelimit": '"default";r=3;t=30'}, 0),
        ({"ratelimit": "limit=10, remaining=0, reset=30"}, 30),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-07-25T12:00:20Z",
            },
            20,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "Sat, 25 Jul 2026 12:00:20 GMT"}, 20),
        ({"x-ratelimit-remaining": "-1", "x-ratelimit-reset": "3"}, 3),
        ({"x-ratelimit-remaining": "none", "x-ratelimit-reset": "3"}, 0),
        ({"x-ratelimit-limit-minute": "0"}, 0),
        (
            {
                "x-ratelimit-remaining-minute": "0",
                "x-ratelimit-reset-minute": "5",
                "x-ratelimit-remaining-hour": "0",
                "x-ratelimit-reset-hour": "50",
            },
            50,
        ),
    ],
)
def test_how_long_a_server_has_nothing_left(given_: dict[str, str], seconds: float) -> None:
    assert headers.used_up(given_) == pytest.approx(seconds)


NAMES = ["x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit-reset", "ratelimit", "x-ratelimit-remaining-day"]


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["0", "1e9", "9" * 15]) | st.text(max_size=20)))
def test_whatever_a_server_says_the_pause_has_an_end(given_: dict[str, str]) -> None:
    assert 0 <= headers.used_up(given_) <= headers.LONGEST


def test_a_refusal_without_retry_after_waits_for_what_is_used_up() -> None:
    told = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "4s"}
    error = failures.of_answer(429, b"{}", told)
    assert (error.error_class, error.retry_after) == (ErrorClass.RATE_LIMIT, 4)
    assert failures.of_answer(429, b"{}", {**told, "retry-after": "9"}).retry_after == 9
