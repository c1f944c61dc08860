"""The transcript of a room: kept only while it is wanted, and gone when it must be."""

from __future__ import annotations

from datetime import timedelta

import pytest
from flask import Flask

from app.bots.models import Bot
from app.conversations import expiry, store, tasks, transcript
from app.infra import clock
from tests.conversations.conftest import ROOM, Time, any_app, ask, atlas, history, kept_database, time

__all__ = ["any_app", "atlas", "kept_database", "time"]

HOME = 7


def say(text: str, *, who: str = "ada", room: str = ROOM, delivery: int | None = None, **more: object) -> bool:
    given = {"delivery_id": delivery or abs(hash((text, who, room))) % 10**9, "actor": f"users/{who}"}
    return transcript.note(HOME, room, speaker=who.title(), text=text, **given | more)  # type: ignore[arg-type]


def found(query: str = "", *, room: str = ROOM, limit: int = 10, **more: object) -> list[str]:
    return [row.text for row in transcript.search(HOME, room, query, limit=limit, **more)]  # type: ignore[arg-type]


@pytest.fixture
def on(any_app: Flask, time: Time) -> Flask:
    transcript.switch_on(HOME, ROOM, actor="users/carol")
    return any_app


def test_nothing_is_kept_until_a_moderator_wants_it(any_app: Flask, time: Time) -> None:
    assert not say("before")
    assert transcript.since(HOME, ROOM) is None
    assert transcript.switch_on(HOME, ROOM, actor="users/carol")
    assert not transcript.switch_on(HOME, ROOM, actor="users/eve")
    assert transcript.since(HOME, ROOM) == time.moment
    assert say("after")
    assert not say("elsewhere", room="other")
    assert found() == ["after"]


def test_off_keeps_nothing_more_and_shows_nothing(on: Flask) -> None:
    say("one")
    assert transcript.switch_off(HOME, ROOM)
    assert not transcript.switch_off(HOME, ROOM)
    assert not say("two")
    assert found() == []
    transcript.switch_on(HOME, ROOM, actor="users/carol")
    assert found() == ["one"]


def test_forgetting_erases_all_of_the_room_and_of_no_other(on: Flask) -> None:
    transcript.switch_on(HOME, "other", actor="users/carol")
    say("one"), say("two", room="other")
    assert transcript.forget(HOME, ROOM) == 1
    assert (found(), found(room="other")) == ([], ["two"])
    assert say("three")


def test_a_delivery_that_is_tried_again_is_kept_once(on: Flask) -> None:
    assert say("hello", delivery=5)
    assert not say("hello", delivery=5)
    assert say("hi ada", who="bob", delivery=5)
    assert found() == ["hi ada", "hello"]


def test_the_words_decide_then_the_newest(on: Flask, time: Time) -> None:
    say("the budget is 4000"), say("the harbour budget is 5000"), say("lunch?")
    assert found("harbour budget") == ["the harbour budget is 5000", "the budget is 4000"]
    assert found("", limit=2) == ["lunch?", "the harbour budget is 5000"]
    assert found("budget", limit=1) == ["the harbour budget is 5000"]
    assert found("nothing of this") == []


def test_a_name_and_times_narrow_it(on: Flask, time: Time) -> None:
    say("old"), time.pass_(hours=2)
    middle = time.moment
    say("middle", who="bob"), time.pass_(hours=2)
    say("new", who="dörte")
    assert found(from_name="@Bob") == ["middle"]
    assert found(from_name="dorte") == ["new"]
    assert found(since=middle) == ["new", "middle"]
    assert found(until=middle) == ["middle", "old"]
    assert found(without_delivery=abs(hash(("new", "dörte", ROOM))) % 10**9) == ["middle", "old"]


def test_what_came_from_a_source_is_shown_to_whoever_may_read_it(on: Flask) -> None:
    say("from a file", sources=[("bot:1", "node")])
    say("from nobody's file")
    assert found(may_read=lambda *_: False) == ["from nobody's file"]
    assert found(may_read=lambda collection, node: (collection, node) == ("bot:1", "node")) == [
        "from nobody's file",
        "from a file",
    ]


def test_a_cleared_history_takes_what_was_said_before(on: Flask, time: Time) -> None:
    say("before"), time.pass_(seconds=1)
    moment = time.moment
    say("after")
    assert transcript.erase(HOME, room=ROOM, before=moment) == 1
    assert found() == ["after"]
    with pytest.raises(ValueError, match="room or an actor"):
        transcript.erase(HOME)


def test_expiration_and_retention_are_obeyed(on: Flask, time: Time) -> None:
    say("stays a while")
    expiry.set_expiration(HOME, ROOM, 60)
    say("goes")
    time.pass_(seconds=61)
    assert found() == ["stays a while"]
    time.pass_(days=31)
    tasks.purge()
    transcript.switch_on(HOME, ROOM, actor="users/carol")
    assert found() == []


def test_a_deleted_message_goes_by_its_id_or_its_author(on: Flask, time: Time) -> None:
    say("old", message_id=1), time.pass_(hours=2)
    since = clock.now() - timedelta(hours=1)
    say("kept", message_id=2), say("gone", message_id=3), say("an answer", who="atlas")
    assert transcript.blank_gone(HOME, ROOM, since=since, gone=lambda id: id == 3 or id == 1) == 1
    assert found() == ["an answer", "kept", "old"]
    assert transcript.blank(HOME, ROOM, actor="users/ada", since=since) == 1
    assert found() == ["an answer", "old"]


def test_what_a_bot_keeps_loses_what_is_gone_and_quotes_of_it(atlas: Bot, time: Time) -> None:
    store.say_user(
        atlas.id, atlas.instance_id, ROOM, 0, actor="users/ada", speaker="Ada", text="the code is 7", message_id=3
    )
    store.say_user(
        atlas.id,
        atlas.instance_id,
        ROOM,
        0,
        actor="users/bob",
        speaker="Bob",
        text="thanks",
        quoted="Ada: the code is 7",
    )
    ask(atlas, "another")
    since = clock.now() - timedelta(hours=1)
    assert store.blank_gone(atlas.instance_id, ROOM, since=since, gone=lambda id: id == 3) == 1
    assert history(atlas) == ["thanks", "another"]
    [quoting] = [row for row in store.history(atlas.id, atlas.instance_id, ROOM, 0) if row.text == "thanks"]
    assert quoting.quoted is None


@pytest.mark.parametrize("text", ["", "  ", "\x00"])
def test_what_says_nothing_is_not_kept(on: Flask, text: str) -> None:
    assert not say(text)
