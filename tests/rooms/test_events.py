from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from app.conversations import store
from app.conversations.models import RoomMessage
from app.inbox import accept
from app.inbox.base import Verdict
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import reading, transaction
from app.platforms import rooms
from app.platforms.models import Room
from app.rooms import events, parts
from app.rooms.models import Part
from app.rooms.parts import Place, Said
from tests.rooms.conftest import Clock, make_bot, minutes_ago


def told(place: Place, name: str, text: str = "{actor} did it", *, kind: str = "Activity", **changes: Any) -> Verdict:
    """What becomes of a system event as it comes from the server."""
    body: dict[str, Any] = {
        "type": kind,
        "actor": {"type": "Person", "id": "users/ada", "name": "Ada"},
        "object": {
            "type": "Note",
            "id": str(len(name) + int(clock.now().timestamp())),
            "name": name,
            "content": json.dumps({"message": text, "parameters": {}}),
        },
        "target": {"type": "Collection", "id": place.room.token, "name": "Harbour crew"},
    } | changes
    verdict = events.noted(*_event(place, body))
    assert verdict is not None
    return verdict


def _event(place: Place, body: dict[str, Any]) -> tuple[Any, Place, Delivery]:
    raw = json.dumps(body).encode()
    event = place.platform.parse(raw)
    row = accept.accept(place.registration, random=f"{clock.now()}".ljust(40), body=raw, event=event)
    with reading() as session:
        return event, place, session.get_one(Delivery, row)


def say(place: Place, bot_id: int, text: str, *, actor: str = "users/ada", at: datetime | None = None) -> int:
    name = actor.partition("/")[2].title()
    row = store.say_user(bot_id, place.instance.id, place.room.token, 0, actor=actor, speaker=name, text=text)
    if at is not None:
        with transaction() as session:
            session.execute(update(RoomMessage).where(RoomMessage.id == row).values(created_at=at))
    return row


def texts(place: Place, bot_id: int) -> list[str]:
    return [row.text for row in store.history(bot_id, place.instance.id, place.room.token, 0)]


def room(place: Place) -> Room:
    found = rooms.get(place.instance.id, place.room.token)
    assert found is not None
    return found


def membership(kind: str, token: str) -> dict[str, Any]:
    return {
        "type": kind,
        "actor": {"type": "Application", "id": "bots/bot-1", "name": "Talk AI"},
        "object": {"type": "Collection", "id": token, "name": "Harbour crew"},
    }


def test_leave_unbinds_and_join_binds_again(place: Place) -> None:
    left = events.noted(*_event(place, membership("Leave", place.room.token)))
    assert left == Verdict("done", Reason.LEFT)
    assert rooms.bound(place.room.id) == []
    joined = events.noted(*_event(place, membership("Join", place.room.token)))
    assert joined == Verdict("done", Reason.JOINED)
    assert rooms.bound(place.room.id) == [place.registration.id]


@pytest.mark.parametrize("name", ["user_added", "user_removed", "moderator_demoted", "circle_added", "guests_allowed"])
def test_a_membership_event_drops_what_was_known_of_the_members(place: Place, name: str) -> None:
    assert told(place, name) == Verdict("done", Reason.RECORDED, name)
    assert room(place).members_changed_at is not None


@pytest.mark.parametrize(
    "name", ["call_started", "poll_voted", "some_future_event", "reaction_revoked", "message_edited"]
)
def test_other_system_events_are_ignored_with_their_name(place: Place, name: str) -> None:
    assert told(place, name) == Verdict("ignored", Reason.SYSTEM, name)
    assert room(place).members_changed_at is None


def test_reactions_are_dropped_and_ours_are_told_apart(place: Place) -> None:
    assert told(place, "", kind="Like", content="👍") == Verdict("ignored", Reason.REACTION)
    assert told(place, "", kind="Like", content="👀") == Verdict("ignored", Reason.REACTION)
    message = {"type": "Create", "object": {"type": "Note", "id": "7", "name": "message", "content": "{}"}}
    message |= {"actor": {"type": "Person", "id": "users/ada"}, "target": {"id": place.room.token}}
    parts.owe(_event(place, message)[2].id, [make_bot(place).id])
    note = {"type": "Note", "id": "7", "name": ""}
    assert told(place, "", kind="Like", content="👀", object=note) == Verdict("ignored", Reason.OWN_REACTION)
    assert told(place, "", kind="Like", content="👍", object=note) == Verdict("ignored", Reason.REACTION)
    assert told(place, "", kind="Surprise").reason == Reason.UNKNOWN_EVENT


def test_a_renamed_room_has_its_new_name(place: Place) -> None:
    target = {"type": "Collection", "id": place.room.token, "name": 'New "name" /2'}
    told(place, "conversation_renamed", target=target)
    assert room(place).name == 'New "name" /2'


def test_a_cleared_history_erases_what_was_kept_of_the_room(place: Place) -> None:
    bot = make_bot(place)
    say(place, bot.id, "the budget is 4,000", at=minutes_ago(5))
    [answer] = parts.owe(1, [bot.id])
    parts.write(answer, place, Said("Four thousand.", Reason.ANSWERED))
    with transaction() as session:
        session.execute(update(Part).values(state="sent", created_at=minutes_ago(1)))
        session.execute(update(Delivery).values(state="done", finished_at=clock.now()))
    earlier = _event(place, membership("Join", place.room.token))[2]
    assert told(place, "history_cleared").reason == Reason.RECORDED
    assert texts(place, bot.id) == []
    assert room(place).cleared_at is not None
    with reading() as session:
        assert session.scalars(select(Part.text)).all() == [""]
        assert session.get_one(Delivery, earlier.id).body is None


def test_a_cleared_history_leaves_other_rooms_alone(place: Place) -> None:
    bot = make_bot(place)
    store.say_user(bot.id, place.instance.id, "another", 0, actor="users/ada", speaker="Ada", text="stays")
    told(place, "history_cleared")
    assert [row.text for row in store.history(bot.id, place.instance.id, "another", 0)] == ["stays"]


def test_after_a_deleted_message_the_last_hour_of_its_author_is_blanked(place: Place) -> None:
    bot = make_bot(place)
    say(place, bot.id, "older than an hour", at=minutes_ago(90))
    say(place, bot.id, "a secret that slipped out", at=minutes_ago(10))
    say(place, bot.id, "bob's words", actor="users/bob", at=minutes_ago(10))
    told(place, "message_deleted")
    assert texts(place, bot.id) == ["older than an hour", "bob's words"]


def test_after_a_deleted_message_its_stored_event_goes_unless_it_still_waits(place: Place) -> None:
    message = {"type": "Create", "object": {"type": "Note", "id": "7", "name": "message", "content": "{}"}}
    message |= {"actor": {"type": "Person", "id": "users/ada"}, "target": {"id": place.room.token}}
    answered = _event(place, message)[2]
    waiting = _event(place, message | {"object": {"type": "Note", "id": "8", "name": "message", "content": "{}"}})[2]
    with transaction() as session:
        over = update(Delivery).where(Delivery.id == answered.id)
        session.execute(over.values(state="done", finished_at=clock.now()))
    told(place, "message_deleted")
    with reading() as session:
        assert session.get_one(Delivery, answered.id).body is None
        assert session.get_one(Delivery, waiting.id).body is not None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("{actor} set the message expiration to 4 weeks", 4 * 604_800),
        ("{actor} set the message expiration to 1 day", 86_400),
        ("An administrator set the message expiration to 8 hours", 8 * 3600),
        ("{actor} did something with expiration", 3600),
    ],
)
def test_expiration_is_obeyed(place: Place, time_machine: Clock, text: str, seconds: int) -> None:
    bot = make_bot(place)
    told(place, "message_expiration_enabled", text)
    say(place, bot.id, "for a while")
    time_machine.pass_(seconds - 60)
    assert texts(place, bot.id) == ["for a while"]
    time_machine.pass_(120)
    assert texts(place, bot.id) == []


def test_expiration_that_was_ended_erases_nothing_more(place: Place, time_machine: Clock) -> None:
    bot = make_bot(place)
    told(place, "message_expiration_enabled", "set the message expiration to 1 hour")
    told(place, "message_expiration_disabled")
    say(place, bot.id, "stays")
    time_machine.pass_(timedelta(days=2).total_seconds())
    assert texts(place, bot.id) == ["stays"]
