"""One row is one human of one instance."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.accounts import people
from app.infra import crypto
from app.infra.errors import BadInput, NotFound
from tests.accounts.conftest import House


def test_two_spellings_of_the_same_letters_are_one_person(house: House) -> None:
    composed, decomposed = "zo\u00eb", "zoe\u0308"
    assert composed != decomposed
    made = people.ensure(house.cloud.id, decomposed)
    assert people.ensure(house.cloud.id, composed).id == made.id
    assert made.uid == composed
    found = people.find(house.cloud.id, decomposed)
    assert found is not None
    assert found.id == made.id


@pytest.mark.parametrize("uid", ["Ada", "ADA", "ada.", "àda", "аda", "ada ada", "ａda"])
def test_a_confusable_uid_is_somebody_else(house: House, uid: str) -> None:
    assert people.find(house.cloud.id, uid) is None
    made = people.ensure(house.cloud.id, uid)
    assert made.id != house.ada.id
    assert not made.is_admin


def test_the_same_uid_elsewhere_is_somebody_else(house: House) -> None:
    assert house.namesake.id != house.ada.id
    people.grant(house.ada.id, admin=True)
    found = people.find(house.other.id, "ada")
    assert found is not None
    assert not found.is_admin
    assert people.first_admin(house.other.id) is None


@pytest.mark.parametrize(
    "uid",
    [
        "",
        " ",
        "ada ",
        " ada",
        "ada\n",
        "a\x00b",
        "a\tb",
        "a\x7fb",
        "users/ada",
        "a/b",
        "/",
        ".",
        "..",
        "a" * 191,
        "a\u200bda",
        "a\u202eda",
        "a\u2028da",
        "a\ud800da",
        "a\ue000da",
        "a\ufeffda",
    ],
)
def test_what_no_server_can_call_a_person_is_refused(house: House, uid: str) -> None:
    with pytest.raises(BadInput) as caught:
        people.ensure(house.cloud.id, uid)
    assert list(caught.value.fields) == ["uid"]
    assert people.find(house.cloud.id, uid) is None


def test_a_uid_of_190_characters_of_any_script_fits(house: House) -> None:
    uid = "\N{CJK UNIFIED IDEOGRAPH-6F22}" * 190
    assert people.ensure(house.cloud.id, uid).uid == uid


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=12))
def test_any_uid_is_refused_or_found_again_in_each_of_its_spellings(house: House, uid: str) -> None:
    try:
        made = people.ensure(house.cloud.id, uid)
    except BadInput:
        assert people.find(house.cloud.id, uid) is None
        return
    for form in ("NFC", "NFD"):
        found = people.find(house.cloud.id, unicodedata.normalize(form, uid))
        assert found is not None
        assert found.id == made.id


def test_a_display_name_is_kept_replaced_and_never_blanked(house: House) -> None:
    assert people.ensure(house.cloud.id, "ada", "Ada L.").display_name == "Ada L."
    assert people.ensure(house.cloud.id, "ada").display_name == "Ada L."
    assert people.ensure(house.cloud.id, "ada", "  ").display_name == "Ada L."
    assert people.ensure(house.cloud.id, "ada", "Ada\x00 " + "x" * 400).display_name == "Ada " + "x" * 251


def test_meeting_a_person_again_changes_no_rights(house: House) -> None:
    assert people.ensure(house.cloud.id, "carol", "Carol").is_admin


def test_the_first_administrator_is_the_oldest_one_and_made_when_missing(house: House) -> None:
    first = people.first_admin(house.cloud.id)
    assert first is not None
    assert first.uid == "carol"
    assert people.ensure_admin(house.cloud.id).uid == "carol"
    made = people.ensure_admin(house.other.id)
    assert (made.uid, made.is_admin, made.password_hash) == ("admin", True, None)
    assert people.ensure_admin(house.other.id).id == made.id


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025, "é" * 513, "null\x00byte", "lone\ud800half"])
def test_a_password_outside_the_limits_is_refused_without_being_repeated(house: House, password: str) -> None:
    with pytest.raises(BadInput) as caught:
        people.set_password(house.bob.id, password)
    assert list(caught.value.fields) == ["password"]
    assert not password or password not in str(caught.value)
    found = people.get(house.bob.id)
    assert found is not None
    assert found.password_hash is None


def test_a_password_is_kept_as_argon2_and_fits_in_each_spelling(house: House) -> None:
    people.set_password(house.bob.id, "café-crème")
    found = people.get(house.bob.id)
    assert found is not None
    assert str(found.password_hash).startswith("$argon2id$")
    assert crypto.password_fits(people.spelled(unicodedata.normalize("NFD", "café-crème")), str(found.password_hash))


def test_rights_of_nobody_can_not_be_changed(house: House) -> None:
    with pytest.raises(NotFound):
        people.grant(999_999, admin=True)
    with pytest.raises(NotFound):
        people.set_password(999_999, "long enough")


def test_people_are_listed_in_pages_and_found_by_words(house: House) -> None:
    people.ensure(house.cloud.id, "eve", "100% Eve_")
    everyone = people.listed()
    assert [row.id for row in everyone] == sorted(row.id for row in everyone)
    assert [row.uid for row in people.listed(house.cloud.id, limit=2)] == ["ada", "bob"]
    assert [row.uid for row in people.listed(house.cloud.id, after=house.bob.id, limit=2)] == ["carol", "dan"]
    assert [row.uid for row in people.listed(words="EVE")] == ["eve"]
    assert [row.uid for row in people.listed(words="0%")] == ["eve"]
    assert [row.uid for row in people.listed(words="e_")] == ["eve"]
    assert people.listed(words="' OR 1=1 --") == []
