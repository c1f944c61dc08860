"""Bearer tokens are worth what their person is at the moment of use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from app.accounts import people, tokens
from app.accounts.models import Token
from app.infra import clock
from app.infra.db import reading, transaction
from app.infra.errors import BadInput, NotAllowed, NotFound
from tests.accounts.conftest import House


def test_a_token_is_shown_once_and_kept_as_its_hash(house: House) -> None:
    id, token, expires_at = tokens.issue(house.cloud.id, person_id=house.ada.id, scope="user")
    assert token.startswith("ply_")
    assert len(token) >= 43
    assert expires_at > clock.now() + timedelta(days=364)
    with reading() as session:
        row = session.get(Token, id)
        assert row is not None
        assert token not in repr(vars(row))
        assert row.digest == tokens.digest(token)


def test_a_token_tells_who_sends_it(house: House) -> None:
    identity = tokens.verify(house.token(house.ada))
    assert identity is not None
    assert (identity.uid, identity.instance_id, identity.via, identity.scope) == (
        "ada",
        house.cloud.id,
        "token",
        "user",
    )
    assert (identity.admin, identity.operator) == (False, False)


@pytest.mark.parametrize("text", ["", "ply_", "ply_wrong", "x" * 10_000, "ply_" + "x" * 10_000, "ply_ü", "' OR 1=1 --"])
def test_any_other_text_tells_nobody(house: House, text: str) -> None:
    house.token(house.ada)
    assert tokens.verify(text) is None


def test_a_user_token_of_an_administrator_administers_nothing(house: House) -> None:
    identity = tokens.verify(house.token(house.carol))
    assert identity is not None
    assert not identity.admin


def test_an_administrator_token_stops_when_the_person_is_no_administrator_any_more(house: House) -> None:
    token = house.token(house.carol, "administrator")
    found = tokens.verify(token)
    assert found is not None
    assert found.admin
    people.grant(house.carol.id, admin=False)
    assert tokens.verify(token) is None
    people.grant(house.carol.id, admin=True)
    assert tokens.verify(token) is not None


def test_an_operator_token_stops_when_the_person_is_no_operator_any_more(house: House) -> None:
    token = house.token(house.dan, "operator")
    found = tokens.verify(token)
    assert found is not None
    assert (found.operator, found.admin) == (True, False)
    people.grant(house.dan.id, operator=False)
    assert tokens.verify(token) is None


@pytest.mark.parametrize("scope", ["administrator", "operator"])
def test_a_scope_can_not_be_abused_to_gain_rights(house: House, scope: str) -> None:
    with pytest.raises(NotAllowed):
        tokens.issue(house.cloud.id, person_id=house.ada.id, scope=scope)


def test_a_person_of_another_instance_gets_no_token_here(house: House) -> None:
    with pytest.raises(NotFound):
        tokens.issue(house.cloud.id, person_id=house.namesake.id, scope="user")


@pytest.mark.parametrize(
    "wish",
    [
        {"scope": "root"},
        {"scope": None},
        {"scope": "user", "allow": ["io.cozy.files"]},
        {"scope": "user", "days": 0},
        {"scope": "user", "days": 3651},
        {"scope": "user", "days": True},
        {"allow": ["io.cozy.files"]},
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(house: House, wish: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        tokens.issue(house.cloud.id, person_id=house.ada.id, **wish)


@pytest.mark.parametrize("allow", ["", "a b", "x\n", ":GET", "type:GE T", "type:GET:" + "v" * 501, "-x"])
def test_a_permission_of_another_form_is_refused(house: House, allow: str) -> None:
    with pytest.raises(BadInput):
        tokens.issue(house.cloud.id, allow=[allow])


def test_a_domain_token_carries_its_permissions_and_no_person(house: House) -> None:
    _, token, _ = tokens.issue(house.cloud.id, allow=["io.cozy.files:GET,POST:id1,id2", "io.cozy.ai.*"])
    identity = tokens.verify(token)
    assert identity is not None
    assert identity.person_id is None
    assert identity.allow == ("io.cozy.files:GET,POST:id1,id2", "io.cozy.ai.*")
    assert not identity.admin
    with pytest.raises(BadInput):
        tokens.issue(house.cloud.id, scope="user")


def test_an_expired_token_tells_nobody(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    _, token, expires_at = tokens.issue(house.cloud.id, person_id=house.ada.id, scope="user", days=1)
    monkeypatch.setattr(clock, "now", lambda: expires_at - timedelta(seconds=1))
    assert tokens.verify(token) is not None
    monkeypatch.setattr(clock, "now", lambda: expires_at)
    assert tokens.verify(token) is None


def test_a_token_is_revoked_only_by_whom_it_belongs_to(house: House) -> None:
    id, token, _ = tokens.issue(house.cloud.id, person_id=house.ada.id, scope="user")
    with pytest.raises(NotFound):
        tokens.revoke(id, person_id=house.bob.id)
    with pytest.raises(NotFound):
        tokens.revoke(id, instance_id=house.other.id)
    assert tokens.verify(token) is not None
    tokens.revoke(id, person_id=house.ada.id)
    assert tokens.verify(token) is None
    with pytest.raises(NotFound):
        tokens.revoke(id)


def test_steady_use_is_written_down_only_now_and_then(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    id, token, _ = tokens.issue(house.cloud.id, person_id=house.ada.id, scope="user")
    start = clock.now()

    def used_at(seconds: int) -> Any:
        monkeypatch.setattr(clock, "now", lambda: start + timedelta(seconds=seconds))
        assert tokens.verify(token) is not None
        with reading() as session:
            row = session.get(Token, id)
            assert row is not None
            return row.used_at

    assert used_at(1) == start + timedelta(seconds=1)
    assert used_at(200) == start + timedelta(seconds=1)
    assert used_at(302) == start + timedelta(seconds=302)


def test_a_token_is_verified_inside_a_block_too(house: House) -> None:
    token = house.token(house.ada)
    with reading():
        assert tokens.verify(token) is not None
    with transaction():
        assert tokens.verify(token) is not None


def test_long_expired_tokens_are_forgotten(house: House) -> None:
    tokens.issue(house.cloud.id, person_id=house.ada.id, scope="user", days=1)
    tokens.issue(house.cloud.id, person_id=house.ada.id, scope="user", days=100)
    assert tokens.forget_expired(before=clock.now() + timedelta(days=2)) == 1
    assert len(tokens.of_person(house.ada.id)) == 1
