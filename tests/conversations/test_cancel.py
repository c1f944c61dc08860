from __future__ import annotations

from datetime import timedelta

import pytest
from flask import Flask

from app.conversations import cancel
from tests.conversations.conftest import Time


def test_a_wish_to_stop_is_seen_within_half_a_second(any_app: Flask, time: Time) -> None:
    stopped = cancel.watch(7)
    assert not stopped()
    assert cancel.request(7)
    assert not cancel.request(7)
    time.pass_(seconds=0.3)
    assert stopped()
    assert cancel.requested(7)
    assert not cancel.requested(8)
    assert not cancel.watch(8)()


def test_asking_often_costs_nothing(app: Flask, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(cancel, "requested", lambda id: bool(asked.append(id)))
    stopped = cancel.watch(7)
    for _ in range(1000):
        time.pass_(milliseconds=1)
        stopped()
    assert len(asked) <= 6


def test_a_wish_can_be_withdrawn_and_is_forgotten(any_app: Flask, time: Time) -> None:
    cancel.request(7), cancel.request(8)
    cancel.withdraw(7)
    assert not cancel.requested(7)
    time.pass_(days=1, seconds=1)
    assert cancel.forget_old() == 1
    assert timedelta(0) < cancel.KEPT
