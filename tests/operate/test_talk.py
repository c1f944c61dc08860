"""What `doctor` says of a Nextcloud and its registrations, against a server that answers as the measured one does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from app.accounts import instances, serviceuser
from app.accounts.models import Instance
from app.inbox.gaps import reading as rooms_to_read
from app.inbox.gaps import watch
from app.infra import clock
from app.infra.db import transaction
from app.operate import inlets, talk
from app.operate.health import Check
from app.platforms import registrations, rooms
from app.platforms.base import Outcome
from app.platforms.models import Registration
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault

SECRET = "s" * 64
ROOM = "r00mtok1"


@pytest.fixture
def server() -> Iterator[Nextcloud]:
    with Nextcloud(SECRET) as made:
        made.user("parley", "app-password")
        made.user("ada")
        made.conversation(ROOM, users=["ada", "parley"])
        yield made
        made.check()


@pytest.fixture
def ours(app: Flask) -> Iterator[str]:
    """The address of this installation, as it answers over HTTP."""
    made = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()
    thread.join(5)


@pytest.fixture
def home(app: Flask, server: Nextcloud) -> Instance:
    return instances.add("cloud", server.url)


@pytest.fixture
def registration(home: Instance, ours: str) -> Registration:
    made = registrations.create(home.id, "Talk AI", secret=SECRET, base_url=ours)
    room = rooms.seen(home.id, ROOM, "Harbour crew")
    rooms.bind(room.id, made.id)
    return made


def change(registration: Registration, **values: Any) -> None:
    with transaction() as session:
        session.execute(update(Registration).where(Registration.id == registration.id).values(**values))


def checks(home: Instance) -> dict[str, Check]:
    fresh = instances.get(home.id)
    assert fresh is not None
    return {check.name.rpartition(" ")[0]: check for check in talk.examine(fresh)}


def all_well(home: Instance, registration: Registration) -> None:
    serviceuser.give(home.id, "parley", "app-password")
    change(registration, last_event_at=clock.now(), backend_seen=f"{home.url}/")
    registrations.posted(registration.id, Outcome("success", 201, "posted"))


def test_where_all_is_well_nothing_is_to_be_done(home: Instance, registration: Registration) -> None:
    all_well(home, registration)
    found = checks(home)
    assert {name: check.level for name, check in found.items()} == dict.fromkeys(
        ("server", "service user", "talk", "rooms", "events", "backend", "posts", "address", "downtime"), "ok"
    )
    assert "31.0.6.2" in str(found["server"].state)


def test_a_new_registration_waits_for_its_first_event_and_tells_what_to_compare(
    home: Instance, registration: Registration
) -> None:
    found = checks(home)
    assert found["events"].level == "note"
    assert "occ talk:bot:list" in str(found["events"].remedy)
    assert registration.secret not in str(found["events"].remedy)
    assert SECRET not in str(found)
    assert found["service user"].level == "note"
    assert "can't be recovered" in str(found["rooms"].state)
    assert "Harbour crew" in str(found["rooms"].state)


def test_nothing_registered_is_a_note(home: Instance) -> None:
    found = checks(home)
    assert found["registration"].level == "note"
    assert "talk register --instance cloud" in str(found["registration"].remedy)


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (Fault.maintenance(), "maintenance"),
        (Fault(200, b"<html>hello</html>"), "something else than Nextcloud"),
        (Fault.reset(), "can't be reached"),
        (Fault.redirect(), "something else than Nextcloud"),
    ],
)
def test_a_server_that_does_not_answer_as_nextcloud_is_asked_nothing_more(
    home: Instance, registration: Registration, server: Nextcloud, fault: Fault, word: str
) -> None:
    all_well(home, registration)
    with server.failing(fault):
        found = checks(home)
    assert found["server"].level == "bad"
    assert word in str(found["server"].state)
    assert set(found) == {"server", "events", "backend", "posts", "address", "downtime"}
    assert {request.path for request in server.requests} <= {"/status.php"}


def test_maintenance_mode_is_told_with_what_ends_it(home: Instance, server: Nextcloud) -> None:
    server.maintenance = True
    found = checks(home)
    assert (found["server"].level, "maintenance:mode --off" in str(found["server"].remedy)) == ("bad", True)


@pytest.mark.parametrize(("version", "level"), [("26.0.9.1", "bad"), ("27.0.2.1", "bad"), ("27.1.0.7", "ok")])
def test_a_nextcloud_without_bots_is_told(home: Instance, server: Nextcloud, version: str, level: str) -> None:
    server.version = version
    assert checks(home)["server"].level == level


def test_talk_without_bots_is_told(home: Instance, registration: Registration, server: Nextcloud) -> None:
    all_well(home, registration)
    server.talk_features = ("chat-v2",)
    assert checks(home)["talk"].level == "bad"


def test_a_service_user_that_is_refused_is_asked_once(
    home: Instance, registration: Registration, server: Nextcloud
) -> None:
    all_well(home, registration)
    serviceuser.give(home.id, "parley", "wrong")
    found = checks(home)
    checks(home)
    assert found["service user"].level == "bad"
    assert "service-user cloud" in str(found["service user"].remedy)
    assert found["rooms"].level == "note"
    assert "talk" not in found
    assert server.bad_logins == 1


def test_the_rooms_that_the_service_user_does_not_see_are_named(
    home: Instance, registration: Registration, server: Nextcloud
) -> None:
    all_well(home, registration)
    for number in range(12):
        room = rooms.seen(home.id, f"private{number}", f"Board {number}")
        rooms.bind(room.id, registration.id)
    check = checks(home)["rooms"]
    assert check.level == "note"
    assert "Board 0" in str(check.state)
    assert "(+2)" in str(check.state)
    assert "Harbour crew" not in str(check.state)
    assert "Add parley" in str(check.remedy)


@pytest.mark.parametrize(
    ("seen", "level", "word"),
    [
        ("/", "note", "overwrite.cli.url"),
        ("https://127.0.0.1/", "bad", "Only http, https or the port differ"),
        ("https://other.example.test/", "bad", "Another server"),
    ],
)
def test_how_the_server_calls_itself_is_compared(
    home: Instance, registration: Registration, seen: str, level: str, word: str
) -> None:
    all_well(home, registration)
    change(registration, backend_seen=seen)
    check = checks(home)["backend"]
    assert (check.level, word in str(check.remedy)) == (level, True)


def test_a_refused_signature_is_told_until_a_post_is_taken(home: Instance, registration: Registration) -> None:
    all_well(home, registration)
    registrations.posted(registration.id, Outcome("permanent", 401, "refused", throttled=True))
    assert "nothing is posted until" in str(checks(home)["posts"].state)
    change(registration, blocked_until=clock.now() - timedelta(minutes=5))
    check = checks(home)["posts"]
    assert (check.level, "refused our signature" in str(check.state)) == ("bad", True)
    registrations.posted(registration.id, Outcome("success", 201, "posted"))
    check = checks(home)["posts"]
    assert (check.level, "bruteforce:reset" in str(check.remedy)) == ("note", True)
    change(registration, throttled_at=clock.now() - timedelta(hours=2))
    assert checks(home)["posts"].level == "ok"


def test_a_post_that_failed_is_a_note(home: Instance, registration: Registration) -> None:
    all_well(home, registration)
    registrations.posted(registration.id, Outcome("retryable", 503, "busy"))
    check = checks(home)["posts"]
    assert (check.level, "503 busy" in str(check.state)) == ("note", True)


def test_talk_25_proves_the_secret_without_a_message(
    home: Instance, registration: Registration, server: Nextcloud
) -> None:
    all_well(home, registration)
    server.bot_features = 3
    assert "features" not in checks(home)
    server.version = "35.0.1.2"
    check = checks(home)["features"]
    assert (check.level, "response, webhook" in str(check.state)) == ("ok", True)
    for flags in (7, 1, 2, 0):
        server.bot_features = flags
        check = checks(home)["features"]
        assert (check.level, "occ talk:bot:list" in str(check.remedy)) == ("bad", True)
    server.bot_features = None
    assert checks(home)["features"].level == "note"
    assert server.posts == []


def test_a_wrong_secret_is_shown_to_the_server_once_in_an_hour(
    home: Instance, registration: Registration, server: Nextcloud, ours: str
) -> None:
    all_well(home, registration)
    server.version, server.bot_features = "35.0.1.2", 3
    server.secrets[:] = ["another-secret"]
    other = registrations.create(home.id, "Second", shared=False, base_url=ours)
    rooms.bind(rooms.seen(home.id, ROOM).id, other.id)
    found = checks(home)
    assert found["features"].level == "bad"
    assert asked(server) == 1
    found = checks(home)
    assert (found["posts"].level, asked(server)) == ("ok", 1)
    posts = [check for check in talk.examine(home) if check.name == f"posts {registration.id}"]
    assert [check.level for check in posts] == ["bad"]
    change(registration, refused_at=clock.now() - timedelta(hours=2))
    checks(home)
    assert asked(server) == 2
    assert not registrations.blocked(registrations.get(registration.id))


def asked(server: Nextcloud) -> int:
    return len([request for request in server.requests if request.kind == "features"])


def test_our_own_address_must_refuse_what_nobody_signed(home: Instance, registration: Registration) -> None:
    all_well(home, registration)
    assert checks(home)["address"].level == "ok"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (Response(status=302, headers={"Location": "https://127.0.0.1/"}), "redirects"),
        (Response("<html>sign in</html>", 200), "Something else"),
        (Response(json.dumps({"code": "not_signed_in"}), 401), "Something else"),
        (Response("", 404), "Something else"),
    ],
)
def test_something_else_at_our_own_address_is_told(
    home: Instance, registration: Registration, answer: Response, word: str
) -> None:
    def serve(environ: Any, start_response: Any) -> Any:
        Request(environ).get_data()
        return answer(environ, start_response)

    made = make_server("127.0.0.1", 0, serve, threaded=True)
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    change(registration, webhook_url=f"http://127.0.0.1:{made.server_port}/webhook/talk/key")
    check = checks(home)["address"]
    made.shutdown()
    made.server_close()
    assert (check.level, word in str(check.state)) == ("bad", True)


def test_an_address_at_which_nobody_answers_is_bad_on_this_machine_and_a_note_elsewhere(
    home: Instance, registration: Registration, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(registration, webhook_url="http://127.0.0.1:9/webhook/talk/key")
    assert checks(home)["address"].level == "bad"
    monkeypatch.setattr(inlets.address, "of_this_machine", lambda _: False)
    assert checks(home)["address"].level == "note"


def test_an_address_of_this_machine_only_is_a_note_where_the_server_is_elsewhere(
    home: Instance, registration: Registration
) -> None:
    with transaction() as session:
        session.execute(update(Instance).values(url="http://192.0.2.7"))
    elsewhere = instances.get(home.id)
    assert elsewhere is not None
    (check,) = [each for each in inlets.examine(elsewhere, asks_features=False) if each.name == "address cloud"]
    assert (check.level, "PARLEY_BASE_URL" in str(check.remedy)) == ("note", True)


def test_what_a_gap_left_is_told(home: Instance, registration: Registration) -> None:
    all_well(home, registration)
    watch.beat(unsure=True)
    with transaction() as session:
        session.execute(update(watch.SignOfLife).values(seen_at=clock.now() - timedelta(hours=2)))
    watch.beat(unsure=True)
    gap = rooms_to_read.claim(home.id)
    assert gap is not None
    rooms_to_read.finish(gap, "refused")
    check = checks(home)["downtime"]
    assert (check.level, "could not be read" in str(check.state)) == ("note", True)


def test_only_nextclouds_are_asked(app: Flask, home: Instance) -> None:
    instances.ensure_sandbox("http://127.0.0.1:8000")
    instances.add("mine", "https://mine.example.test", kind="personal", domain="mine.example.test")
    assert [each.name for each in talk.servers()] == ["cloud"]
