from __future__ import annotations

import pytest
from flask import Flask

from app.accounts import people
from app.bots import access, store
from app.bots.access import Why
from app.infra.i18n import LANGUAGES
from app.platforms.base import Actor
from tests.bots.conftest import bot, cloud

ADA = Actor("users", "ada", "Ada")
BOB = Actor("users", "bob", "Bob")
STRANGER = Actor("users", "nobody.knows", "New")


def test_an_approved_bot_for_everyone_serves_every_local_person(app: Flask) -> None:
    made = bot()
    for actor in (ADA, STRANGER, Actor("users", "Åsa Berg", "Åsa")):
        decision = access.may_use(made, actor, made.instance_id)
        assert (decision.kind, decision.reason) == ("allow", Why.EVERYONE)


def test_a_personal_bot_serves_its_owner_only(app: Flask) -> None:
    made = bot(scope="personal")
    assert access.may_use(made, BOB, made.instance_id).reason == Why.OWNER
    decision = access.may_use(made, ADA, made.instance_id)
    assert (decision.kind, decision.reason) == ("deny", Why.PERSONAL)
    assert "@atlas" in str(decision.sentence)


def test_a_draft_serves_its_owner_only_and_tells_strangers_no_more_than_a_personal_bot(app: Flask) -> None:
    made = bot(state="draft")
    assert access.may_use(made, BOB, made.instance_id).allowed
    decision = access.may_use(made, ADA, made.instance_id)
    assert (decision.kind, decision.reason) == ("deny", Why.DRAFT)
    other = bot("muse", scope="personal")
    assert decision.sentence.msgid == access.may_use(other, ADA, made.instance_id).sentence.msgid


def test_a_bot_that_is_switched_off_serves_nobody(app: Flask) -> None:
    made = bot()
    made = store.update(made.id, {"is_active": False})
    assert access.may_use(made, BOB, made.instance_id).reason == Why.INACTIVE


@pytest.mark.parametrize("kind", ["guests", "emails", "federated_users"])
def test_guests_by_any_name_reach_no_bot_that_nobody_opened(app: Flask, kind: str) -> None:
    for made in (bot(), bot("muse", scope="personal")):
        decision = access.may_use(made, Actor(kind, "bob", "Bob"), made.instance_id)
        assert (decision.kind, decision.reason) == ("deny", Why.NOT_OPENED)


@pytest.mark.parametrize("kind", ["bots", "bridged", "deleted_users", "phones", "unknown", "", "Users"])
def test_what_is_no_person_reaches_no_bot(app: Flask, kind: str) -> None:
    assert access.may_use(bot(), Actor(kind, "bob", "Bob"), cloud().id).reason == Why.NOT_A_PERSON


@pytest.mark.parametrize(
    "uid", ["owner@https://x/bob", "x/bob", "BOB", "bob ", " bob", "bob/", "", "\u0430ob", "bob\x00"]
)
def test_an_actor_id_can_not_be_abused_to_become_somebody_else(app: Flask, uid: str) -> None:
    assert not access.may_use(bot(scope="personal"), Actor("users", uid, "Bob"), cloud().id).allowed


def test_the_person_of_the_same_name_on_another_server_is_somebody_else(app: Flask) -> None:
    made, other = bot(scope="personal"), cloud("other")
    assert people.find(other.id, "bob") is not None
    decision = access.may_use(made, BOB, other.id)
    assert (decision.kind, decision.reason) == ("deny", Why.OTHER_INSTANCE)


@pytest.mark.parametrize("scope", ["groups", "teams"])
def test_groups_and_teams_are_unknown_until_somebody_confirms_them(app: Flask, scope: str) -> None:
    made = bot(scope=scope, **{scope: ["crew"]})
    decision = access.may_use(made, ADA, made.instance_id)
    assert (decision.kind, decision.reason, decision.allowed) == ("unknown", Why(scope), False)
    assert access.may_use(made, BOB, made.instance_id).allowed


def test_many_bots_are_decided_as_each_of_them_is(app: Flask) -> None:
    made = [bot(), bot("muse", scope="personal"), bot("kelp", state="draft"), bot("quill", scope="teams", teams=["t"])]
    for actor in (ADA, BOB, Actor("guests", "x", "")):
        assert access.each(made, actor, cloud().id) == [access.may_use(each, actor, cloud().id) for each in made]


def test_every_decision_has_a_sentence_in_every_language(app: Flask) -> None:
    for actor in (ADA, BOB, Actor("guests", "x", ""), Actor("bots", "x", "")):
        for language in LANGUAGES:
            assert access.may_use(bot_once(), actor, cloud().id).sentence.text(language)


def bot_once():  # type: ignore[no-untyped-def]
    return store.by_mention(cloud().id, "atlas") or bot()


def test_whoever_is_refused_is_told_what_to_do(app: Flask) -> None:
    made = bot(scope="personal")
    for actor, way in ((ADA, "can share it"), (Actor("guests", "7d0c", "Guest"), "ask somebody with an account")):
        assert way in str(access.may_use(made, actor, made.instance_id).sentence)
