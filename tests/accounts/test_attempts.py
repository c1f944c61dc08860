"""Guessers are slowed down, and nobody is locked out for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.accounts import attempts
from app.accounts.attempts import Subject
from app.infra import clock
from app.infra.errors import TooMany

Move = Callable[[float], None]


@pytest.fixture
def later(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Move:
    moment = [clock.now()]
    monkeypatch.setattr(clock, "now", lambda: moment[0])

    def move(seconds: float) -> None:
        moment[0] += timedelta(seconds=seconds)

    return move


def by(uid: str = "ada", address: str | None = "192.0.2.1", browser: str | None = None) -> list[Subject]:
    return attempts.subjects(1, uid, address=address, browser=browser)


def tries(counted: Sequence[Subject], most: int) -> int:
    """How many attempts in a row are let through."""
    for done in range(most):
        try:
            attempts.begin(counted)
        except TooMany:
            return done
    return most


def test_a_few_slips_cost_nothing_and_then_each_costs_twice_as_much(later: Move) -> None:
    assert tries(by(), 20) == 5
    waits = []
    for _ in range(12):
        with pytest.raises(TooMany) as caught:
            attempts.begin(by())
        waits.append(caught.value.retry_after)
        later(caught.value.retry_after + 0.001)
        attempts.begin(by())
    assert [round(wait) for wait in waits[:6]] == [1, 2, 4, 8, 16, 32]
    assert max(waits) <= 300


def test_the_sentence_names_the_waiting_time(later: Move) -> None:
    tries(by(), 9)
    later(0.2)
    with pytest.raises(TooMany, match="Wait 1 s"):
        attempts.begin(by())


def test_asking_during_the_wait_does_not_make_it_longer(later: Move) -> None:
    tries(by(), 9)
    for _ in range(50):
        with pytest.raises(TooMany):
            attempts.begin(by())
    later(1.01)
    attempts.begin(by())


def test_one_name_is_slowed_from_many_addresses(later: Move) -> None:
    let_through = sum(tries(by(address=f"192.0.2.{host}"), 1) for host in range(1, 100))
    assert let_through == 5


def test_one_address_is_slowed_over_many_names(later: Move) -> None:
    let_through = sum(tries(by(uid=f"name{number}"), 1) for number in range(100))
    assert let_through == 20


def test_an_ipv6_customer_is_one_address(later: Move) -> None:
    let_through = sum(tries(by(uid=f"n{host}", address=f"2001:db8:1:2::{host:x}"), 1) for host in range(100))
    assert let_through == 20
    assert tries(by(uid="else", address="2001:db8:1:3::1"), 1) == 1
    assert by(address="::ffff:192.0.2.1")[1].key == by(address="192.0.2.1")[1].key


def test_an_address_that_nobody_knows_is_counted_too(later: Move) -> None:
    assert by(address=None)[1].key == by(address="nonsense")[1].key == "address:unknown"


def test_a_name_can_not_be_abused_to_keep_its_owner_out_of_a_known_browser(later: Move) -> None:
    tries(by(), 9)
    assert tries(by(browser="mark"), 1) == 1
    assert tries(by(browser="mark"), 20) == 4


def test_success_starts_a_name_anew_but_gives_an_address_only_this_one_back(later: Move) -> None:
    for number in range(19):
        attempts.begin(by(uid=f"guess{number}"))
    attempts.begin(by(uid="mallory"))
    attempts.succeeded(by(uid="mallory"))
    assert tries(by(uid="guess-a"), 1) == 1
    assert tries(by(uid="guess-b"), 1) == 0


def test_a_quiet_day_forgets_everything(later: Move) -> None:
    tries(by(), 9)
    later(86_401)
    assert tries(by(), 20) == 5
    later(86_401)
    assert attempts.forget(before=clock.now() - attempts.FORGET_AFTER) == 2


def test_the_same_uid_of_another_instance_is_counted_apart(later: Move) -> None:
    tries(by(), 9)
    assert tries(attempts.subjects(2, "ada", address="198.51.100.1", browser=None), 1) == 1


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=300), st.text(max_size=60) | st.none(), st.text(max_size=300) | st.none())
def test_any_name_address_and_mark_fit_the_table(
    app: Flask, uid: str, address: str | None, browser: str | None
) -> None:
    for subject in attempts.subjects(None, uid, address=address, browser=browser):
        assert 0 < len(subject.key) <= 255
