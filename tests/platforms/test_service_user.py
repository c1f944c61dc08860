"""What the service user may read, and how it is told when it may not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask

from app.accounts import instances, serviceuser
from app.accounts.models import Instance
from app.accounts.serviceuser import Untold
from app.infra import clock
from app.infra.errors import BadInput
from app.platforms import probe, registry
from app.platforms.nextcloud_talk import cloud, conversation, ocs
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault

ROOM = "r00mtok1"


@pytest.fixture
def server() -> Iterator[Nextcloud]:
    with Nextcloud("s" * 64, prefix="/nextcloud") as made:
        made.user("parley", "app-password")
        made.user("ada", groups=["crew"])
        made.user("bob")
        made.conversation(ROOM, users=["ada", "bob", "parley"])
        made.conversation("secret42", users=["ada"])
        yield made
        made.check()


@pytest.fixture
def home(app: Flask, server: Nextcloud) -> Instance:
    made = instances.add("cloud", server.url)
    return serviceuser.give(made.id, "parley", "app-password")


def reason(call: object, *args: object, **more: object) -> str:
    with pytest.raises(Untold) as caught:
        call(*args, **more)  # type: ignore[operator]
    return caught.value.reason


def test_a_room_of_ours_is_read_and_one_of_others_is_untold(home: Instance) -> None:
    found = conversation.participants(home.id, ROOM)
    assert {each.key for each in found} == {"users/ada", "users/bob", "users/parley"}
    assert conversation.room(home.id, ROOM).name == "R00Mtok1"
    assert [each.token for each in conversation.rooms(home.id)] == [ROOM]
    for call in (conversation.participants, conversation.room, conversation.page):
        assert reason(call, home.id, "secret42") == "missing"
        assert reason(call, home.id, "nosuchroom") == "missing"


@pytest.mark.parametrize("token", ["", "../cloud/user", "a b", "x" * 65, "r00m?x=1", "r00m/participants"])
def test_a_token_can_not_be_abused_to_ask_something_else(home: Instance, server: Nextcloud, token: str) -> None:
    assert reason(conversation.participants, home.id, token) == "missing"
    assert server.asked == []


@pytest.mark.parametrize("name", ["", ".", "..", "a\x00b"])
def test_a_uid_can_not_be_abused_to_ask_something_else(home: Instance, server: Nextcloud, name: str) -> None:
    assert reason(cloud.groups_of, home.id, name) == "missing"
    assert server.asked == []


def test_without_a_service_user_nothing_is_asked(app: Flask, server: Nextcloud) -> None:
    made = instances.add("bare", server.url)
    reader = registry.reader("nextcloud_talk")
    assert reader is not None
    assert reason(reader.participants, made.id, ROOM) == "no_service_user"
    assert reason(reader.find, made.id, ROOM, "ref") == "no_service_user"
    assert server.requests == []
    assert registry.reader("sandbox") is None


def test_the_history_comes_in_pages_to_its_end(home: Instance, server: Nextcloud) -> None:
    ids = [server.say(ROOM, "users/ada", f"line {number}") for number in range(7)]
    pages, before = [], None
    while True:
        page = conversation.page(home.id, ROOM, before=before, limit=3)
        pages.append([message.id for message in page.messages])
        before = page.before
        if before is None:
            break
    assert [id for page in pages for id in page] == ids[::-1]
    assert pages[-1] == []
    assert [each.id for each in conversation.newer(home.id, ROOM, after=ids[3])] == ids[4:]
    assert conversation.newer(home.id, ROOM, after=ids[-1]) == ()
    assert [each.id for each in conversation.context(home.id, ROOM, ids[3], limit=1)] == ids[2:5]
    assert conversation.context(home.id, ROOM, 5) == ()


def test_a_message_is_understood_as_it_stands_there(home: Instance, server: Nextcloud) -> None:
    file = {"mention-user1": {"type": "user", "id": "bob", "name": "Bob Builder"}}
    server.say(ROOM, "users/ada", "Hi {mention-user1}", messageParameters=file, expirationTimestamp=4_000_000_000)
    server.say(ROOM, "users/ada", "You added Bob", systemMessage="user_added", messageType="system")
    gone = server.say(ROOM, "guests/abc", "never mind", threadId=9, parent={"id": 3})
    server.delete(ROOM, gone)
    deleted, system, said = conversation.page(home.id, ROOM).messages
    assert (said.text, said.kind, said.actor.key) == ("Hi Bob Builder", "message", "users/ada")
    assert said.expires_at == datetime.fromtimestamp(4_000_000_000, UTC)
    assert (system.kind, system.name) == ("system", "user_added")
    assert (deleted.kind, deleted.actor.key, deleted.thread, deleted.parent_id) == ("deleted", "guests/abc", 9, 3)


def test_a_message_is_found_by_its_reference_or_surely_not_there(
    home: Instance, server: Nextcloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = server.say(ROOM, "users/ada", "@atlas?")
    posted = server.say(ROOM, "bots/bot-1", "here", referenceId="ref-1")
    for number in range(250):
        server.say(ROOM, "users/bob", f"noise {number}")
    found = conversation.find(home.id, ROOM, "ref-1", after=asked)
    assert found is not None
    assert (found.id, found.text) == (posted, "here")
    assert conversation.find(home.id, ROOM, "ref-2", after=asked) is None
    assert conversation.find(home.id, ROOM, "ref-1", since=clock.now() - timedelta(minutes=1)) is not None
    monkeypatch.setattr(conversation, "MOST_PAGES", 1)
    assert reason(conversation.find, home.id, ROOM, "ref-2", after=asked) == "too_far"


def test_status_and_capabilities_are_read(home: Instance, server: Nextcloud) -> None:
    assert cloud.status(home).version == "31.0.6.2"
    found = cloud.capabilities(home.id)
    assert (found.version, found.max_message, "bots-v1" in found.talk_features) == ("31.0.6", 32_000, True)
    server.maintenance = True
    assert cloud.status(home).maintenance
    assert reason(cloud.capabilities, home.id) == "maintenance"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Fault.maintenance(), "maintenance"),
        (Fault(500), "maintenance"),
        (Fault.redirect(), "not_nextcloud"),
        (Fault(200, b"<html>sign in</html>"), "not_nextcloud"),
        (Fault(200, b'{"ocs":{"meta":{"statuscode":998},"data":[]}}'), "unknown_route"),
        (Fault(404, b'{"ocs":{"meta":{"statuscode":998},"data":[]}}'), "unknown_route"),
        (Fault(200, b'{"ocs":{"meta":{"statuscode":200},"data":"x"}}'), "not_nextcloud"),
        (Fault(200, b'{"ocs":{"meta":{"statuscode":200},"data":[{"actorType":"users"}]}}'), "not_nextcloud"),
        (Fault(200, b"[" * 100_000), "not_nextcloud"),
        (Fault(200, b""), "not_nextcloud"),
        (Fault(200, b"x" * (9 * 1024 * 1024)), "too_large"),
        (Fault(304), "not_nextcloud"),
        (Fault(204), "not_nextcloud"),
        (Fault(404, b"<html>not here</html>"), "not_nextcloud"),
        (Fault(403, b"<html>no</html>"), "forbidden"),
    ],
)
def test_whatever_is_no_answer_is_untold_and_never_an_empty_list(
    home: Instance, server: Nextcloud, fault: Fault, why: str
) -> None:
    server.fail(fault)
    assert reason(conversation.participants, home.id, ROOM) == why
    assert len(conversation.participants(home.id, ROOM)) == 3


def test_a_connection_that_broke_off_is_tried_once_more(home: Instance, server: Nextcloud) -> None:
    server.fail(Fault.reset())
    assert len(conversation.participants(home.id, ROOM)) == 3
    server.fail(Fault.reset(), Fault.reset())
    assert reason(conversation.participants, home.id, ROOM) == "unreachable"


def test_a_wrong_password_is_tried_once_also_by_many_rooms_at_once(app: Flask, server: Nextcloud) -> None:
    made = instances.add("cloud", server.url)
    serviceuser.give(made.id, "parley", "wrong")
    told: list[str] = []

    def ask() -> None:
        with app.app_context():
            told.append(reason(conversation.participants, made.id, ROOM))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (told, server.bad_logins) == (["refused"] * 8, 1)
    assert reason(cloud.myself, made.id) == "refused"
    assert server.bad_logins == 1


def test_another_password_opens_the_breaker_and_a_day_does_too(
    app: Flask, server: Nextcloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = instances.add("cloud", server.url)
    serviceuser.give(made.id, "parley", "wrong")
    assert reason(cloud.myself, made.id) == "refused"
    serviceuser.give(made.id, "parley", "app-password")
    assert cloud.myself(made.id).uid == "parley"
    serviceuser.give(made.id, "parley", "wrong again")
    assert reason(cloud.myself, made.id) == "refused"
    later = clock.now() + timedelta(days=1, seconds=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert reason(cloud.myself, made.id) == "refused"
    assert server.bad_logins == 3


def test_an_old_refusal_does_not_block_a_password_that_was_changed_meanwhile(home: Instance) -> None:
    old = serviceuser.login(home.id)
    serviceuser.give(home.id, "parley", "newer")
    serviceuser.block(old, "refused")
    assert serviceuser.login(home.id).password == "newer"


def test_a_throttle_is_waited_for(home: Instance, server: Nextcloud, monkeypatch: pytest.MonkeyPatch) -> None:
    server.fail(Fault.throttled(retry_after=60))
    assert reason(cloud.myself, home.id) == "throttled"
    asked = len(server.requests)
    assert reason(cloud.myself, home.id) == "throttled"
    assert len(server.requests) == asked
    later = clock.now() + timedelta(seconds=61)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert cloud.myself(home.id).uid == "parley"


def test_the_password_shows_nowhere(home: Instance) -> None:
    login = serviceuser.login(home.id)
    assert "app-password" not in repr(login)
    assert "app-password" not in str(home.service_secret)


@pytest.mark.parametrize("password", ["", "  ", "x" * 1025, "a\nb", "a\x00b"])
def test_what_is_no_password_is_refused(home: Instance, password: str) -> None:
    with pytest.raises(BadInput):
        serviceuser.give(home.id, "parley", password)
    assert serviceuser.login(home.id).password == "app-password"


def test_groups_of_others_are_told_to_administrators_and_in_part_to_sub_admins(
    home: Instance, server: Nextcloud
) -> None:
    assert reason(cloud.groups_of, home.id, "ada") == "missing"
    assert reason(cloud.people_of, home.id, "crew") == "forbidden"
    assert reason(cloud.managed_by, home.id, "ada") == "forbidden"
    assert cloud.groups_of(home.id, "parley") == frozenset()
    server.user("parley", "app-password", manages=["crew"])
    assert cloud.groups_of(home.id, "ada") == {"crew"}
    assert {each.id for each in cloud.people_of(home.id, "crew")} == {"ada"}
    server.groups["admin"].add("parley")
    assert cloud.groups_of(home.id, "bob") == frozenset()
    assert reason(cloud.groups_of, home.id, "eve") == "missing"


def test_a_team_counts_who_joined_and_tells_apart_who_lives_elsewhere(home: Instance, server: Nextcloud) -> None:
    server.circle("c1", {("users", "ada"): 9, ("users", "bob"): 0, ("groups", "crew"): 1, ("users", "eve"): 1})
    server.remote_members.add(("users", "eve"))
    server.circle("c2", {})
    server.hidden_circles.add("c2")
    found = cloud.team(home.id, "c1")
    assert {(each.actor.key, each.moderates) for each in found} == {
        ("users/ada", True),
        ("groups/crew", False),
        ("federated_users/eve@elsewhere.example.test", False),
    }
    assert cloud.teams(home.id) == ("c1",)
    assert reason(cloud.team, home.id, "c2") == "missing"
    server.without_circles = True
    assert reason(cloud.teams, home.id) == "unknown_route"


def test_a_test_tells_in_one_sentence_whether_it_works(home: Instance, server: Nextcloud) -> None:
    assert probe.tested(home).ok
    server.accounts["parley"].password = "changed"
    assert not probe.tested(home).ok
    assert "app password" in str(probe.tested(home).message)
    assert server.bad_logins == 1


def test_numbers_are_read_as_nextcloud_writes_them() -> None:
    assert [ocs.whole(value) for value in (7, "7", True, "x", None, 1.5, "9" * 30, 2**70)] == [7, 7, *[None] * 6]
