"""A real server lets turns wait: a changed limit counts by itself, and kill -9 loses nobody who waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from app import create_app
from app.infra.db import db, reading
from app.operate import migrations
from app.rooms.limits.models import TurnSlot
from app.settings import store
from tests.conftest import Sent
from tests.fakes.house import House, built
from tests.fakes.running import RUN, Running

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path / "var") as made:
        made.data_dir.mkdir()
        migrations.prepare(made.config)
        yield made


@pytest.fixture
def house(running: Running) -> Iterator[House]:
    sent = Sent()
    app = create_app(running.config, sender=sent)
    with app.app_context():
        with built(app, sent, client=running) as made:
            made.bot("atlas")
            store.update({"turns_per_person_minute": 1, "heard_reaction": "off"})
            yield made
        db.session.remove()
        db.engine.dispose()


def reasons(house: House, wanted: list[str], *, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (found := [row.reason for row in house.deliveries()]) != wanted:
        assert time.monotonic() < until, found
        time.sleep(0.05)


def test_a_limit_that_is_switched_off_frees_those_who_wait_and_a_kill_loses_nobody(
    house: House, running: Running
) -> None:
    running.start(RUN)
    for _ in range(3):
        assert house.hear("@atlas hello").status_code == 200
    reasons(house, ["answered", "limit_wait", "limit_wait"], seconds=30)
    running.kill()
    running.start(RUN)
    store.set("turns_per_person_minute", 0)
    begun = time.monotonic()
    reasons(house, ["answered"] * 3, seconds=60)
    # Their own time would have been a minute and two.
    assert time.monotonic() - begun < 45
    assert sorted(house.talk.texts.count(text) for text in set(house.talk.texts)) == [1, 3]
    with reading() as session:
        assert session.scalars(select(TurnSlot.state)).all() == ["begun"] * 3
