"""A bot for some, in a room: who is in its groups and teams is asked of the server before it answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask

from app.accounts import serviceuser
from tests.conftest import Sent
from tests.fakes.house import House, built
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault


@pytest.fixture
def house(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent, server=Nextcloud) as made:
        cloud = made.talk
        assert isinstance(cloud, Nextcloud)
        cloud.user("parley", "app-password", groups=["admin"])
        cloud.user("mira", groups=["crew"])
        cloud.user("eve")
        cloud.circle("core-id", {("users", "mira"): 1})
        made.bot("crewbot", scope="groups", groups=["crew"])
        made.bot("corebot", scope="teams", teams=["core-id"])
        made.bot("atlas")
        yield made


def told(house: House, text: str, *, actor: str) -> str:
    house.hear(text, actor=actor, name=actor.partition("/")[2].title())
    house.work()
    return house.talk.posts[-1].text if house.talk.posts else ""


@pytest.mark.parametrize("name", ["crewbot", "corebot"])
def test_members_are_answered_and_others_are_told_no(house: House, name: str) -> None:
    serviceuser.give(house.instance.id, "parley", "app-password")
    house.model.say("Aye.")
    assert told(house, f"@{name} hello", actor="users/mira") == "Aye."
    assert "you are in none of them" in told(house, f"@{name} hello", actor="users/eve")
    assert house.last().reason == "told_denied"
    assert len(house.model.chats) == 1


@pytest.mark.parametrize("name", ["crewbot", "corebot"])
def test_without_a_service_user_nobody_is_guessed_about(house: House, name: str) -> None:
    assert "no service user is set" in told(house, f"@{name} hello", actor="users/mira")
    assert (house.last().reason, house.model.chats) == ("told_unsure", [])


def test_a_server_that_does_not_tell_is_unknown_and_the_next_time_it_may(house: House) -> None:
    serviceuser.give(house.instance.id, "parley", "app-password")
    house.talk._always = Fault(503, of="other")
    assert "maintenance" in told(house, "@crewbot hello", actor="users/mira")
    house.talk._always = None
    house.model.say("Aye.")
    assert told(house, "@crewbot hello", actor="users/mira") == "Aye."


def test_a_bot_for_everyone_costs_no_question_to_the_server(house: House) -> None:
    serviceuser.give(house.instance.id, "parley", "app-password")
    house.model.say("Aye.")
    assert told(house, "@atlas hello", actor="users/mira") == "Aye."
    assert isinstance(house.talk, Nextcloud)
    assert house.talk.asked == []
