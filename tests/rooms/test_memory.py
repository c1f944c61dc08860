"""What room_search_messages sees: the live room, else the transcript, else the bot's own conversations (product.md K10)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.accounts import serviceuser
from app.conversations import transcript
from app.conversations.models import RoomMessage, TranscriptMessage
from app.infra.db import reading
from app.rooms.thinking import live
from tests.conftest import Sent
from tests.fakes import nextcloud
from tests.fakes.house import ROOM, House, built, numbers
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault


@pytest.fixture
def house(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent, server=Nextcloud) as made:
        made.bot("atlas")
        cloud = server(made)
        cloud.user("parley", "app-password")
        cloud.user("mira")
        cloud.conversation(ROOM, users=["mira", "parley"])
        yield made


def server(house: House) -> Nextcloud:
    assert isinstance(house.talk, Nextcloud)
    return house.talk


def with_service_user(house: House) -> Nextcloud:
    serviceuser.give(house.instance.id, "parley", "app-password")
    return server(house)


def searched(house: House, query: str, **arguments: Any) -> str:
    """What the model was told when it searched the room for this."""
    house.model.call("room_search_messages", {"query": query} | arguments)
    house.model.say("Done.")
    number = len(house.model.chats)
    assert house.hear(f"@atlas please look for {query}", id=next(numbers)).status_code == 200
    house.work()
    for chat in house.model.chats[number:]:
        told = [entry["content"] for entry in chat.body["messages"] if entry["role"] == "tool"]
        if told:
            return str(told[-1])
    raise AssertionError(house.last().reason)


def kept(model: type[Any]) -> list[str]:
    with reading() as session:
        return [row.text for row in session.scalars(select(model).order_by(model.id))]


def test_with_a_service_user_everything_in_the_room_is_found_and_nothing_kept(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Talk removes expired messages by a job of its own: until then they are still there.
    monkeypatch.setattr(nextcloud, "expired", lambda *_: False)
    cloud = with_service_user(house)
    cloud.say(ROOM, "users/bob", "the harbour budget is 4,000")
    cloud.say(ROOM, "bots/bot-9", "Budget noted.", name="Ledger (Bot)")
    cloud.say(ROOM, "guests/g1", "budget? no", name="Gast")
    cloud.say(ROOM, "users/bob", "You changed the budget", systemMessage="user_added", messageType="system")
    gone = cloud.say(ROOM, "users/bob", "secret budget")
    cloud.delete(ROOM, gone)
    cloud.say(ROOM, "users/bob", "expired budget", expirationTimestamp=int(time.time()) - 1)
    told = searched(house, "harbour budget")
    assert "] Bob, " in told.splitlines()[0]
    assert "the harbour budget is 4,000" in told.splitlines()[0]
    assert "Ledger (Bot)" in told
    assert "Gast" in told
    assert "Everything that stands in this room now was searched." in told
    assert not any(word in told for word in ("secret", "You changed", "Message deleted", "expired"))
    assert not any("harbour budget is 4,000" in text for text in kept(RoomMessage))
    assert kept(TranscriptMessage) == []


def test_name_and_times_narrow_the_live_search(house: House) -> None:
    cloud = with_service_user(house)
    day = datetime(2026, 3, 2, 9, 0, tzinfo=UTC).timestamp()
    cloud.say(ROOM, "users/ada", "budget one", at=day)
    cloud.say(ROOM, "users/bob", "budget two", at=day + 86_400)
    cloud.say(ROOM, "users/bob", "budget three", at=day + 2 * 86_400)
    assert [word in searched(house, "budget", from_name="bob") for word in ("one", "two", "three")] == [0, 1, 1]
    told = searched(house, "budget", since="2026-03-03", until="2026-03-03")
    assert [word in told for word in ("budget one", "budget two", "budget three")] == [False, True, False]


def test_a_long_room_is_searched_so_far_and_says_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = with_service_user(house)
    monkeypatch.setattr(live, "PAGE", 10)
    monkeypatch.setattr(live, "MOST_PAGES", 3)
    cloud.say(ROOM, "users/ada", "needle")
    for number in range(40):
        cloud.say(ROOM, "users/ada", f"hay {number}")
    told = searched(house, "needle")
    assert "Nothing was found." in told
    assert "older messages were not" in told


def test_when_the_room_can_not_be_read_the_bot_says_so_and_uses_what_it_has(house: House) -> None:
    cloud = with_service_user(house)
    cloud.conversation(ROOM, users=["mira"])
    told = searched(house, "budget")
    assert "can't be read now: the service user is no member there" in told
    assert "Only what people said to this bot" in told


def test_a_server_that_is_away_costs_a_sentence_and_no_answer(house: House) -> None:
    with_service_user(house)
    server(house)._always = Fault(503, of="other")
    assert "maintenance" in searched(house, "budget")
    server(house)._always = None
    assert house.last().state == "done"
    assert house.talk.texts == ["Done."]


def test_without_a_service_user_the_transcript_is_searched_where_it_is_on(house: House) -> None:
    house.hear("the harbour budget is 3,000", actor="users/bob", name="Bob")
    house.work()
    transcript.switch_on(house.instance.id, ROOM, actor="users/mira")
    house.hear("the harbour budget is 4,000", actor="users/bob", name="Bob")
    house.work()
    told = searched(house, "harbour budget")
    assert "4,000" in told
    assert "3,000" not in told
    assert "while the room's memory was on" in told
    assert kept(TranscriptMessage)[0] == "the harbour budget is 4,000"
    assert kept(TranscriptMessage)[-1] == "Done."
    assert server(house).asked == []


def test_without_either_only_the_bots_own_conversations_are_searched(house: House) -> None:
    house.hear("the harbour budget is 4,000")
    house.work()
    told = searched(house, "harbour budget")
    assert "4,000" not in told
    assert "Only what people said to this bot" in told
    assert kept(TranscriptMessage) == []


def test_what_the_service_user_or_a_bot_says_is_not_kept(house: House) -> None:
    transcript.switch_on(house.instance.id, ROOM, actor="users/mira")
    with_service_user(house)
    house.hear("from us", actor="users/parley")
    house.hear("from a bot", actor="bots/bot-1", role=None)
    house.work()
    assert kept(TranscriptMessage) == []


def system(house: House, name: str, *, actor: str = "users/mira") -> None:
    body = {
        "type": "Activity",
        "actor": {"type": "Person", "id": actor, "name": "Mira"},
        "object": {"type": "Note", "id": "991000", "name": name, "content": json.dumps({"message": "x"})},
        "target": {"type": "Collection", "id": ROOM, "name": "Harbour crew"},
    }
    house.post(body)
    house.work()


def test_a_cleared_history_erases_the_transcript(house: House) -> None:
    transcript.switch_on(house.instance.id, ROOM, actor="users/mira")
    house.hear("something")
    house.work()
    system(house, "history_cleared")
    assert kept(TranscriptMessage) == []


def test_a_deleted_message_is_told_apart_where_a_service_user_reads_again(house: House) -> None:
    transcript.switch_on(house.instance.id, ROOM, actor="users/mira")
    cloud = with_service_user(house)
    ids = [cloud.say(ROOM, "users/mira", text) for text in ("stays", "slipped out")]
    for id, text in zip(ids, ("stays", "slipped out"), strict=True):
        house.hear(text, id=id)
    house.work()
    cloud.delete(ROOM, ids[1])
    # A moderator deleted it: the event is theirs, not the author's.
    system(house, "message_deleted", actor="users/carol")
    assert kept(TranscriptMessage) == ["stays"]
    bodies = {row.object_id: row.body for row in house.deliveries() if row.kind == "message"}
    assert [bodies[str(id)] is None for id in ids] == [False, True]


def test_without_a_service_user_the_authors_last_hour_goes(house: House) -> None:
    transcript.switch_on(house.instance.id, ROOM, actor="users/mira")
    house.hear("stays", actor="users/bob")
    house.hear("slipped out")
    house.work()
    system(house, "message_deleted")
    assert kept(TranscriptMessage) == ["stays"]
