"""The server is killed with -9 at ten moments of a turn and started again: each mention is answered once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app import create_app
from app.conversations.models import RoomMessage
from app.infra.db import db, reading
from app.operate import migrations
from app.rooms.models import Part
from tests.conftest import Sent
from tests.fakes.house import House, built
from tests.fakes.model_server import Reply, completion, fitting
from tests.fakes.running import RUN, Running
from tests.fakes.talk_server import Fault

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
KILLED = ("-m", "tests.rooms.killed")
LONG = "A line of the harbour log. " * 2000


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
            yield made
        db.session.remove()
        db.engine.dispose()


def settle(condition: Callable[[], Any], *, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def answered_once(house: House, running: Running, *, text: str, state: str = "done", parts: int = 1) -> None:
    """After the restart the mention has its one answer, and the room goes on."""
    running.start(RUN)
    [first] = house.settled()
    assert first.state == state, (first.reason, first.detail)
    assert "".join("".join(house.talk.texts).split()) == "".join(text.split())
    assert len(house.talk.posts) == parts
    assert len({post.reference_id for post in house.talk.posts}) == parts
    assert house.talk.posts[0].reply_to == 1600
    house.model._script["chat"].clear()
    house.model.answer(lambda request: fitting(request, completion("And on.")))
    assert house.hear("@atlas and now?").status_code == 200
    second = house.settled()[-1]
    assert (second.state, second.reason) == ("done", "answered")
    assert house.talk.texts[-1] == "And on."
    with reading() as session:
        mine = select(RoomMessage.role).where(RoomMessage.bot_id == house.bots["atlas"].id)
        remembered = session.scalars(mine.order_by(RoomMessage.id)).all()
    assert remembered == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize(
    ("moment", "calls"),
    [
        ("accepted", 1),
        ("claimed", 1),
        ("before_the_first_model_call", 1),
        ("model_answered", 2),
        ("parts_written", 1),
        ("all_parts_sent", 1),
    ],
)
def test_killed_at_a_moment_of_its_own(house: House, running: Running, moment: str, calls: int) -> None:
    house.model.say("Berth 4 is free.")
    running.start([*KILLED, moment])
    house.hear("@atlas which berth is free?", id=1600)
    running.died()
    answered_once(house, running, text="Berth 4 is free.")
    assert len(house.model.chats) == calls + 1


def test_killed_while_the_model_answers(house: House, running: Running) -> None:
    begun: list[bool] = []

    def answer(request: Any) -> Reply:
        begun.append(True)
        reply = fitting(request, completion("Berth 4 is free."))
        return reply if len(begun) > 1 else Reply(reply.status, reply.headers, reply.body, delay_headers=20)

    house.model.answer(answer)
    running.start()
    house.hear("@atlas which berth is free?", id=1600)
    settle(lambda: begun)
    running.kill()
    answered_once(house, running, text="Berth 4 is free.")


def test_killed_while_a_tool_runs(house: House, running: Running) -> None:
    house.model.call("current_time")
    house.model.call("current_time")
    house.model.say("It is late.")
    running.start([*KILLED, "a_tool_runs"])
    house.hear("@atlas what time is it?", id=1600)
    running.died()
    answered_once(house, running, text="It is late.")


def test_killed_between_the_parts_of_a_long_answer(house: House, running: Running) -> None:
    house.model.say(LONG)
    running.start([*KILLED, "between_parts"])
    house.hear("@atlas dump the log", id=1600)
    running.died()
    assert len(house.talk.posts) == 1
    answered_once(house, running, text=LONG, parts=2)


def test_killed_when_the_message_stands_and_the_reply_was_not_read(house: House, running: Running) -> None:
    house.model.say("Berth 4 is free.")
    house.talk.fail(Fault(delay=20, stores=True, of="message"))
    running.start()
    house.hear("@atlas which berth is free?", id=1600)
    settle(lambda: house.talk.posts)
    running.kill()
    answered_once(house, running, text="Berth 4 is free.", state="unknown")
    with reading() as session:
        assert session.scalars(select(Part.state).order_by(Part.id)).all() == ["unknown", "sent"]


def test_killed_with_many_rooms_at_work(house: House, running: Running) -> None:
    house.model.answer(lambda request: Reply(**vars(fitting(request, completion("ok"))) | {"delay_headers": 0.3}))
    running.start()
    for number in range(12):
        for _ in range(2):
            assert house.hear("@atlas hello", room=f"room{number:04}", actor=f"users/p{number}").status_code == 200
    settle(lambda: len(house.talk.posts) >= 5)
    running.kill()
    running.start()
    rows = house.settled(seconds=60)
    assert {row.state for row in rows} <= {"done", "unknown"}
    lost = [row for row in rows if row.state == "unknown"]
    replies = [(post.room, post.reply_to) for post in house.talk.posts]
    assert len(replies) == len(set(replies))
    assert len(replies) >= 24 - len(lost)
