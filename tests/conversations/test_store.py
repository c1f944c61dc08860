from __future__ import annotations

import pytest
from flask import Flask

from app.bots.models import Bot
from app.conversations import store
from app.infra.errors import NotFound
from app.settings import store as settings
from tests.bots.conftest import bot
from tests.conversations.conftest import Time, answer, ask, history, row, search


def test_what_is_said_is_kept_as_it_was_said(atlas: Bot) -> None:
    id = store.say_user(
        atlas.id,
        atlas.instance_id,
        "room",
        12,
        actor="users/Åsa Berg",
        speaker="Åsa 😀" + "x" * 300,
        text="  Text\n\twith 😀 and % _ \\ ' \" \x00\ud800",
        quoted="Bob: \x00hello",
        message_id=2**70,
        delivery_id=7,
    )
    kept = row(id)
    assert kept is not None
    assert (kept.role, kept.actor, kept.thread, kept.delivery_id) == ("user", "users/Åsa Berg", 12, 7)
    assert kept.text == "  Text\n\twith 😀 and % _ \\ ' \" ?"
    assert (kept.quoted, kept.message_id, len(kept.speaker)) == ("Bob: hello", None, 255)
    said = row(answer(atlas, "Yes", delivery=7, sources=(("bot:1", "n1"), ("room:x", "n2"))))
    assert said is not None
    assert (said.role, said.actor, said.sources) == ("assistant", "bots/atlas", [["bot:1", "n1"], ["room:x", "n2"]])


def test_a_delivery_that_is_tried_again_is_said_once(atlas: Bot) -> None:
    assert ask(atlas, "Hi", delivery=7) == ask(atlas, "Hi", delivery=7)
    assert answer(atlas, "Ho", delivery=7) == answer(atlas, "Ho again", delivery=7)
    assert history(atlas) == ["Hi", "Ho"]
    muse = bot("muse")
    assert ask(muse, "Hi", delivery=7) != ask(atlas, "Hi", delivery=7)
    assert ask(atlas, "Hi") != ask(atlas, "Hi")


def test_a_bot_that_does_not_exist_says_nothing_and_breaks_nothing(atlas: Bot) -> None:
    for _ in range(2):
        with pytest.raises(NotFound):
            store.say_user(999_999, atlas.instance_id, "room", 0, actor="users/ada", speaker="Ada", text="Hi")
    assert ask(atlas, "Hi")


def test_a_room_is_erased_alone(atlas: Bot) -> None:
    ask(atlas, "here"), ask(atlas, "thread", thread=3), ask(atlas, "there", room="other")
    assert store.erase(atlas.instance_id, room="room") == 2
    assert (history(atlas), history(atlas, thread=3), history(atlas, room="other")) == ([], [], ["there"])
    assert store.erase(atlas.instance_id + 1, room="other") == 0


def test_a_thread_or_a_bot_is_erased_alone(atlas: Bot) -> None:
    muse = bot("muse")
    ask(atlas, "room"), ask(atlas, "thread", thread=3), ask(muse, "muse")
    assert store.erase(atlas.instance_id, room="room", thread=3) == 1
    assert store.erase(atlas.instance_id, room="room", bot_id=muse.id) == 1
    assert (history(atlas), history(muse)) == (["room"], [])


def test_what_one_person_said_is_erased_with_the_answers_in_every_room(atlas: Bot) -> None:
    for delivery, who in ((1, "ada"), (2, "bob"), (3, "ada")):
        room = "other" if delivery == 3 else "room"
        ask(atlas, f"{who} asks", who=who, delivery=delivery, room=room)
        answer(atlas, f"to {who}", delivery=delivery, room=room)
    assert store.erase(atlas.instance_id, actor="users/ada") == 4
    assert (history(atlas), history(atlas, room="other")) == (["bob asks", "to bob"], [])


def test_many_messages_are_erased(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BATCH", 3)
    atlas = bot()
    for number in range(10):
        ask(atlas, "x", delivery=number)
        answer(atlas, "y", delivery=number)
    assert store.erase(atlas.instance_id, actor="users/ada") == 20


def test_erasing_leaves_what_was_said_later(atlas: Bot, time: Time) -> None:
    ask(atlas, "old")
    time.pass_(seconds=1)
    moment = time.moment
    ask(atlas, "new")
    assert store.erase(atlas.instance_id, room="room", before=moment) == 1
    assert history(atlas) == ["new"]


def test_erase_can_not_be_abused_to_empty_a_whole_server(app: Flask) -> None:
    with pytest.raises(ValueError):
        store.erase(1)
    with pytest.raises(ValueError):
        store.erase(1, bot_id=1)


def test_blanked_messages_are_neither_told_nor_found(atlas: Bot, time: Time) -> None:
    ask(atlas, "the old secret", delivery=1)
    time.pass_(hours=2)
    since = time.moment
    ask(atlas, "the secret is 4711", delivery=2), answer(atlas, "Noted.", delivery=2)
    quoting = store.say_user(
        atlas.id, atlas.instance_id, "room", 0, actor="users/bob", speaker="Bob", text="why?", quoted="Ada: is 4711"
    )
    elsewhere = ask(atlas, "secret", room="other")
    assert store.blank(atlas.instance_id, "room", actor="users/ada", since=since) == 1
    assert store.blank(atlas.instance_id, "room", actor="users/ada", since=since) == 0
    assert history(atlas) == ["the old secret", "why?"]
    assert search(atlas, "secret 4711") == ["the old secret"]
    kept, other = row(quoting), row(elsewhere)
    assert kept is not None
    assert other is not None
    assert (kept.quoted, other.text) == (None, "secret")


def test_messages_older_than_the_retention_go(atlas: Bot, time: Time) -> None:
    settings.set("conversation_days", 3)
    ask(atlas, "old")
    time.pass_(days=2)
    ask(atlas, "new")
    assert store.purge() == 0
    time.pass_(days=1, seconds=1)
    assert store.purge() == 1
    assert history(atlas) == ["new"]
