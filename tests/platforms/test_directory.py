"""Groups and teams of a person, asked for at a Nextcloud."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from flask import Flask

from app.accounts import directory, instances, people, serviceuser
from app.accounts.directory import Memberships
from app.accounts.models import Instance
from app.infra import clock
from app.platforms.nextcloud_talk.directory import TEAMS
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault


@pytest.fixture
def server() -> Iterator[Nextcloud]:
    with Nextcloud("s" * 64) as made:
        made.user("parley", "app-password", groups=["admin", "robots"])
        made.user("ada", groups=["crew"], manages=["crew"])
        made.user("bob")
        made.circle("core", {("users", "ada"): 4, ("groups", "office"): 1})
        yield made
        made.check()


@pytest.fixture
def home(app: Flask, server: Nextcloud) -> Instance:
    made = instances.add("cloud", server.url)
    return serviceuser.give(made.id, "parley", "app-password")


def told(home: Instance, uid: str) -> Memberships:
    return directory.refresh(people.ensure(home.id, uid).id)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now, monotonic = clock.now(), clock.monotonic()
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=seconds))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic + seconds)


def test_an_administrators_account_is_told_everything(home: Instance, server: Nextcloud) -> None:
    ada = told(home, "ada")
    assert (ada.groups, ada.managed_groups) == ({"crew"}, {"crew"})
    assert (ada.teams, ada.managed_teams) == ({"core"}, {"core"})
    assert (ada.fresh, ada.teams_fresh, ada.problem) == (True, True, None)
    bob = told(home, "bob")
    assert bob.belongs("groups", ["crew"]) is False
    assert bob.belongs("teams", ["core"]) is False
    assert bob.belongs("teams", ["core", "unseen"]) is None
    assert ada.belongs("teams", ["core", "unseen"]) is True
    assert ada.belongs("groups", []) is False


def test_a_team_holds_groups_and_teams(home: Instance, server: Nextcloud) -> None:
    server.circle("all", {("circles", "core"): 1, ("circles", "all"): 1})
    server.user("bob", groups=["office"])
    bob = told(home, "bob")
    assert (bob.teams, bob.managed_teams) == ({"core", "all"}, frozenset())
    assert told(home, "ada").teams == {"core", "all"}
    server.user("eve")
    assert told(home, "eve").belongs("teams", ["all"]) is False


def test_the_bob_of_another_server_can_not_be_abused_to_join_a_team(home: Instance, server: Nextcloud) -> None:
    server.circle("far", {("users", "bob"): 9})
    server.remote_members.add(("users", "bob"))
    assert told(home, "bob").belongs("teams", ["far"]) is False


def test_a_minute_is_not_asked_twice_and_later_it_is(
    home: Instance, server: Nextcloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(home, "ada")
    asked = len(server.asked)
    told(home, "ada")
    assert len(server.asked) == asked
    server.groups["crew"].clear()
    server.circles["core"].clear()
    later(monkeypatch, 61)
    ada = told(home, "ada")
    assert (ada.groups, ada.teams) == (frozenset(), frozenset())
    assert ada.belongs("groups", ["crew"]) is False


def test_a_team_that_can_not_be_seen_is_unknown(home: Instance, server: Nextcloud) -> None:
    server.hidden_circles.add("core")
    assert told(home, "ada").belongs("teams", ["core"]) is None


def test_without_the_teams_app_groups_are_known_and_teams_are_not(home: Instance, server: Nextcloud) -> None:
    server.without_circles = True
    ada = told(home, "ada")
    assert ada.belongs("groups", ["crew"]) is True
    assert (ada.belongs("teams", ["core"]), ada.problem) == (None, "unknown_route")


def test_an_ordinary_account_is_told_of_itself_only(home: Instance, server: Nextcloud) -> None:
    server.groups["admin"].clear()
    ada = told(home, "ada")
    assert (ada.belongs("groups", ["crew"]), ada.problem, ada.fresh) == (None, "missing", False)
    assert ada.belongs("teams", ["core"]) is True
    assert told(home, "bob").belongs("teams", ["core"]) is None
    assert told(home, "parley").belongs("groups", ["robots"]) is True
    assert told(home, "parley").belongs("groups", ["crew"]) is False


def test_a_sub_admin_knows_who_is_in_its_groups_and_not_who_is_in_none(home: Instance, server: Nextcloud) -> None:
    server.groups["admin"].clear()
    server.user("parley", "app-password", manages=["crew"])
    server.user("ada", groups=["crew", "board"])
    ada = told(home, "ada")
    assert ada.belongs("groups", ["crew"]) is True
    assert ada.belongs("groups", ["board"]) is None
    assert told(home, "bob").belongs("groups", ["crew"]) is None


def test_a_failure_leaves_what_was_known_and_marks_it_stale(
    home: Instance, server: Nextcloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(home, "ada")
    later(monkeypatch, 61)
    with server.failing(Fault.maintenance()):
        ada = told(home, "ada")
    assert (ada.groups, ada.fresh, ada.problem) == ({"crew"}, False, "maintenance")
    assert ada.belongs("groups", ["crew"]) is None
    assert told(home, "ada").belongs("groups", ["crew"]) is True


def test_a_refused_password_costs_one_request(home: Instance, server: Nextcloud) -> None:
    server.accounts["parley"].password = "changed"
    for uid in ("ada", "bob", "ada"):
        assert told(home, uid).problem == "refused"
    assert server.bad_logins == 1


def test_without_a_service_user_only_what_an_administrator_listed_is_known(app: Flask, server: Nextcloud) -> None:
    made = instances.add("bare", server.url)
    ada = people.ensure(made.id, "ada")
    assert directory.refresh(ada.id).belongs("groups", ["crew"]) is None
    assert directory.refresh(ada.id).problem == "no_service_user"
    directory.remember(ada.id, groups=directory.named(["crew"]))
    assert directory.refresh(ada.id).belongs("groups", ["crew"]) is True
    assert directory.refresh(ada.id).belongs("groups", ["board"]) is False
    assert directory.refresh(ada.id).belongs("teams", ["core"]) is None
    assert server.requests == []


def test_another_service_user_or_none_confirms_everything_anew(home: Instance, server: Nextcloud) -> None:
    assert told(home, "ada").fresh
    serviceuser.take_away(home.id)
    person = people.ensure(home.id, "ada")
    assert directory.memberships(person.id).belongs("groups", ["crew"]) is None
    server.user("second", "other")
    serviceuser.give(home.id, "second", "other")
    TEAMS.drop((home.id, home.url, "second", "x"))
    assert told(home, "ada").belongs("groups", ["crew"]) is None


def test_a_name_that_fits_nowhere_is_left_out_and_the_rest_counts(home: Instance, server: Nextcloud) -> None:
    server.user("ada", groups=["crew", "x" * 191])
    ada = told(home, "ada")
    assert ada.groups == {"crew"}
    assert ada.belongs("groups", ["board"]) is None
