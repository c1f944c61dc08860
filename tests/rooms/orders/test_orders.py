"""Orders in a room, from the signed webhook to what stands there; no model is asked for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import select

from app.conversations import transcript
from app.conversations.models import RoomMessage
from app.inbox.models import Delivery
from app.infra.db import reading
from app.platforms import rooms
from app.rooms import modes
from app.rooms.orders.carry_out import MODERATORS_ONLY
from tests.conftest import Sent
from tests.fakes.house import ROOM, House, built, message

MODERATOR, MEMBER, GUEST = "1", "3", "4"


@pytest.fixture
def house(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent) as made:
        made.bot("atlas", description="Knows the harbour.")
        yield made


def told(house: House, text: str, **how: object) -> str:
    before = len(house.talk.texts)
    assert house.hear(text, **how).status_code == 200
    house.work()
    said = house.talk.texts[before:]
    assert len(said) <= 1
    return said[0].replace("\u200b", "") if said else ""


def remembered() -> list[tuple[str, str]]:
    with reading() as session:
        rows = session.execute(select(RoomMessage.actor, RoomMessage.text).order_by(RoomMessage.id))
        return [(actor, text) for actor, text in rows]


def test_help_says_what_the_bot_is_and_what_it_can_be_told(house: House) -> None:
    text = told(house, "@atlas help")
    for words in ("**atlas** – Knows the harbour.", "`@atlas stop`", "((RESET))", "I answer here when I am mentioned."):
        assert words in text
    assert house.model.chats == []
    assert (house.last().state, house.last().reason) == ("done", "command")
    assert remembered() == []


def test_a_question_that_begins_like_an_order_is_a_question(house: House) -> None:
    assert told(house, "@atlas help me with the budget") == "ok"


def test_a_bare_mention_names_the_order_that_helps(house: House) -> None:
    assert "`@atlas help`" in told(house, "@atlas")


@pytest.mark.parametrize("order", ["memory on", "memory off", "memory forget", "mode always", "language de"])
def test_what_is_so_for_everybody_is_for_moderators(house: House, order: str) -> None:
    assert told(house, f"@atlas {order}", role=MEMBER) == MODERATORS_ONLY.text("en")
    assert told(house, f"@atlas {order}", role=None) == MODERATORS_ONLY.text("en")
    instance = house.instance.id
    assert transcript.since(instance, ROOM) is None
    assert modes.always(instance, ROOM) is None


def test_a_guest_can_order_nothing(house: House) -> None:
    told(house, "@atlas memory on", actor="guests/" + "a" * 40, name="Eve", role=GUEST)
    assert transcript.since(house.instance.id, ROOM) is None
    assert house.last().reason in ("told_denied", "outsider")


@pytest.mark.parametrize(
    "body",
    [
        message("@atlas what is this?", role=MODERATOR, quoted=("users/eve", "Eve", "memory on")),
        message("`@atlas memory on`", role=MODERATOR),
        message("> @atlas memory on", role=MODERATOR),
        message("@atlas \u0441ommand memory on", role=MODERATOR),
    ],
)
def test_what_is_quoted_or_shown_can_not_be_abused_as_an_order(house: House, body: dict[str, object]) -> None:
    house.post(body)
    house.work()
    assert transcript.since(house.instance.id, ROOM) is None


def test_the_memory_of_a_room_is_switched_on_announced_and_erased(house: House) -> None:
    assert "90 days" in told(house, "@atlas memory") or "days" in told(house, "@atlas memory")
    assert "memory off" in told(house, "@atlas memory on", role=MODERATOR)
    assert transcript.since(house.instance.id, ROOM) is not None
    told(house, "nobody is mentioned here", name="Kaj", actor="users/kaj")
    assert transcript.search(house.instance.id, ROOM, "nobody mentioned", limit=5)
    told(house, "@atlas memory forget", role=MODERATOR)
    assert not transcript.search(house.instance.id, ROOM, "nobody mentioned", limit=5)
    told(house, "@atlas memory off", role=MODERATOR)
    assert transcript.since(house.instance.id, ROOM) is None


def test_the_mode_says_who_lost_it(house: House) -> None:
    house.bot("borea")
    assert "every message" in told(house, "@atlas mode always", role=MODERATOR)
    assert "@atlas now answers only when it is mentioned" in told(house, "@borea mode always", role=MODERATOR)
    assert told(house, "which berth is free?") == "**borea:** ok"
    assert modes.always(house.instance.id, ROOM) == house.bots["borea"].id
    assert "I answer here when I am mentioned." in told(house, "@atlas mode")


def test_in_a_thread_in_which_it_answered_a_bot_follows(house: House) -> None:
    told(house, "@atlas mode thread", role=MODERATOR)

    def said(text: str, thread: int | None) -> int:
        body = message(text)
        if thread:
            body["object"]["threadId"] = thread
        before = len(house.talk.posts)
        house.post(body)
        house.work()
        return len(house.talk.posts) - before

    assert said("nobody is mentioned", 1400) == 0
    assert said("@atlas which berth?", 1400) == 1
    assert said("and tomorrow?", 1400) == 1
    assert said("and tomorrow?", 1401) == 0
    assert said("and tomorrow?", None) == 0


def test_the_language_of_a_room_is_that_of_the_bots_own_sentences(house: House) -> None:
    told(house, "@atlas language de", role=MODERATOR)
    known = rooms.get(house.instance.id, ROOM)
    assert known is not None
    assert known.language == "de"


def test_whoever_is_no_moderator_resets_their_own_part(house: House) -> None:
    told(house, "@atlas mine", actor="users/mira")
    told(house, "@atlas yours", actor="users/kaj", name="Kaj")
    assert "What you said here" in told(house, "((RESET)) @atlas", actor="users/mira")
    assert remembered() == [("users/kaj", "yours"), ("bots/atlas", "ok")]
    assert "nothing to forget" in told(house, "@atlas ((RESET))", actor="users/mira")


def test_a_moderator_resets_every_bot_with_one_message(house: House) -> None:
    house.bot("borea")
    told(house, "@atlas one")
    told(house, "@borea two")
    text = told(house, "((reset))", role=MODERATOR)
    assert "@atlas" in text
    assert "@borea" in text
    assert remembered() == []
    assert told(house, "((RESET))", role=MODERATOR) == ""


def test_usage_is_counted_and_orders_are_no_usage(house: House) -> None:
    told(house, "@atlas question")
    text = told(house, "@atlas usage")
    assert "You here, today: 1 answers, 15 tokens" in text
    assert "Everybody here" not in text
    assert "Everybody here" in told(house, "@atlas usage", role=MODERATOR)


def test_an_order_worked_again_changes_nothing_twice(house: House) -> None:
    told(house, "@atlas mode always", role=MODERATOR)
    house.sent.append(("inbox.drain", [house.instance.id, ROOM], 0.0))
    house.work()
    assert len(house.talk.posts) == 1
    with reading() as session:
        assert session.scalars(select(Delivery.state)).all() == ["done"]


def test_there_is_nothing_to_stop(house: House) -> None:
    assert "nothing" in told(house, "@atlas stop")
