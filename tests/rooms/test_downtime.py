"""The server is away while people write, and starts again: what they wrote is answered once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app import create_app
from app.accounts import serviceuser
from app.infra.db import db
from app.operate import migrations
from tests.conftest import Sent
from tests.fakes import processes, services
from tests.fakes.house import ROOM, House, built
from tests.fakes.nextcloud import Nextcloud
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
    with furnished(running) as made:
        yield made


@contextmanager
def furnished(running: Running) -> Iterator[House]:
    """A house whose server is a process, and whose room the service user sees."""
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


@dataclass
class WebOnly(Running):
    """A server without workers; those are processes of their own, on the same broker and data."""

    broker: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PARLEY_BROKER_URL": self.broker}


def server(house: House) -> Nextcloud:
    assert isinstance(house.talk, Nextcloud)
    return house.talk


def until(condition: Callable[[], object], *, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def written(house: House, text: str) -> int:
    """What mira writes into the room, whoever is told of it; gives the message's number."""
    return server(house).say(ROOM, "users/mira", text)


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
    first = written(house, "@atlas hello")
    assert house.hear("@atlas hello", id=first).status_code == 200
    until(lambda: replies(house) == [first])
    end(running)
    missed = written(house, "@atlas which berth is free?")
    assert house.hear("@atlas which berth is free?", id=missed).status_code == 0
    running.start()
    until(lambda: replies(house) == [first, missed])
    assert [row.kind for row in house.settled()] == ["message", "recovered"]
    end(running)
    running.start()
    assert house.hear("@atlas which berth is free?", id=missed).status_code == 200
    last = written(house, "@atlas and now?")
    assert house.hear("@atlas and now?", id=last).status_code == 200
    until(lambda: len(replies(house)) == 3)
    house.settled()
    assert replies(house) == [first, missed, last]


@pytest.mark.services
def test_only_the_web_process_was_away_and_the_workers_read_what_it_missed(tmp_path: Path) -> None:
    with services.broker("redis") as url, WebOnly(tmp_path / "var", broker=url) as running:
        running.data_dir.mkdir()
        migrations.prepare(running.config)
        with (
            furnished(running) as house,
            processes.manage(running.data_dir, "worker", values=running.environment),
        ):
            running.start([*RUN, "--no-worker"])
            first = written(house, "@atlas hello")
            assert house.hear("@atlas hello", id=first).status_code == 200
            until(lambda: replies(house) == [first])
            running.kill()
            missed = written(house, "@atlas which berth is free?")
            running.start([*RUN, "--no-worker"])
            until(lambda: replies(house) == [first, missed])
            assert [row.kind for row in house.settled()] == ["message", "recovered"]
