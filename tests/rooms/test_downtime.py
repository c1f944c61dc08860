"""The server is away while people write, and starts again: what they wrote is answered once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app import create_app
from app.accounts import serviceuser
from app.infra.db import db
from app.operate import migrations
from tests.conftest import Sent
from tests.fakes.house import ROOM, House, built
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.running import Running

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
        with built(app, sent, client=running, server=Nextcloud) as made:
            made.bot("atlas")
            server(made).user("parley", "app-password")
            server(made).user("mira")
            server(made).conversation(ROOM, users=["mira", "parley"])
            serviceuser.give(made.instance.id, "parley", "app-password")
            yield made
        db.session.remove()
        db.engine.dispose()


def server(house: House) -> Nextcloud:
    assert isinstance(house.talk, Nextcloud)
    return house.talk


def until(condition: Callable[[], object], *, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def replies(house: House) -> list[int]:
    return [post.reply_to for post in house.talk.posts]


def stop(running: Running) -> None:
    """Ctrl-C, and its end."""
    process = running.process
    assert process is not None
    process.send_signal(signal.SIGINT)
    process.wait(20)


@pytest.mark.parametrize("end", [Running.kill, stop])
def test_what_was_written_while_the_server_was_away_is_answered_once(
    house: House, running: Running, end: Callable[[Running], None]
) -> None:
    running.start()
    first = server(house).say(ROOM, "users/mira", "@atlas hello")
    assert house.hear("@atlas hello", id=first).status_code == 200
    until(lambda: replies(house) == [first])
    end(running)
    missed = server(house).say(ROOM, "users/mira", "@atlas which berth is free?")
    assert house.hear("@atlas which berth is free?", id=missed).status_code == 0
    running.start()
    until(lambda: replies(house) == [first, missed])
    assert [row.kind for row in house.settled()] == ["message", "recovered"]
    end(running)
    running.start()
    assert house.hear("@atlas which berth is free?", id=missed).status_code == 200
    last = server(house).say(ROOM, "users/mira", "@atlas and now?")
    assert house.hear("@atlas and now?", id=last).status_code == 200
    until(lambda: len(replies(house)) == 3)
    house.settled()
    assert replies(house) == [first, missed, last]
