"""Servers and workers are killed with -9 at every step of a message and started again: each mention has one outcome.

With a service user it is answered once, whatever the step. Without one nobody can look: a message that was just being
posted is unknown, and stands at most once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app import create_app
from app.accounts import serviceuser
from app.conversations.models import RoomMessage
from app.infra.db import db, reading
from app.operate import migrations
from app.rooms.models import Part
from app.settings import store
from tests.conftest import Sent
from tests.fakes import databases, services
from tests.fakes.house import ROOM, House, built
from tests.fakes.model_server import Reply, completion, fitting
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.running import RUN, Running
from tests.fakes.talk_server import Fault

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
KILLED = ("-m", "tests.rooms.killed")
LONG = "A line of the harbour log. " * 2000
MODES = ("with", "without")
# How often the model is asked in all, when everything dies there.
ONCE = (
    *(
        "arrived",
        "accepted",
        "woken",
        "worker begun",
        "lane taken",
        "claimed",
        "read",
        "noted",
        "not silent",
        "listened",
    ),
    *("addressed", "owed", "allowed", "turn begun", "question remembered", "model asked", "running", "parts written"),
    *(
        "before a claim",
        "part claimed",
        "part posted",
        "outcome noted",
        "post settled",
        "answer over",
        "before the end",
    ),
    *("closed", "before the release", "released"),
)
TWICE = ("model answered", "before parts")
STEPS = [(step, 1) for step in ONCE] + [(step, 2) for step in TWICE]
# Where the message was being posted; whether it stands then.
UNSURE = {"part claimed": False, "part posted": True}
# What is killed in a run that is not long.
USUAL = (
    *("accepted-without", "claimed-with", "model answered-without", "parts written-with", "part posted-with"),
    *("part posted-without", "answer over-without"),
)
LEASE_SECONDS = 8


def chosen(steps: list[tuple[str, int]], *, usual: tuple[str, ...] = USUAL) -> list[Any]:
    """Each step with a service user and without."""
    ids = [(f"{step}-{mode}", step, calls, mode) for step, calls in steps for mode in MODES]
    return [
        pytest.param(step, calls, mode, id=id, marks=() if id in usual else pytest.mark.long)
        for id, step, calls, mode in ids
    ]


BOTH = pytest.mark.parametrize("mode", ["with", pytest.param("without", marks=pytest.mark.long)])


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path / "var") as made:
        made.data_dir.mkdir()
        migrations.prepare(made.config)
        yield made


@pytest.fixture
def house(running: Running) -> Iterator[House]:
    yield from housed(running)


def housed(running: Running) -> Iterator[House]:
    sent = Sent()
    app = create_app(running.config, sender=sent)
    with app.app_context():
        with built(app, sent, client=running, server=Nextcloud) as made:
            made.bot("atlas")
            yield made
        db.session.remove()
        db.engine.dispose()


def seen(house: House, mode: str, *rooms: str) -> None:
    """With a service user every room can be read."""
    cloud = house.talk
    assert isinstance(cloud, Nextcloud)
    if mode == "with":
        cloud.user("parley", "an-app-password")
        for room in rooms or (ROOM,):
            cloud.conversation(room, users=["mira", "parley"])
        serviceuser.give(house.instance.id, "parley", "an-app-password")


def settle(condition: Callable[[], Any], *, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def answered_once(house: House, *, text: str, state: str = "done", parts: int = 1) -> None:
    """After the restart the mention has its one answer, and the room goes on."""
    [first] = house.settled(seconds=100)
    assert first.state == state, (first.reason, first.detail)
    assert "".join("".join(house.talk.texts).split()) == "".join(text.split())
    assert len(house.talk.posts) == parts
    assert len({post.reference_id for post in house.talk.posts}) == parts
    assert [post.reply_to for post in house.talk.posts[:1]] == [1600][:parts]
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


def outcome(step: str, mode: str) -> dict[str, Any]:
    """How the message ends whose worker died there, and what stands of it then."""
    if mode == "with" or step not in UNSURE:
        return {"text": "Berth 4 is free."}
    return {"state": "unknown", "text": "Berth 4 is free." if UNSURE[step] else "", "parts": int(UNSURE[step])}


@pytest.mark.parametrize(("step", "calls", "mode"), chosen(STEPS))
def test_killed_at_a_step(house: House, running: Running, step: str, calls: int, mode: str) -> None:
    seen(house, mode)
    house.model.say("Berth 4 is free.")
    running.start([*KILLED, step])
    house.hear("@atlas which berth is free?", id=1600)
    running.died()
    running.start(RUN)
    if step == "arrived":
        # It was never acknowledged: whoever wrote it does so again.
        assert house.deliveries() == []
        house.hear("@atlas which berth is free?", id=1600)
    answered_once(house, **outcome(step, mode))
    assert len(house.model.chats) == calls + 1


@BOTH
def test_killed_while_the_model_answers(house: House, running: Running, mode: str) -> None:
    seen(house, mode)
    begun: list[bool] = []

    def answer(request: Any) -> Reply:
        begun.append(True)
        reply = fitting(request, completion("Berth 4 is free."))
        return reply if len(begun) > 1 else replace(reply, delay_headers=20)

    house.model.answer(answer)
    running.start()
    house.hear("@atlas which berth is free?", id=1600)
    settle(lambda: begun)
    running.kill()
    running.start()
    answered_once(house, text="Berth 4 is free.")


@pytest.mark.parametrize(
    "step", ["tool runs", *(pytest.param(step, marks=pytest.mark.long) for step in ("tool started", "tool finished"))]
)
def test_killed_around_a_tool(house: House, running: Running, step: str) -> None:
    house.model.call("current_time")
    house.model.call("current_time")
    house.model.say("It is late.")
    running.start([*KILLED, step])
    house.hear("@atlas what time is it?", id=1600)
    running.died()
    running.start()
    answered_once(house, text="It is late.")


@BOTH
def test_killed_between_the_parts_of_a_long_answer(house: House, running: Running, mode: str) -> None:
    seen(house, mode)
    house.model.say(LONG)
    running.start([*KILLED, "post settled"])
    house.hear("@atlas dump the log", id=1600)
    running.died()
    assert len(house.talk.posts) == 1
    running.start()
    answered_once(house, text=LONG, parts=2)


@pytest.mark.parametrize("mode", MODES)
def test_killed_when_the_message_stands_and_the_reply_was_not_read(house: House, running: Running, mode: str) -> None:
    seen(house, mode)
    state = "done" if mode == "with" else "unknown"
    house.model.say("Berth 4 is free.")
    house.talk.fail(Fault(delay=20, stores=True, of="message"))
    running.start()
    house.hear("@atlas which berth is free?", id=1600)
    settle(lambda: house.talk.posts)
    running.kill()
    running.start()
    answered_once(house, text="Berth 4 is free.", state=state)
    with reading() as session:
        states = session.scalars(select(Part.state).order_by(Part.id)).all()
    assert states == ["sent" if mode == "with" else "unknown", "sent"]


@BOTH
def test_killed_with_many_rooms_at_work(house: House, running: Running, mode: str) -> None:
    rooms = [f"room{number:04}" for number in range(12)]
    seen(house, mode, *rooms)
    house.model.answer(lambda request: replace(fitting(request, completion("ok")), delay_headers=0.3))
    running.start()
    for number, room in enumerate(rooms):
        for _ in range(2):
            assert house.hear("@atlas hello", room=room, actor=f"users/p{number}").status_code == 200
    settle(lambda: len(house.talk.posts) >= 5)
    running.kill()
    running.start()
    rows = house.settled(seconds=100)
    replies = [(post.room, post.reply_to) for post in house.talk.posts]
    assert len(replies) == len(set(replies))
    lost = [row for row in rows if row.state == "unknown"]
    assert {row.state for row in rows} <= {"done", "unknown"}
    if mode == "with":
        assert not lost
    assert len(replies) >= 24 - len(lost)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Running]:
    """An installation on PostgreSQL and Redis: a web process, and as many workers as a test starts beside it."""
    with databases.fresh("postgresql", tmp_path) as url, services.broker("redis") as broker:
        values = {"PARLEY_DATABASE_URL": url, "PARLEY_BROKER_URL": broker, "PARLEY_TEST_LEASE": str(LEASE_SECONDS)}
        with Running(tmp_path / "var", values=values) as made:
            made.data_dir.mkdir()
            migrations.upgrade(made.config)
            yield made


OF_WORKERS = (
    *("claimed", "addressed", "owed", "running", "model answered", "parts written", "part claimed", "part posted"),
    *("post settled", "answer over", "released"),
)
WORKER_STEPS = [(step, calls) for step, calls in STEPS if step in OF_WORKERS]


@pytest.mark.services
@pytest.mark.parametrize(("step", "calls", "mode"), chosen(WORKER_STEPS, usual=("part posted-with",)))
def test_a_worker_is_killed_at_a_step_and_two_others_go_on(shared: Running, step: str, calls: int, mode: str) -> None:
    for house in housed(shared):
        rooms = [f"room{number:04}" for number in range(4)]
        seen(house, mode, ROOM, *rooms)
        store.set("turns_per_person_minute", 1000)
        house.model.answer(lambda request: fitting(request, completion("Berth 4 is free.")))
        shared.start([*RUN, "--no-worker"], ready="/healthz")
        deadly = shared.beside([*KILLED, step, "worker"])
        house.hear("@atlas which berth is free?", id=1600)
        deadly.wait(60)
        for _ in range(2):
            shared.beside([*KILLED, "-", "worker"])
        for room in rooms:
            assert house.hear("@atlas hello", room=room).status_code == 200
        first, *others = house.settled(seconds=100)
        expected = outcome(step, mode)
        assert {row.state for row in others} == {"done"}
        assert first.state == expected.get("state", "done"), (first.reason, first.detail)
        posts = [(post.room, post.reply_to) for post in house.talk.posts]
        assert len(posts) == len(set(posts)) == len(rooms) + expected.get("parts", 1)
        assert len(house.model.chats) == calls + len(rooms)
