from __future__ import annotations

from datetime import UTC, datetime

import pytest
from flask import Flask

from app.bots import notices
from app.infra import clock
from tests.bots.conftest import bot


def test_a_person_is_told_once_a_day_for_each_bot(any_app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    atlas, muse = bot(), bot("muse")
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 3, 2, 23, 59, tzinfo=UTC))
    assert notices.first_today(atlas.id, "users/ada")
    assert not notices.first_today(atlas.id, "users/ada")
    assert notices.first_today(muse.id, "users/ada")
    assert notices.first_today(atlas.id, "users/Ada")
    assert notices.first_today(atlas.id, "guests/" + "x" * 300)
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 3, 3, 0, 1, tzinfo=UTC))
    assert notices.first_today(atlas.id, "users/ada")


def test_notices_of_past_days_are_forgotten(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bot()
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 3, 2, tzinfo=UTC))
    notices.first_today(made.id, "users/ada")
    assert notices.forget_old() == 0
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 3, 5, tzinfo=UTC))
    assert notices.forget_old() == 1
