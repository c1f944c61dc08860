from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Flask

from app.accounts import instances
from app.infra import signing
from app.platforms import registrations, rooms
from app.platforms.nextcloud_talk.payload import parse
from app.platforms.sandbox import server, talk
from app.platforms.sandbox.server import SharedHere

BASE = "http://127.0.0.1:8000"
API = "/sandbox/ocs/v2.php/apps/spreed/api/v1/bot/sandbox"
LOCAL = {"REMOTE_ADDR": "127.0.0.1"}


def headers(secret: str, value: str, **more: str) -> dict[str, str]:
    random = signing.fresh_random()
    usual = {
        "OCS-APIRequest": "true",
        "Accept": "application/json",
        "X-Nextcloud-Talk-Bot-Random": random,
        "X-Nextcloud-Talk-Bot-Signature": signing.sign(secret, random, value.encode()),
    }
    return usual | more


def test_the_room_is_ready_with_a_short_exchange_about_what_parley_is(app: Flask) -> None:
    made = server.ensure(BASE)
    said = server.messages("sandbox")
    assert 6 <= len(said) <= 10
    assert {row.actor for row in said} == {"users/ada", "users/bob", registrations.actor_id(made)}
    assert {row.actor_name for row in said} == {"Ada", "Bob", "Guide (Bot)"}
    assert [row.text for row in said] == [each.text.text() for each in server.WELCOME]
    assert all(row.reply_to == said[place - 1].id for place, row in enumerate(said) if row.actor.startswith("bots/"))
    sandbox = instances.by_name("sandbox")
    assert sandbox is not None
    assert (sandbox.kind, sandbox.url) == ("sandbox", BASE + "/sandbox")
    room = rooms.get(sandbox.id, "sandbox")
    assert room is not None
    assert list(rooms.bound(room.id)) == [made.id]


def test_making_it_again_changes_nothing_but_the_address(app: Flask) -> None:
    first = server.ensure(BASE)
    before = server.messages("sandbox")
    again = server.ensure("http://127.0.0.1:9000")
    assert (again.id, again.actor_hash) == (first.id, first.actor_hash)
    assert [row.id for row in server.messages("sandbox")] == [row.id for row in before]
    assert registrations.address(again).base_url == "http://127.0.0.1:9000/sandbox"


@pytest.mark.parametrize(
    ("environ", "more", "status"),
    [
        ({"REMOTE_ADDR": "127.0.0.1"}, {}, 201),
        ({"REMOTE_ADDR": "127.8.0.1"}, {}, 201),
        ({"REMOTE_ADDR": "::1"}, {}, 201),
        ({"REMOTE_ADDR": "::ffff:127.0.0.1"}, {}, 201),
        ({"REMOTE_ADDR": "10.0.0.7"}, {}, 404),
        ({"REMOTE_ADDR": "::ffff:10.0.0.7"}, {}, 404),
        ({"REMOTE_ADDR": ""}, {}, 404),
        ({"REMOTE_ADDR": "127.0.0.1"}, {"X-Forwarded-For": "127.0.0.1"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1"}, {"X-Forwarded-Proto": "https"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1"}, {"x-forwarded-host": "parley.test"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1"}, {"Via": "1.1 proxy"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1"}, {"CF-Connecting-IP": "1.1.1.1"}, 404),
    ],
)
def test_the_sandbox_can_not_be_abused_from_another_machine(
    client: Any, environ: dict[str, str], more: dict[str, str], status: int
) -> None:
    secret = registrations.secret(server.ensure(BASE))
    answer = client.post(
        f"{API}/message", json={"message": "hi"}, headers=headers(secret, "hi", **more), environ_overrides=environ
    )
    assert answer.status_code == status


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b"\xff", b"[" * 50_000, b""])
def test_a_body_that_is_no_object_is_refused_like_an_empty_message(client: Any, body: bytes) -> None:
    secret = registrations.secret(server.ensure(BASE))
    sent = headers(secret, "hi", **{"Content-Type": "application/json"})
    assert client.post(f"{API}/message", data=body, headers=sent, environ_overrides=LOCAL).status_code == 400


def test_a_form_is_read_as_well(client: Any) -> None:
    secret = registrations.secret(server.ensure(BASE))
    before = len(server.messages("sandbox"))
    answer = client.post(
        f"{API}/message", data={"message": "hi"}, headers=headers(secret, "hi"), environ_overrides=LOCAL
    )
    assert answer.status_code == 201
    assert len(server.messages("sandbox")) == before + 1


def test_a_message_id_beyond_every_database_is_missing(client: Any) -> None:
    secret = registrations.secret(server.ensure(BASE))
    answer = client.post(
        f"{API}/reaction/{10**30}", json={"reaction": "👍"}, headers=headers(secret, "👍"), environ_overrides=LOCAL
    )
    assert answer.status_code == 404


def test_reactions_of_two_bots_are_kept_apart(app: Flask) -> None:
    first = server.ensure(BASE)
    second = registrations.create(first.instance_id, "Second", shared=False)
    message = talk.store("sandbox", "users/ada", "Ada", text="hi")

    def react(secret: str, *, remove: bool = False) -> int:
        random = signing.fresh_random()
        signed = signing.sign(secret, random, "👍".encode())
        return talk.react("sandbox", message.id, "👍", random=random, signature=signed, remove=remove)

    one, two = registrations.secret(first), registrations.secret(second)
    assert [react(one), react(two), react(one, remove=True), react(one, remove=True)] == [201, 201, 200, 404]
    found = talk.message("sandbox", message.id)
    assert found is not None
    assert found.reactions == {"👍": [registrations.actor_id(second)]}


@pytest.mark.parametrize("emoji", ["👍", "👀", "❤️", "👩‍💻", "🇩🇪", "1️⃣", "✅"])
def test_emoji_are_emoji(emoji: str) -> None:
    assert talk.is_emoji(emoji)


@pytest.mark.parametrize("text", ["", "a", "abc", "1", ":)", "👍" * 20, " "])
def test_other_texts_are_no_emoji(text: str) -> None:
    assert not talk.is_emoji(text)


def webhook(**values: Any) -> server.Request:
    made = server.ensure(BASE)
    sandbox = instances.by_name("sandbox")
    assert sandbox is not None
    usual: dict[str, Any] = {
        "room": "sandbox",
        "room_name": "Sandbox",
        "message_id": 41,
        "actor": "users/ada",
        "name": "Ada",
        "text": "@guide hi/there Åsa 😀",
    }
    return server.request(sandbox, made, **(usual | values))


def test_a_persons_message_is_a_webhook_as_talk_writes_it(app: Flask) -> None:
    sent = webhook()
    assert sent.body.isascii()
    assert b"users\\/ada" in sent.body
    assert json.loads(json.loads(sent.body)["object"]["content"])["parameters"] == []
    event = parse(sent.body)
    assert (event.kind, event.text, event.object_id, event.actor.key) == (
        "message",
        "@guide hi/there Åsa 😀",
        "41",
        "users/ada",
    )
    assert event.actor.moderator is True


def test_a_shared_file_is_an_activity_with_a_caption(app: Flask) -> None:
    shared = SharedHere("notes.txt", "text/plain", 12)
    event = parse(webhook(text="@guide read this", shared=shared).body)
    assert (event.kind, event.text, event.files[0].name, event.files[0].size) == (
        "message",
        "@guide read this",
        "notes.txt",
        12,
    )
    alone = parse(webhook(text="", shared=shared).body)
    assert (alone.text, alone.words) == ("notes.txt", "")


def test_a_reply_names_its_parent(app: Flask) -> None:
    event = parse(webhook(quoted=server.quotation(7, "bots/bot-1", "Guide (Bot)", "An answer/1")).body)
    assert event.parent is not None
    assert (event.parent.message_id, event.parent.actor.key, event.parent.text) == (7, "bots/bot-1", "An answer/1")


def test_the_webhook_is_really_signed_and_taken(client: Any, app: Flask) -> None:
    sent = webhook()
    key = server.ensure(BASE).key
    assert client.post(f"/webhook/talk/{key}", data=sent.body, headers=dict(sent.headers)).status_code == 200
    assert client.post(f"/webhook/talk/{key}", data=sent.body + b" ", headers=dict(sent.headers)).status_code == 401


@pytest.mark.parametrize(
    ("actor", "name"),
    [
        ("users/ada", "Ada"),
        ("users/bob", "Bob"),
        ("users/carol.jones", "Carol Jones"),
        ("guests/7d0c1e7b", "Guest 7d0c"),
    ],
)
def test_the_name_of_a_person_is_derived(actor: str, name: str) -> None:
    assert server.person_name(actor) == name


def test_people_guests_and_others_have_their_roles(app: Flask) -> None:
    roles = {
        actor: parse(webhook(actor=actor).body).actor.moderator
        for actor in ("users/ada", "users/zoe", "guests/x", "emails/x")
    }
    assert roles == {"users/ada": True, "users/zoe": False, "guests/x": False, "emails/x": None}
