from __future__ import annotations

import hashlib
import json
import shlex
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flask import Flask
from sqlalchemy import select
from werkzeug.serving import make_server

from app.accounts import instances, people
from app.bots import store as bots
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import reading, transaction
from app.platforms import registrations
from app.platforms.base import Outcome
from app.platforms.models import Registration
from app.platforms.nextcloud_talk import commands, install
from app.platforms.nextcloud_talk.payload import parse
from app.platforms.sandbox import commands as sandbox_commands
from app.platforms.sandbox import server as sandbox
from app.settings import address


def run(*words: str) -> Result:
    group = sandbox_commands.group if words[0] == "simulate" else commands.talk
    return CliRunner().invoke(group, list(words))


def data(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def cloud(app: Flask) -> Any:
    return instances.add("cloud", "https://cloud.example.test")


def test_register_creates_a_registration_once_and_shows_it_again(cloud: Any) -> None:
    first, again = data("register"), data("register")
    assert first == again
    assert first["webhook_url"] == f"http://127.0.0.1:8000/webhook/talk/{first['key']}"
    assert len(first["secret"]) == 64
    words = shlex.split(first["occ_command"])
    assert words == [
        "occ",
        "talk:bot:install",
        "-f",
        "webhook",
        "-f",
        "response",
        "Parley",
        first["secret"],
        first["webhook_url"],
    ]
    assert "history" in first["warning"]


def test_register_for_a_bot_gives_it_a_registration_of_its_own(cloud: Any) -> None:
    owner = people.ensure_admin(cloud.id)
    values = {"name": "Ship's bot; rm -rf /", "mention_name": "ship", "system_prompt": "Help."}
    bot = bots.create(cloud.id, owner.id, values)
    shared, own = data("register"), data("register", "--bot", "@Ship")
    assert shared["id"] != own["id"]
    assert own == data("register", "--bot", "ship")
    assert shlex.split(own["occ_command"])[6] == "Ship's bot; rm -rf /"
    found = bots.get(bot.id)
    assert found is not None
    assert found.registration_id == own["id"]


def test_register_for_an_unknown_bot_is_told(cloud: Any) -> None:
    result = run("register", "--bot", "nobody")
    assert result.exit_code != 0
    assert registrations.of_instance(cloud.id) == []


def test_several_instances_must_be_told_apart(cloud: Any) -> None:
    instances.add("other", "https://other.example.test")
    assert run("register").exit_code != 0
    assert data("register", "--instance", "other")["key"]


def test_a_further_name_of_the_server_is_allowed(cloud: Any) -> None:
    data("register", "--backend", "http://LOCALHOST/")
    data("register", "--backend", "http://localhost")
    found = instances.get(cloud.id)
    assert found is not None
    assert found.backends == ["http://localhost"]
    assert run("register", "--backend", "nonsense").exit_code != 0


def test_rotate_gives_another_secret_and_keeps_the_address(cloud: Any) -> None:
    before, after = data("register"), data("rotate")
    assert (before["key"], before["webhook_url"]) == (after["key"], after["webhook_url"])
    assert before["secret"] != after["secret"]
    assert registrations.get(after["id"]).previous_secret is not None
    data("rotate", "--now")
    assert registrations.get(after["id"]).previous_secret is None


def test_status_tells_what_is_wrong(cloud: Any) -> None:
    made = data("register")
    (shown,) = data("status")
    assert (shown["id"], shown["last_event_at"], shown["blocked_until"]) == (made["id"], None, None)
    assert made["secret"] not in json.dumps(shown)
    assert len(shown["problems"]) == 1

    registrations.posted(made["id"], Outcome("permanent", 401, "refused"))
    inlet = registrations.inlet(made["key"])
    assert inlet is not None
    registrations.misnamed(inlet, "http://localhost/")
    (shown,) = data("status", "--instance", "cloud")
    assert (shown["last_post_status"], shown["blocked_reason"]) == ("401 refused", "refused")
    assert any("http://localhost/" in problem for problem in shown["problems"])
    assert made["secret"] not in run("status").output


def test_the_lines_for_people_hold_the_command_and_the_warning(cloud: Any) -> None:
    result = run("register")
    assert "occ talk:bot:install -f webhook -f response" in result.output
    assert "history" in result.output


@pytest.mark.parametrize("name", ["$(reboot)", "`reboot`", "a'b\"c", "a b", "-x", "a\\b", "öä"])
def test_no_name_can_be_abused_to_run_something_in_the_administrators_shell(name: str) -> None:
    words = shlex.split(install.occ_command(name, "s" * 64, "https://parley.example.test/webhook/talk/k"))
    assert name in words
    assert words.index("-f") < words.index(name)
    if name.startswith("-"):
        assert words[words.index(name) - 1] == "--"


def test_in_the_sandbox_people_are_told_to_connect_a_nextcloud_first(app: Flask) -> None:
    sandbox.ensure("http://127.0.0.1:9")
    told = run("register").output
    assert "instances add" in told
    assert "occ" not in told
    assert data("register")["secret"]


def test_a_registration_that_was_never_used_follows_the_address_of_this_parley(
    app: Flask, cloud: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    address.remember("http://127.0.0.1:8310")
    first = data("register")
    assert first["webhook_url"].startswith("http://127.0.0.1:8310/")
    assert "PARLEY_BASE_URL" in first["hint"]
    assert "PARLEY_BASE_URL" in run("register").output

    reached_at(app, monkeypatch, "https://parley.example.test")
    moved = data("register")
    assert moved["webhook_url"] == f"https://parley.example.test/webhook/talk/{first['key']}"
    assert (moved["id"], moved["secret"], moved["hint"]) == (first["id"], first["secret"], None)
    actor = registrations.actor_id(registrations.get(moved["id"]))
    assert actor == f"bots/bot-{hashlib.sha1(moved['webhook_url'].encode()).hexdigest()}"

    reached_at(app, monkeypatch, "http://127.0.0.1:8000")
    assert data("register")["webhook_url"] == moved["webhook_url"]


def test_a_registration_that_is_in_use_keeps_its_address(
    app: Flask, cloud: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data("register")
    with transaction() as session:
        session.get_one(Registration, before["id"]).last_event_at = clock.now()
    reached_at(app, monkeypatch, "https://parley.example.test")
    assert data("register")["webhook_url"] == before["webhook_url"]


def reached_at(app: Flask, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    config = app.extensions["parley_config"]
    monkeypatch.setitem(app.extensions, "parley_config", replace(config, base_url=url))


def test_resume_posts_again_and_hurries_what_waited(cloud: Any) -> None:
    made = data("register")
    registrations.posted(made["id"], Outcome("permanent", 401, "refused"))
    (problem,) = [line for line in data("status")[0]["problems"] if "refused" in line]
    assert "talk resume" in problem
    later = clock.now() + timedelta(minutes=10)
    with transaction() as session:
        for reason in (Reason.BREAKER_OPEN, Reason.SEND_LATER):
            session.add(waiting(made["id"], cloud.id, reason=reason, until=later))
    assert data("resume") == {"id": made["id"], "waiting": 1}
    assert not registrations.blocked(registrations.get(made["id"]))
    with reading() as session:
        due = {row.reason: row.due_at for row in session.scalars(select(Delivery))}
    assert (due["breaker_open"] < later, due["send_later"]) == (True, later)


def waiting(registration_id: int, instance_id: int, *, reason: Reason, until: datetime) -> Delivery:
    return Delivery(
        registration_id=registration_id,
        instance_id=instance_id,
        random_digest=reason.value,
        kind="message",
        room="r00mtok1",
        state="queued",
        reason=reason.value,
        due_at=until,
        received_at=clock.now(),
    )


def test_a_name_of_a_server_can_not_be_abused_to_run_something_in_the_administrators_shell(cloud: Any) -> None:
    inlet = registrations.inlet(data("register")["key"])
    assert inlet is not None
    registrations.misnamed(inlet, "http://x/;reboot")
    (problem,) = [line for line in data("status")[0]["problems"] if "calls itself" in line]
    assert "--instance cloud --backend 'http://x/;reboot'`" in problem


# talk simulate


@pytest.fixture
def running(app: Flask) -> Iterator[str]:
    served = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{served.server_port}"
    address.remember(url)
    sandbox.ensure(url)
    yield url
    served.shutdown()
    served.server_close()
    thread.join(5)


def stored(event_id: int) -> Delivery:
    with reading() as session:
        found = session.get(Delivery, event_id)
    assert found is not None
    return found


def simulated(*words: str) -> Any:
    """Nobody works here, so the command ends when its time is over."""
    result = run("simulate", *words, "--timeout", "0.1", "--json")
    assert (result.exit_code, "not over after 0.1 seconds" in result.stderr) == (1, True), result.output
    return json.loads(result.stdout)


def test_simulate_without_a_running_server_says_so(app: Flask) -> None:
    result = run("simulate", "sandbox", "@guide hi")
    assert result.exit_code == 1
    assert "No server is running" in result.stderr


def test_simulate_says_so_when_the_server_has_stopped(app: Flask) -> None:
    sandbox.ensure("http://127.0.0.1:9")
    address.remember("http://127.0.0.1:9")
    result = run("simulate", "sandbox", "@guide hi")
    assert result.exit_code == 1
    assert "No server is running" in result.stderr


def test_simulate_sends_a_signed_message_to_the_running_server(running: str) -> None:
    result = simulated("sandbox", "@guide what is this?")
    assert result["state"] == "queued"
    assert result["replies"] == []
    row = stored(result["event_id"])
    event = parse(row.body or b"")
    assert (event.room, event.text, event.actor.key, event.actor.name) == (
        "sandbox",
        "@guide what is this?",
        "users/ada",
        "Ada",
    )
    assert sandbox.messages("sandbox")[-1].text == "@guide what is this?"


def test_simulate_tells_people_in_words_why_nobody_answered(capsys: pytest.CaptureFixture[str]) -> None:
    def told(result: dict[str, Any]) -> str:
        sandbox_commands._print(result)
        return capsys.readouterr().out

    result: dict[str, Any] = {"event_id": 7, "state": "ignored", "reason": "unknown_name", "replies": []}
    assert told(result) == "Event 7: ignored: unknown_name\nA name was mentioned that no bot here has.\n"
    assert told(result | {"state": "running", "reason": ""}) == "Event 7: running\n"
    answered = result | {"state": "done", "reason": "answered", "replies": [{"text": "Nine."}]}
    assert told(answered) == "Event 7: done: answered\n\nNine.\n"


def test_simulate_can_be_a_guest_or_somebody_with_a_known_name(running: str) -> None:
    instance = instances.by_name("sandbox")
    assert instance is not None
    people.ensure(instance.id, "zoe", "Zoë Q.")
    for actor, name in (("guests/7d0c1e7b", "Guest 7d0c"), ("users/zoe", "Zoë Q.")):
        event = parse(stored(simulated("sandbox", "hi", "--as", actor)["event_id"]).body or b"")
        assert (event.actor.key, event.actor.name) == (actor, name)


def test_simulate_replies_to_a_message_of_the_room(running: str) -> None:
    answer = next(row for row in sandbox.messages("sandbox") if row.actor.startswith("bots/"))
    result = simulated("sandbox", "and then?", "--reply-to", str(answer.id))
    event = parse(stored(result["event_id"]).body or b"")
    assert event.parent is not None
    assert (event.parent.message_id, event.parent.actor.key, event.parent.text) == (
        answer.id,
        answer.actor,
        answer.text,
    )
    missing = run("simulate", "sandbox", "x", "--reply-to", "999999")
    assert missing.exit_code != 0


def test_simulate_shares_a_file(running: str, tmp_path: Path) -> None:
    path = tmp_path / "Report Q1.pdf"
    path.write_bytes(b"x" * 21)
    event = parse(stored(simulated("sandbox", "", "--file", str(path))["event_id"]).body or b"")
    (file,) = event.files
    assert (file.name, file.mimetype, file.size, event.words) == ("Report Q1.pdf", "application/pdf", 21, "")
    assert run("simulate", "sandbox", "", "--file", str(tmp_path / "none")).exit_code == 2


def test_simulate_in_a_new_room_makes_it(running: str) -> None:
    event = parse(stored(simulated("harbour", "hi")["event_id"]).body or b"")
    assert (event.room, event.room_name) == ("harbour", "Harbour")


@pytest.mark.parametrize(
    "words", [("../x", "hi"), ("", "hi"), ("sandbox", "hi", "--as", "ada"), ("sandbox", "hi", "--as", "bots/x")]
)
def test_simulate_refuses_what_no_talk_would_send(running: str, words: tuple[str, ...]) -> None:
    assert run("simulate", *words).exit_code != 0


def test_simulate_signs_for_a_connected_server_as_well(running: str, cloud: Any) -> None:
    without = run("simulate", "r00mtok1", "hi")
    assert without.exit_code != 0
    made = data("register")
    result = simulated("r00mtok1", "hi")
    row = stored(result["event_id"])
    assert (row.registration_id, row.instance_id, row.room) == (made["id"], cloud.id, "r00mtok1")
    again = simulated("r00mtok1", "and?", "--reply-to", row.object_id or "")
    event = parse(stored(again["event_id"]).body or b"")
    assert event.parent is not None
    assert event.parent.text == "hi"
