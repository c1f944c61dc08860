"""The whole flow on each of the three databases, alone and with many workers at once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from app import config as configuration
from app import create_app
from app.conversations.models import RoomMessage
from app.inbox import claim
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import Base, db, reading, transaction
from app.infra.jobs import jobs
from app.rooms import modes, parts
from app.rooms.models import Answer, Part
from app.settings import store
from tests.conftest import Sent
from tests.fakes import databases
from tests.fakes.house import ROOM, House, built, message
from tests.fakes.talk_server import Fault
from tests.rooms.conftest import Clock

LONG = "Åse says 😀 a line of the harbour log. " * 1200


@pytest.fixture(params=databases.PARAMS)
def house(request: pytest.FixtureRequest, tmp_path: Path, sent: Sent) -> Iterator[House]:
    with databases.fresh(request.param, tmp_path) as url:
        values = {
            "PARLEY_DATA_DIR": str(tmp_path / "var"),
            "PARLEY_SECRET_KEY": "a-secret-key-for-tests-only",
            "PARLEY_DATABASE_URL": url,
        }
        app = create_app(configuration.load(values), sender=sent)
        with app.app_context():
            Base.metadata.create_all(db.engine)
            with built(app, sent) as made:
                made.bot("atlas")
                made.bot("muse")
                yield made
            db.session.remove()
            db.engine.dispose()


def test_a_day_in_a_room(house: House, time_machine: Clock) -> None:
    house.model.say(LONG)
    house.model.say("Second.")
    house.model.say("Third, @all.")
    body = message("@atlas dump the log 😀")
    assert house.post(body).status_code == 200
    assert house.post(body).status_code == 200
    house.work()
    assert len(house.talk.posts) == 2
    assert house.last().state == "done"
    house.talk.fail(Fault(503, of="message"))
    house.hear("@muse and you?", quoted=("users/bob", "Bob", "quoted words"))
    house.work()
    assert house.last().state == "queued"
    time_machine.pass_(120)
    house.work_later()
    assert house.last().state == "done"
    modes.choose(house.instance.id, ROOM, bot_id=house.bots["atlas"].id, mode="always")
    modes.choose(house.instance.id, ROOM, bot_id=house.bots["muse"].id, mode="always")
    house.hear("without a mention")
    house.hear("@atlas", actor="guests/1", role="4")
    house.work()
    assert [row.reason for row in house.deliveries()] == ["answered", "answered", "answered", "told_denied"]
    assert house.talk.texts[-2].endswith("Third, @\u200ball.")
    house.talk.fail(Fault(ends="drop", stores=True, of="message"))
    house.hear("@atlas lost")
    house.work()
    assert house.last().state == "unknown"
    assert claim.retry(house.last().id)
    house.sent("inbox.drain", [house.instance.id, ROOM], delay=0.0)
    house.work()
    assert house.last().state == "done"
    house.post(message("cleared", kind="Activity", object_name="history_cleared"))
    house.work()
    with reading() as session:
        assert session.scalars(select(RoomMessage.id)).all() == []
        assert set(session.scalars(select(Part.text))) == {""}
    time_machine.pass_(timedelta(days=31).total_seconds())
    assert parts.forget(30) == 5


def test_many_workers_answer_each_message_once_and_in_order(house: House) -> None:
    store.set("turns_per_person_minute", 10_000)
    rooms = [f"room{number:04}" for number in range(6)]
    for number in range(3):
        for room in rooms:
            house.hear(f"@atlas and @muse {number}", room=room)
    house.sent.clear()
    in_threads(house, rooms * 2)
    for _ in range(5):
        if all(row.state == "done" for row in house.deliveries()):
            break
        with transaction() as session:
            session.execute(update(Delivery).values(due_at=clock.now()))
        in_threads(house, rooms)
    assert {row.state for row in house.deliveries()} == {"done"}
    assert {row.attempts for row in house.deliveries()} == {0}
    with reading() as session:
        assert set(session.scalars(select(Answer.state))) == {"done"}
    for room in rooms:
        mine = [(post.reply_to, post.text) for post in house.talk.posts if post.room == room]
        assert mine == sorted(mine, key=lambda one: one[0])
        assert [text for _, text in mine] == ["**atlas:** ok", "**muse:** ok"] * 3


def test_many_rooms_of_one_person_keep_to_their_limit_and_lose_nothing(house: House, time_machine: Clock) -> None:
    store.update({"turns_per_person_minute": 5, "heard_reaction": "off"})
    rooms = [f"room{number:04}" for number in range(6)]
    for number in range(3):
        for room in rooms:
            house.hear(f"@atlas question {number}", room=room)
    house.sent.clear()
    answered = [0]
    for _ in range(4):
        in_threads(house, rooms * 2)
        answered.append(len(house.model.chats))
        time_machine.pass_(62)
    assert [after - before for before, after in itertools.pairwise(answered)] == [5, 5, 5, 3]
    assert {(row.state, row.reason, row.attempts) for row in house.deliveries()} == {("done", "answered", 0)}
    for room in rooms:
        told = [(post.reply_to, "answer comes" in post.text) for post in house.talk.posts if post.room == room]
        answers = [reply for reply, notice in told if not notice]
        assert answers == sorted(set(answers), key=lambda id: id or 0)
        assert len(answers) == 3
        assert len({reply for reply, notice in told if notice}) == sum(notice for _, notice in told) <= 3


def in_threads(house: House, rooms: list[str]) -> None:
    """Works off these rooms, each in a thread of its own."""
    failures: list[BaseException] = []

    def work(room: str) -> None:
        try:
            with house.app.app_context():
                jobs.tasks["inbox.drain"].run(house.instance.id, room)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(room,)) for room in rooms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
