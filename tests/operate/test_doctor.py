"""Examinations side by side, and what `doctor` makes of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from flask import Flask

from app import config as configuration
from app import create_app
from app.accounts import instances
from app.infra import jobs
from app.infra.i18n import say
from app.operate import doctor, sidebyside
from app.operate.health import Check
from app.operate.sidebyside import Part
from tests.conftest import SECRET_KEY
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault


def fine(name: str) -> Check:
    return Check(name, True, say("The database answers."))


def test_parts_are_told_in_their_order_and_as_soon_as_they_come(app: Flask) -> None:
    over = threading.Event()

    def slow() -> Iterator[Check]:
        yield fine("first")
        over.wait(10)
        yield fine("second")

    found = sidebyside.examine([Part("slow", slow), Part("quick", lambda: [fine("third")])])
    assert next(found).name == "first"
    over.set()
    assert [check.name for check in found] == ["second", "third"]


def test_a_part_that_hangs_is_said_to_hang_and_the_others_are_not_lost(app: Flask) -> None:
    over = threading.Event()

    def hangs() -> Iterator[Check]:
        over.wait(30)
        yield fine("never")

    began = time.monotonic()
    parts = [Part("hangs", hangs), Part("quick", lambda: [fine("quick")])]
    found = {check.name: check for check in sidebyside.examine(parts, seconds=0.3)}
    over.set()
    assert time.monotonic() - began < 5
    assert (found["hangs"].level, found["quick"].level) == ("bad", "ok")


def test_a_part_that_breaks_is_told_and_the_others_go_on(app: Flask) -> None:
    def breaks() -> Iterator[Check]:
        yield fine("before")
        raise RuntimeError("nobody foresaw this")

    found = list(sidebyside.examine([Part("breaks", breaks), Part("other", lambda: [fine("other")])]))
    assert [(check.name, check.level) for check in found] == [("before", "ok"), ("breaks", "bad"), ("other", "ok")]
    assert "nobody foresaw this" not in str(found)


def test_a_broker_that_is_away_is_told(config: configuration.Config) -> None:
    values = {"PARLEY_DATA_DIR": str(config.data_dir), "PARLEY_SECRET_KEY": SECRET_KEY}
    app = create_app(configuration.load(values | {"PARLEY_BROKER_URL": "redis://127.0.0.1:9/0"}))
    with app.app_context():
        check = doctor.broker()
    assert (check.level, "PARLEY_BROKER_URL" in str(check.remedy)) == ("bad", True)


def test_many_servers_that_hang_take_no_longer_than_one(
    app: Flask, config: configuration.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.tick("jobs.sweep")
    monkeypatch.setattr(sidebyside.examine, "__kwdefaults__", {"seconds": 2.0})
    monkeypatch.setattr("app.operate.migrations.revisions", lambda _: type("R", (), {"pending": False, "head": "x"}))
    with Nextcloud("s" * 64) as server, server.failing(Fault.late(20)):
        for number in range(6):
            instances.add(f"cloud{number}", server.url)
        began = time.monotonic()
        found = list(doctor.examine(config))
        assert time.monotonic() - began < 10
    assert [check.name for check in found if not check.ok] == [f"nextcloud cloud{number}" for number in range(6)]
