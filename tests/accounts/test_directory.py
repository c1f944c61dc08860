"""Groups and teams, and how fresh they are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.accounts import directory
from app.accounts.directory import Belonging
from app.accounts.models import Instance
from app.infra import clock
from app.infra.db import transaction
from app.infra.errors import BadInput, NotFound
from tests.accounts.conftest import House


def give_service_user(house: House) -> None:
    with transaction() as session:
        row = session.get(Instance, house.cloud.id)
        assert row is not None
        row.service_uid = "parley"


def test_groups_and_teams_are_replaced_apart_from_each_other(house: House) -> None:
    directory.remember(house.ada.id, groups=[Belonging("staff"), Belonging("lab", True)], teams=[Belonging("core")])
    directory.remember(house.ada.id, groups=[Belonging("lab"), Belonging("lab", True)])
    found = directory.memberships(house.ada.id)
    assert (found.groups, found.teams) == (frozenset({"lab"}), frozenset({"core"}))
    assert found.managed_groups == frozenset({"lab"})
    directory.remember(house.ada.id, groups=[])
    assert directory.memberships(house.ada.id).groups == frozenset()


def test_names_are_compared_exactly(house: House) -> None:
    directory.remember(house.ada.id, groups=directory.named(["Staff", "staff", " staff "]))
    assert directory.memberships(house.ada.id).groups == frozenset({"Staff", "staff"})


def test_a_namesake_has_none_of_them(house: House) -> None:
    directory.remember(house.ada.id, groups=directory.named(["staff"]))
    assert directory.memberships(house.namesake.id).groups == frozenset()


def test_the_list_of_an_administrator_is_always_fresh(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.remember(house.ada.id, groups=directory.named(["staff"]))
    later = clock.now() + timedelta(days=30)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert directory.memberships(house.ada.id).fresh


def test_what_a_server_told_ages(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    give_service_user(house)
    assert not directory.memberships(house.bob.id).fresh
    directory.remember(house.ada.id, groups=directory.named(["staff"]))
    seen = directory.memberships(house.ada.id)
    assert seen.fresh
    assert seen.seen_at is not None
    at = seen.seen_at
    monkeypatch.setattr(clock, "now", lambda: at + timedelta(seconds=61))
    assert not directory.memberships(house.ada.id).fresh
    assert directory.memberships(house.ada.id).groups == frozenset({"staff"})


def test_nobody_belongs_to_nothing_and_is_not_fresh(house: House) -> None:
    found = directory.memberships(999_999)
    assert (found.groups, found.fresh, found.seen_at) == (frozenset(), False, None)
    with pytest.raises(NotFound):
        directory.remember(999_999, groups=[])


@pytest.mark.parametrize("name", ["", "  ", "x" * 191])
def test_a_name_that_fits_nowhere_changes_nothing(house: House, name: str) -> None:
    directory.remember(house.ada.id, groups=directory.named(["staff"]))
    with pytest.raises(BadInput):
        directory.remember(house.ada.id, groups=directory.named(["new", name]))
    assert directory.memberships(house.ada.id).groups == frozenset({"staff"})
