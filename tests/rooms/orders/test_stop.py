"""Stopping an answer while its model hangs, over the real server with its worker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import create_app
from app.infra.db import db
from app.operate import migrations
from tests.conftest import Sent
from tests.fakes.house import House, built
from tests.fakes.model_server import Reply, chunk, sse
from tests.fakes.running import RUN, Running

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with Running(tmp_path / "var") as running:
        running.data_dir.mkdir()
        migrations.prepare(running.config)
        sent = Sent()
        app = create_app(running.config, sender=sent)
        with app.app_context():
            with built(app, sent, client=running) as made:
                made.bot("atlas")
                running.start(RUN)
                yield made
            db.session.remove()
            db.engine.dispose()


def hanging() -> Iterator[bytes]:
    yield sse([chunk({"content": "I think"})], done=False)
    time.sleep(30)


def waits(condition: object, seconds: float = 15.0) -> float:
    begun = time.monotonic()
    while not condition():  # type: ignore[operator]
        assert time.monotonic() - begun < seconds
        time.sleep(0.02)
    return time.monotonic() - begun


def test_whoever_asked_stops_it_at_once_and_nobody_else_does(house: House) -> None:
    house.model.answer(Reply(headers={"Content-Type": "text/event-stream"}, body=hanging))
    house.hear("@atlas a long question", actor="users/mira")
    waits(lambda: house.model.chats)
    house.hear("@atlas stop", actor="users/eve", name="Eve")
    time.sleep(1.0)
    assert house.deliveries()[0].state == "running"
    house.hear("@atlas stop", actor="users/mira")
    waits(lambda: house.deliveries()[0].reason == "stopped", 5.0)
    house.settled()
    assert [row.reason for row in house.deliveries()] == ["stopped", "command", "command"]
    assert "Stopped." in house.talk.texts


def test_a_moderator_stops_what_somebody_else_asked(house: House) -> None:
    house.model.answer(Reply(headers={"Content-Type": "text/event-stream"}, body=hanging))
    house.hear("@atlas a long question", actor="users/mira")
    waits(lambda: house.model.chats)
    house.hear("@atlas stopp!", actor="users/carol", name="Carol", role="2")
    waits(lambda: house.deliveries()[0].reason == "stopped", 5.0)
