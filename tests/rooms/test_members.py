"""Who reads a room, as its service user is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.accounts import instances, people, serviceuser
from app.accounts.audience import Audience
from app.accounts.models import Instance
from app.bots import access
from app.infra import clock
from app.platforms import registrations, rooms
from app.platforms.base import Actor
from app.platforms.models import Room
from app.rooms import members
from tests.bots.conftest import bot
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault

ADA = Actor("users", "ada", "Ada")
TOKEN = "r00mtok1"


@pytest.fixture
def server() -> Iterator[Nextcloud]:
    with Nextcloud("s" * 64) as made:
        made.user("parley", "app-password")
        for uid in ("ada", "bob", "carol"):
            made.user(uid)
        made.conversation(TOKEN, users=["ada", "bob", "parley"])
        yield made
        made.check()


@pytest.fixture
def home(app: Flask, server: Nextcloud) -> Instance:
    made = instances.add("cloud", server.url)
    registrations.create(made.id, "Talk AI", secret="s" * 64)
    return serviceuser.give(made.id, "parley", "app-password")


@pytest.fixture
def room(home: Instance) -> Room:
    return rooms.seen(home.id, TOKEN, "Harbour crew")


def keys(audience: Audience) -> set[str]:
    return {f"{each.kind}/{each.id}" for each in audience.principals}


def asked_of(server: Nextcloud) -> int:
    return len([path for path in server.asked if path.endswith("/participants")])


def test_the_members_are_the_audience_and_the_actor_belongs_to_it(room: Room) -> None:
    found = members.audience(room, Actor("guests", "abc", "Guest"))
    assert (keys(found), found.complete) == ({"users/ada", "users/bob", "guests/abc"}, True)


def test_guests_mail_addresses_and_people_of_other_servers_are_readers(server: Nextcloud, room: Room) -> None:
    others = [("guests", "g1"), ("emails", "m1"), ("federated_users", "x@y.test"), ("phones", "p1"), ("novel", "n1")]
    server.conversation(TOKEN, others, users=["parley"])
    assert keys(members.audience(room, ADA)) == {f"{kind}/{id}" for kind, id in others} | {"users/ada"}


def test_groups_and_teams_are_expanded_where_the_server_opens_them(server: Nextcloud, room: Room) -> None:
    server.user("parley", "app-password", groups=["admin"])
    server.groups["crew"] = {"carol"}
    server.circle("c1", {("groups", "crew"): 1, ("emails", "eve@x.test"): 1, ("circles", "c2"): 1})
    server.circle("c2", {("users", "bob"): 9, ("circles", "c1"): 1})
    server.conversation(TOKEN, users=["parley"], groups=["crew"], circles=["c1"])
    assert keys(members.audience(room, ADA)) == {"users/ada", "users/bob", "users/carol", "emails/eve@x.test"}


def test_a_group_that_is_not_opened_stands_beside_its_people(server: Nextcloud, room: Room) -> None:
    server.groups["crew"] = {"carol"}
    server.conversation(TOKEN, users=["parley"], groups=["crew"])
    found = members.audience(room, ADA)
    assert (keys(found), found.complete) == ({"users/ada", "users/carol", "groups/crew"}, True)


def test_without_a_service_user_the_audience_is_unknown_and_not_empty(server: Nextcloud, home: Instance) -> None:
    serviceuser.take_away(home.id)
    found = members.audience(rooms.seen(home.id, TOKEN), ADA)
    assert (keys(found), found.complete, server.requests) == ({"users/ada"}, False, [])


def test_where_the_service_user_is_no_member_the_audience_is_unknown(server: Nextcloud, room: Room) -> None:
    server.conversation(TOKEN, users=["ada", "bob"])
    assert not members.audience(room, ADA).complete


def test_a_minute_is_asked_once_and_then_again(server: Nextcloud, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        assert members.audience(room, ADA).complete
    assert asked_of(server) == 1
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now + 61)
    server.conversation(TOKEN, users=["parley", "carol"])
    assert keys(members.audience(room, ADA)) == {"users/ada", "users/carol"}


def test_somebody_who_came_is_seen_at_once(server: Nextcloud, home: Instance, room: Room) -> None:
    members.audience(room, ADA)
    server.conversation(TOKEN, users=["parley", "ada", "carol"])
    rooms.members_changed(home.id, TOKEN)
    assert keys(members.audience(room, ADA)) == {"users/ada", "users/carol"}


def test_a_failure_is_unknown_and_not_remembered(server: Nextcloud, room: Room) -> None:
    server.fail(Fault.maintenance())
    assert not members.audience(room, ADA).complete
    assert members.audience(room, ADA).complete


def test_a_failure_within_a_group_makes_the_whole_unknown(server: Nextcloud, room: Room) -> None:
    server.user("parley", "app-password", groups=["admin"])
    server.groups["crew"] = {"carol"}
    server.conversation(TOKEN, users=["parley"], groups=["crew"])
    broken = Fault(503)
    answer = server._take

    def only_groups(kind: str) -> Fault | None:
        return broken if asked_of(server) else answer(kind)

    server._take = only_groups  # type: ignore[method-assign]
    assert not members.audience(room, ADA).complete
    server._take = answer  # type: ignore[method-assign]
    assert members.audience(room, ADA).complete


def test_a_wrong_password_is_not_tried_for_every_message(server: Nextcloud, home: Instance, room: Room) -> None:
    server.accounts["parley"].password = "changed"
    for _ in range(5):
        assert not members.audience(room, ADA).complete
    assert server.bad_logins == 1


UIDS = st.sampled_from(["ada", "bob", "carol", "Ada", "dörte", "a b", "100"])
SETS = st.sampled_from(["g1", "g2", "2026"])
TEAM_IDS = st.sampled_from(["c1", "c2", "c3"])
MEMBER = st.one_of(
    st.tuples(st.just("users"), UIDS),
    st.tuples(st.just("groups"), SETS),
    st.tuples(st.just("circles"), TEAM_IDS),
    st.tuples(st.sampled_from(["emails"]), st.sampled_from(["eve@x.test", "m@y.test"])),
)
ATTENDEE = st.one_of(
    MEMBER,
    st.tuples(st.sampled_from(["guests", "federated_users", "phones", "novel"]), st.sampled_from(["x1", "x2@y"])),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    attendees=st.sets(ATTENDEE, max_size=8),
    groups=st.dictionaries(SETS, st.sets(UIDS, max_size=4)),
    teams=st.dictionaries(TEAM_IDS, st.dictionaries(MEMBER, st.integers(0, 9), max_size=5)),
    administers=st.booleans(),
    hidden=st.sets(TEAM_IDS),
)
def test_the_audience_never_misses_a_member(
    server: Nextcloud,
    home: Instance,
    attendees: set[tuple[str, str]],
    groups: dict[str, set[str]],
    teams: dict[str, dict[tuple[str, str], int]],
    administers: bool,
    hidden: set[str],
) -> None:
    server.groups = {"admin": {"parley"} if administers else set(), **{name: set(all) for name, all in groups.items()}}
    server.circles = {id: dict(all) for id, all in teams.items()}
    server.hidden_circles = hidden
    server.conversation(TOKEN, {*attendees, ("users", "parley")})
    room = rooms.seen(home.id, TOKEN)
    rooms.members_changed(home.id, TOKEN)
    found = members.audience(room, Actor("users", "speaker", ""))
    assert found.complete
    everybody = {f"{kind}/{id}" for kind, id in server.people_in(TOKEN)} - {"users/parley"}
    assert everybody | {"users/speaker"} <= keys(found)
    assert {key for key in keys(found) if not key.startswith(("groups/", "teams/"))} == everybody | {"users/speaker"}


@pytest.mark.parametrize(("scope", "name"), [("groups", "crew"), ("teams", "core")])
def test_a_bot_for_some_serves_them_refuses_others_and_says_when_it_can_not_tell(
    server: Nextcloud, home: Instance, monkeypatch: pytest.MonkeyPatch, scope: str, name: str
) -> None:
    server.user("parley", "app-password", groups=["admin"])
    server.user("ada", groups=["crew"])
    server.circle("core", {("users", "ada"): 1})
    people.ensure(home.id, "bob")
    made = bot(instance=home, owner="bob", scope=scope, **{scope: [name]})
    first = access.may_use(made, ADA, home.id)
    assert (first.kind, first.reason) == ("unknown", scope)
    for uid, kind in (("ada", "allow"), ("carol", "deny")):
        members.confirm([made], Actor("users", uid, ""), home.id)
        assert access.may_use(made, Actor("users", uid, ""), home.id).kind == kind
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=61))
    with server.failing(Fault.maintenance()):
        members.confirm([made], ADA, home.id)
    told = access.may_use(made, ADA, home.id)
    assert told.kind == "unknown"
    assert "maintenance" in str(told.sentence)


def test_nobody_is_asked_about_for_a_bot_that_is_for_everyone(server: Nextcloud, home: Instance) -> None:
    people.ensure(home.id, "bob")
    made = bot(instance=home, owner="bob")
    members.confirm([made], ADA, home.id)
    members.confirm([bot("other", instance=home, scope="groups", groups=["g"])], Actor("guests", "x", ""), home.id)
    assert server.requests == []
