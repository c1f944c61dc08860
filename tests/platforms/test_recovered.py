"""Messages of the history in the form of the webhook: as the captured requests of a real Talk tell the same messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st

from app.accounts import instances, serviceuser
from app.accounts.models import Instance
from app.accounts.serviceuser import Untold
from app.infra import clock
from app.platforms.base import MissedEvents, SeenRoom
from app.platforms.nextcloud_talk import payload, recovered
from app.platforms.nextcloud_talk.reader import READER
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault
from tests.test_wire_talk import BOT, captured

ROOM = "r00mtok1"
# Messages, shares and what the server wrote: whatever stands in a room, and so in its history.
STANDING = [*range(4, 21), *range(24, 33), 55, 57, 58, 80, 81, 82, 89, 91, *range(98, 103)]


def as_history(event: dict[str, Any]) -> dict[str, Any]:
    """A captured request as the chat API gives the same message: numbers for ids, and one level of JSON."""
    thing, actor = event["object"], event["actor"]
    content = json.loads(thing["content"])
    kind, _, id = actor["id"].partition("/")
    told = {
        "id": int(thing["id"]),
        "token": event.get("target", {}).get("id", ""),
        "actorType": kind,
        "actorId": id,
        "actorDisplayName": actor["name"],
        "timestamp": 1_770_000_000,
        "message": content["message"],
        "messageParameters": content["parameters"],
        "systemMessage": "" if thing["name"] == "message" else thing["name"],
        "messageType": "system" if thing["name"] not in ("message", "") else "comment",
        "referenceId": "",
        "expirationTimestamp": 0,
        "markdown": True,
    }
    parent = thing.get("inReplyTo")
    return told if parent is None else told | {"parent": as_history(parent)}


@pytest.mark.parametrize("number", STANDING)
def test_it_reads_like_the_request_that_talk_sent_for_it(number: int) -> None:
    sent = captured(number).body
    event = json.loads(sent)
    body = recovered.body(as_history(event), token=event["target"]["id"], name=event["target"]["name"])
    told = payload.parse(sent)
    expected = replace(told, actor=replace(told.actor, moderator=None))
    assert payload.parse(body) == expected
    again = json.loads(body)
    assert isinstance(again["object"]["content"], str)
    assert again["object"]["id"] == event["object"]["id"]
    assert "talkParticipantType" not in again["actor"]


def message(**changes: Any) -> dict[str, Any]:
    event = json.loads(captured(5).body)
    return as_history(event) | changes


def parsed(**changes: Any) -> Any:
    return payload.parse(recovered.body(message(**changes), token=ROOM, name="Research"))


def test_a_voice_message_is_a_share() -> None:
    file = {"type": "file", "id": 241, "name": "Talk recording.mp3", "mimetype": "audio/mpeg", "size": 20480}
    event = parsed(message="{file}", messageParameters={"file": file}, messageType="voice-message")
    assert (event.kind, event.files[0].kind, event.files[0].size, event.words) == ("message", "audio", 20480, "")


@pytest.mark.parametrize(("is_thread", "thread"), [(True, 77), (False, None), (None, None)])
def test_a_thread_is_named_only_where_it_is_one(is_thread: bool | None, thread: int | None) -> None:
    more = {} if is_thread is None else {"isThread": is_thread}
    assert parsed(threadId=77, **more).thread == thread


@pytest.mark.parametrize("parent", [{"id": 3, "deleted": True}, {"messageType": "comment_deleted", "id": 3}, {}, []])
def test_a_reply_to_what_is_gone_replies_to_nothing(parent: Any) -> None:
    assert parsed(parent=parent).parent is None


def test_a_reply_to_a_bot_names_the_bot() -> None:
    told = message() | {"actorType": "bots", "actorId": BOT.removeprefix("bots/"), "message": "A plan."}
    event = parsed(parent=told)
    assert (event.parent.actor.key, event.parent.text, event.parent.message_id) == (BOT, "A plan.", 3)


def test_braces_that_nobody_filled_stay_as_they_were_written() -> None:
    assert parsed(message="{file} {mention-user1}", messageParameters=[]).text == "{file} {mention-user1}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(message())), json_values), json_values)
def test_whatever_a_server_says_is_an_event_or_untold(changes: dict[str, Any], parent: Any) -> None:
    try:
        body = recovered.body(message(**changes) | {"parent": parent}, token=ROOM, name="Research")
    except Untold:
        return
    assert payload.parse(body).room == ROOM


@pytest.fixture
def server() -> Iterator[Nextcloud]:
    with Nextcloud("s" * 64) as made:
        made.user("parley", "app-password")
        made.user("ada")
        made.conversation(ROOM, users=["ada", "parley"])
        yield made
        made.check()


@pytest.fixture
def home(app: Flask, server: Nextcloud) -> Instance:
    made = instances.add("cloud", server.url)
    return serviceuser.give(made.id, "parley", "app-password")


def missed(home: Instance, *, after: int | None = None, minutes: float = 15, limit: int = 50) -> MissedEvents:
    since = clock.now() - timedelta(minutes=minutes)
    return READER.missed(home.id, ROOM, name="Research", after=after, since=since, limit=limit)


def texts(found: MissedEvents) -> list[str]:
    return [payload.parse(event.body).text for event in found.events]


def ago(minutes: float) -> float:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).timestamp()


def test_what_people_said_comes_oldest_first_and_without_bots_the_service_user_and_what_is_gone(
    home: Instance, server: Nextcloud
) -> None:
    known = server.say(ROOM, "users/ada", "known")
    server.say(ROOM, "users/ada", "one")
    server.say(ROOM, "bots/bot-1", "an answer")
    server.say(ROOM, "users/parley", "@atlas my own words")
    server.delete(ROOM, server.say(ROOM, "users/ada", "regretted"))
    server.say(ROOM, "guests/g1", "two", name="")
    server.say(ROOM, "users/ada", "You added Bob", systemMessage="user_added", messageType="system")
    found = missed(home, after=known)
    assert texts(found) == ["one", "two", "You added Bob"]
    assert not found.left_out
    assert [event.at for event in found.events] == sorted(event.at for event in found.events)


def test_what_is_too_old_or_too_much_is_left_out_and_said_to_be(home: Instance, server: Nextcloud) -> None:
    known = server.say(ROOM, "users/ada", "known", at=ago(60))
    server.say(ROOM, "users/ada", "old", at=ago(20))
    for number in range(4):
        server.say(ROOM, "users/ada", f"new {number}", at=ago(5))
    found = missed(home, after=known)
    assert (texts(found), found.left_out) == ([f"new {number}" for number in range(4)], True)
    found = missed(home, after=known + 1)
    assert not found.left_out
    found = missed(home, after=known + 1, limit=2)
    assert (texts(found), found.left_out) == (["new 2", "new 3"], True)


def test_that_the_history_was_cleared_is_never_too_old(home: Instance, server: Nextcloud) -> None:
    known = server.say(ROOM, "users/ada", "known", at=ago(90))
    cleared = {"systemMessage": "history_cleared", "messageType": "system", "at": ago(60)}
    server.say(ROOM, "users/ada", "You cleared the history", **cleared)
    server.say(ROOM, "users/ada", "old", at=ago(50))
    server.say(ROOM, "users/ada", "new")
    found = missed(home, after=known)
    assert texts(found) == ["You cleared the history", "new"]


def test_without_a_known_message_nothing_older_counts(home: Instance, server: Nextcloud) -> None:
    server.say(ROOM, "users/ada", "old", at=ago(20))
    server.say(ROOM, "users/ada", "You joined", at=ago(20), systemMessage="user_added", messageType="system")
    server.say(ROOM, "users/ada", "new")
    found = missed(home)
    assert (texts(found), found.left_out) == (["new"], False)


def test_a_room_with_thousands_of_messages_is_read_so_far_and_no_further(home: Instance, server: Nextcloud) -> None:
    known = server.say(ROOM, "users/ada", "known")
    server.say(ROOM, "users/ada", "the first")
    for _ in range(recovered.MOST_PAGES * recovered.PAGE):
        server.say(ROOM, "bots/bot-1", "chatter")
    server.asked.clear()
    found = missed(home, after=known)
    assert (texts(found), found.left_out) == ([], True)
    assert len(server.asked) == recovered.MOST_PAGES


def test_the_rooms_of_the_service_user_are_seen_with_their_last_message(home: Instance, server: Nextcloud) -> None:
    server.conversation("secret42", users=["ada"])
    last = server.say(ROOM, "users/ada", "hello")
    server.conversations[ROOM].expiration = 3600
    assert READER.rooms(home.id) == (SeenRoom(ROOM, "R00Mtok1", last, 3600),)


def test_a_lobby_that_is_closed_to_the_service_user_forbids(home: Instance, server: Nextcloud) -> None:
    envelope = b'{"ocs":{"meta":{"status":"failure","statuscode":412,"message":""},"data":[]}}'
    server.fail(Fault(412, envelope))
    with pytest.raises(Untold) as caught:
        missed(home)
    assert caught.value.reason == "forbidden"
