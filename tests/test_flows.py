"""The flow over real HTTP: a server process with its embedded workers, a fake Talk server, a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import create_app
from app.conversations import cancel
from app.infra.db import db
from app.operate import migrations
from app.platforms import registrations, rooms
from app.rooms import modes
from app.settings import store
from tests.conftest import Sent
from tests.fakes.house import ROOM, House, built, message, php_json, signed
from tests.fakes.model_server import Asked, Reply, completion, fitting
from tests.fakes.running import ROOT, Running

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("flows") / "var") as made:
        made.data_dir.mkdir()
        migrations.prepare(made.config)
        made.start()
        yield made


@pytest.fixture(scope="module")
def whole(running: Running) -> Iterator[House]:
    app = create_app(running.config, sender=Sent())
    with app.app_context():
        with built(app, Sent(), client=running) as made:
            store.set("turns_per_person_minute", 10_000)
            store.set("turns_per_room_minute", 10_000)
            made.bot("atlas")
            made.bot("muse")
            yield made
        db.session.remove()
        db.engine.dispose()


@pytest.fixture
def house(whole: House) -> House:
    """The same house for every test; what was said before is forgotten."""
    whole.settled()
    whole.talk.posts.clear()
    whole.talk.requests.clear()
    whole.model.requests.clear()
    whole.model._script["chat"].clear()
    whole.model._given["chat"] = 0
    return whole


def slow_where(word: str, seconds: float) -> Any:
    """A model that thinks for a while about messages with this word, and repeats the rest at once."""

    def answer(asked: Asked) -> Reply:
        said = asked.body["messages"][-1]["content"]
        reply = fitting(asked, completion(f"heard: {said}"))
        return Reply(reply.status, reply.headers, reply.body, delay_headers=seconds if word in said else 0.0)

    return answer


def in_room(house: House, room: str) -> list[str]:
    return [post.text for post in house.talk.posts if post.room == room]


def wait(condition: Any, *, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_signed_message_becomes_an_answer_in_the_room(house: House) -> None:
    house.model.say("Berth 4 is free.")
    begun = time.monotonic()
    assert house.hear("@atlas which berth is free?", id=4242).status_code == 200
    assert time.monotonic() - begun < 1.0
    [post] = house.talk.wait_for(1)
    assert (post.text, post.reply_to, post.room) == ("Berth 4 is free.", 4242, ROOM)
    last = house.settled()[-1]
    assert (last.state, last.reason) == ("done", "answered")


def test_a_room_that_hangs_delays_no_other_room(house: House) -> None:
    house.model.answer(slow_where("slowly", 6.0))
    house.hear("@atlas slowly please", room="s10wroom")
    wait(lambda: house.model.chats)
    begun = time.monotonic()
    for number in range(10):
        house.hear(f"@atlas quick {number}", room=f"quick{number:03}")
    house.talk.wait_for(10, seconds=5.5)
    assert time.monotonic() - begun < 5.5
    assert in_room(house, "s10wroom") == []
    house.talk.wait_for(11)
    assert in_room(house, "s10wroom") == ["heard: slowly please"]


def test_each_room_is_answered_in_its_order(house: House) -> None:
    house.model.answer(slow_where("first", 0.7))
    for number in range(4):
        house.hear(f"@atlas the {'first' if number == 0 else number}", room="0rder001")
        house.hear(f"@muse the {'first' if number == 0 else number}", room="0rder002")
    house.talk.wait_for(8)
    for room in ("0rder001", "0rder002"):
        assert in_room(house, room) == ["heard: the first", "heard: the 1", "heard: the 2", "heard: the 3"]


def test_many_at_once_are_each_answered_once(house: House) -> None:
    house.model.answer(slow_where("never", 0.0))
    for number in range(60):
        house.hear(f"@atlas {number}", room=f"many{number % 12:04}")
    house.talk.wait_for(60, seconds=60)
    house.settled()
    replies: dict[str, list[str]] = defaultdict(list)
    for post in house.talk.posts:
        replies[post.room].append(post.text)
    for number in range(12):
        assert replies[f"many{number:04}"] == [f"heard: {each}" for each in range(number, 60, 12)]


def test_a_running_turn_can_be_stopped_and_the_next_goes_on(house: House) -> None:
    house.model.answer(slow_where("slowly", 30.0))
    house.hear("@atlas slowly", room="st0proom")
    wait(lambda: house.model.chats)
    begun = time.monotonic()
    cancel.request(house.last().id)
    wait(lambda: house.last().state == "done")
    assert time.monotonic() - begun < 1.5
    assert house.last().reason == "stopped"
    house.hear("@atlas go on", room="st0proom")
    assert [post.text for post in house.talk.wait_for(1)] == ["heard: go on"]


BAD = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"type":"Create","actor":5,"object":[],"target":"x"}',
    b'{"type":"Create","actor":{"id":{"a":1}},"object":{"id":[1],"content":{"message":5}},"target":{"id":7}}',
    b'{"type":["Create"]}',
    json.dumps(message("@atlas \ud800 \x00 hi")).encode(),
    json.dumps(message("@atlas " * 3000 + "{x}" * 3000)).encode(),
    json.dumps(message("@atlas hi", actor="users/" + "u" * 5000)).encode(),
    json.dumps(message("@atlas hi", room="../../etc/passwd")).encode(),
    json.dumps(message("@atlas hi", id=10**30)).encode(),
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_bad_input_gets_a_clear_answer_and_leaves_the_next_message_working(house: House, body: bytes) -> None:
    house.model.answer(slow_where("never", 0.0))
    answer = house.post(body)
    assert answer.status_code in (200, 400)
    rows = house.settled()
    assert all(row.state in ("done", "ignored") for row in rows)
    house.talk.posts.clear()
    assert house.hear("@atlas and now?", room="badinput").status_code == 200
    house.settled()
    assert in_room(house, "badinput") == ["heard: and now?"]


def test_a_forged_message_can_not_be_abused_to_make_a_bot_speak(house: House, running: Running) -> None:
    raw = php_json(message("@atlas forged"))
    path = f"/webhook/talk/{house.registration.key}"
    good = signed(raw, registrations.secret(house.registration))
    refused = [
        running.post(path, data=raw, headers=signed(raw, "w" * 64)),
        running.post(path, data=raw + b" ", headers=good),
        running.post("/webhook/talk/nobody", data=raw, headers=good),
        running.post(path, data=raw, headers={**good, "X-Nextcloud-Talk-Signature": ""}),
    ]
    assert {answer.status_code for answer in refused} == {401}
    assert len({answer.body for answer in refused}) == 1
    assert house.model.chats == []
    assert running.post(path, data=raw, headers=good).status_code == 200
    assert running.post(path, data=raw, headers=good).status_code == 200
    house.settled()
    assert len(house.talk.posts) == 1


def test_commands_act_on_the_running_server_at_once(house: House, running: Running) -> None:
    rooms.seen(house.instance.id, "m0deroom", "Mode")
    command = [
        sys.executable,
        "manage.py",
        "rooms",
        "mode",
        "m0deroom",
        "@muse",
        "always",
        "--instance",
        "cloud",
        "--json",
    ]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **running.environment}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["mode"] == "always"
    assert modes.always(house.instance.id, "m0deroom") == house.bots["muse"].id
    house.hear("nobody is mentioned", room="m0deroom")
    house.talk.wait_for(1)
    assert "You are muse." in house.asked()["messages"][0]["content"]


def test_a_fresh_installation_answers_in_its_sandbox_and_names_what_is_missing(tmp_path: Path) -> None:
    with Running(tmp_path / "var") as fresh:
        fresh.start()
        done = subprocess.run(
            [sys.executable, "manage.py", "talk", "simulate", "sandbox", "@guide What is Parley?", "--json"],
            cwd=ROOT,
            env={**os.environ, **fresh.environment},
            capture_output=True,
            text=True,
            check=True,
        )
    shown = json.loads(done.stdout)
    assert (shown["state"], shown["reason"]) == ("done", "answered")
    [reply] = shown["replies"]
    assert reply["text"].startswith("I am Guide, and no model is connected")
    assert "[1] " in reply["text"]
    assert "Parley puts AI bots into chat rooms" in reply["text"]
    assert "`python manage.py endpoints set primary --url URL --model MODEL`" in reply["text"]
    assert reply["reply_to"] == shown["message_id"]
