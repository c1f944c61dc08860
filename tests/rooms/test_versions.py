from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask

from app.accounts import people
from app.bots import store
from app.bots.models import Bot
from app.bots.review import decide, edit
from app.bots.review.rights import Who
from tests.conftest import Sent
from tests.fakes.house import House, built


@pytest.fixture
def house(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent) as made:
        made.bot("atlas")
        yield made


def who(house: House, uid: str, *, admin: bool = False) -> Who:
    return Who(people.ensure(house.instance.id, uid).id, house.instance.id, uid, admin=admin)


def atlas(house: House) -> Bot:
    found = store.get(house.bots["atlas"].id)
    assert found is not None
    return found


def met(house: House, uid: str) -> tuple[bool, set[str]]:
    """Whether the model was given the new prompt when `uid` asked, and which of the assigned tools."""
    house.hear("@atlas which berth is free?", actor=f"users/{uid}")
    house.work()
    body = house.asked()
    tools = {tool["function"]["name"] for tool in body.get("tools", ())}
    return "A new prompt." in body["messages"][0]["content"], tools & {"attachment_analyze_image"}


def test_owner_and_tester_talk_to_what_is_pending_and_everybody_else_to_what_is_live(house: House) -> None:
    proposed = {"system_prompt": "A new prompt.", "tools": []}
    bot = edit.change(who(house, "bob"), atlas(house), proposed)
    carol = who(house, "carol", admin=True)
    assert met(house, "ada") == (False, {"attachment_analyze_image"})
    assert met(house, "carol") == (False, {"attachment_analyze_image"})
    decide.test(carol, bot)
    assert met(house, "bob") == (True, set())
    assert met(house, "carol") == (True, set())
    assert met(house, "ada") == (False, {"attachment_analyze_image"})
    decide.approve(carol, atlas(house))
    assert met(house, "ada") == (True, set())


def test_a_bot_that_was_never_approved_answers_its_owner_and_tells_others_that_it_is_not_for_them(house: House) -> None:
    bob = who(house, "bob")
    draft = edit.change(bob, atlas(house), {"state": "draft"})
    waiting = decide.submit(bob, draft, {"approval_reason": "Asked for."})
    house.hear("@atlas which berth is free?", actor="users/ada")
    house.work()
    assert [text.replace("\u200b", "") for text in house.talk.texts] == [
        "@atlas is not for you; whoever made it can share it."
    ]
    assert not house.model.chats
    decide.test(who(house, "carol", admin=True), waiting)
    for uid in ("bob", "carol"):
        met(house, uid)
    assert len(house.model.chats) == 2
