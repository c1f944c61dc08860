"""Every captured request of a real Talk server, through the real HTTP route: what is stored, and how it is understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask
from sqlalchemy import select

from app.accounts import instances
from app.inbox.models import Delivery
from app.infra.db import reading
from app.platforms import registrations
from app.platforms.base import IncomingEvent
from app.platforms.nextcloud_talk.payload import parse

WIRE = Path(__file__).parent / "wire" / "talk"
# Of README.txt there: throw-away, and the address under which the bot was installed.
SECRET = "aaaaaaaaaaSecret0123456789Secret0123456789Secret0123456789Secret0123456789"
BOT_URL = "http://127.0.0.1:9099/hook/helper"
BOT = "bots/bot-2f322ea485c74d8fcba5789acd4ce2aeffc5336f"
CLOUD = "http://127.0.0.1:8081/"
RESEARCH, RENAMED = "Research room", 'Research "room" /2'
GUEST = "c161c77931a94b1948606ac22505572afdaaad30"
REDIRECTED = range(42, 47)
OTHER_SECRET = (94, 96)
NUMBERS = [*range(1, 59), *range(80, 103)]


class Captured(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def captured(number: int) -> Captured:
    (path,) = WIRE.glob(f"{number:03}-*.http")
    head, _, body = path.read_bytes().partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    return Captured(method, target, headers, body)


def expected(kind: str, **values: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "kind": kind,
        "room": "gnep8qi4",
        "room_name": RENAMED,
        "actor": "users/ada",
        "speaker": "Ada Lovelace",
        "moderator": None,
        "name": "",
        "text": "",
        "named": [],
        "files": [],
        "parent": None,
        "reaction": "",
        "one_to_one": False,
        "object_id": None,
    }
    return base | values


def create(id: int, text: str, **values: Any) -> dict[str, Any]:
    return expected("message", **({"name": "message", "object_id": str(id), "text": text, "moderator": True} | values))


def share(id: int, text: str, **values: Any) -> dict[str, Any]:
    return expected("message", object_id=str(id), text=text, **values)


def system(id: int, name: str, text: str, named: list[str] | None = None, **values: Any) -> dict[str, Any]:
    return expected(
        "system", **({"name": name, "object_id": str(id), "text": text, "named": named or ["Ada Lovelace"]} | values)
    )


def join(room: str = "gnep8qi4", room_name: str = RESEARCH, **values: Any) -> dict[str, Any]:
    base = {"room": room, "room_name": room_name, "actor": BOT, "speaker": "AI Helper", "name": "Join"}
    return expected("join") | base | values


IN_RESEARCH = {"room_name": RESEARCH}
BOT_SERVICE = {"actor": "users/botsvc", "speaker": "Bot Service"}
EXPECTED: dict[int, dict[str, Any]] = {
    1: join(),
    2: join(kind="leave", name="Leave"),
    3: join(),
    4: system(2, "user_added", "Ada Lovelace added Bob Builder", ["Ada Lovelace", "Bob Builder"], **IN_RESEARCH),
    5: create(3, "hello world", **IN_RESEARCH),
    6: create(
        4,
        'Hi Bob Builder please look at "this" <b>/path/x</b> & ünïcødé 😀',
        named=["Bob Builder"],
        **IN_RESEARCH,
    ),
    7: create(5, "Research room attention", named=["Research room"], **IN_RESEARCH),
    8: create(6, '@AI Helper what is the plan? @"AI Helper" @ai', **IN_RESEARCH),
    9: create(7, "line1\n\n- **bold** `code`\n```py\nx=1\n```", **IN_RESEARCH),
    10: create(
        8,
        "reply text",
        actor="users/bob",
        speaker="Bob Builder",
        moderator=False,
        parent=(3, "users/ada", "hello world"),
        **IN_RESEARCH,
    ),
    11: create(9, "silent one", **IN_RESEARCH),
    12: create(10, "with ref", **IN_RESEARCH),
    13: create(11, "x" * 32_000, **IN_RESEARCH),
    14: create(12, "look https://example.com/a?b=1&c=2 /ai hello", **IN_RESEARCH),
    15: share(
        13,
        "Report Q1.txt",
        named=["Report Q1.txt"],
        files=[("241", "Report Q1.txt", "text/plain", 21, "document")],
        **IN_RESEARCH,
    ),
    16: share(
        14,
        "Bob Builder look @AI Helper at this",
        named=["Bob Builder"],
        files=[("242", "pic.png", "image/png", 70, "image")],
        **IN_RESEARCH,
    ),
    17: share(15, "Berlin", named=["Berlin"], **IN_RESEARCH),
    18: share(16, "Q?", named=["Q?"], **IN_RESEARCH),
    19: create(17, "to be edited", **IN_RESEARCH),
    20: system(18, "message_edited", "Ada Lovelace edited a message", **IN_RESEARCH),
    21: expected("reaction", object_id="17", reaction="👍", **IN_RESEARCH),
    22: system(
        20,
        "reaction_revoked",
        "Bob Builder deleted a reaction",
        ["Bob Builder"],
        actor="users/bob",
        speaker="Bob Builder",
        **IN_RESEARCH,
    ),
    23: expected("unreaction", object_id="17", reaction="👍", **IN_RESEARCH),
    24: system(21, "message_deleted", "Ada Lovelace deleted a message", **IN_RESEARCH),
    25: system(
        22,
        "conversation_renamed",
        'Ada Lovelace renamed the conversation from "Research room" to "Research "room" /2"',
    ),
    26: system(23, "guests_allowed", "Ada Lovelace allowed guests"),
    27: system(24, "description_set", "Ada Lovelace set the description"),
    28: system(
        25,
        "moderator_promoted",
        "Ada Lovelace promoted Bob Builder to moderator",
        ["Ada Lovelace", "Bob Builder"],
    ),
    29: create(26, "hi from guest", actor=f"guests/{GUEST}", speaker="Gast", moderator=False),
    30: system(27, "read_only", "Ada Lovelace locked the conversation"),
    31: system(28, "read_only_off", "Ada Lovelace unlocked the conversation"),
    32: system(29, "user_removed", "Ada Lovelace removed Bob Builder", ["Ada Lovelace", "Bob Builder"]),
    33: expected("reaction", object_id="3", reaction="👍"),
    34: system(
        39,
        "reaction_revoked",
        "Deleted user deleted a reaction",
        ["Deleted user"],
        actor=BOT,
        speaker="AI Helper (Bot)",
    ),
    35: expected("unreaction", object_id="3", reaction="👍"),
    36: create(43, "n"),
    37: create(45, "t-200"),
    38: create(46, "t-202"),
    39: create(47, "t-201"),
    40: create(48, "t-204"),
    41: create(49, "t-302"),
    47: create(50, "t-400"),
    48: create(51, "t-401"),
    49: create(52, "t-429"),
    50: create(53, "t-500"),
    51: create(54, "t-503"),
    52: create(55, "t-delay2"),
    53: create(56, "t-delay8"),
    54: join("gg82px62", "ada, bob", one_to_one=True),
    55: create(58, "private hi", room="gg82px62", room_name="ada, bob", one_to_one=True),
    56: join("vnsbzaku", "Note to self"),
    57: create(60, "note to self hi", room="vnsbzaku", room_name="Note to self"),
    58: system(62, "user_added", "Ada Lovelace added Bot Service", ["Ada Lovelace", "Bot Service"]),
    80: create(133, "and then?", parent=(132, BOT, "Answer #1 from bot Bot Service")),
    81: create(134, "service user speaking", moderator=False, **BOT_SERVICE),
    82: share(135, "here is your file", files=[("581", "result.csv", "text/csv", 8, "document")], **BOT_SERVICE),
    83: share(
        136,
        "result.csv",
        named=["result.csv"],
        files=[("581", "result.csv", "text/csv", 8, "document")],
        **BOT_SERVICE,
    ),
    84: system(138, "read_only", "Ada Lovelace locked the conversation"),
    85: system(140, "read_only_off", "Ada Lovelace unlocked the conversation"),
    86: system(141, "lobby_non_moderators", "Ada Lovelace restricted the conversation to moderators"),
    87: system(143, "lobby_none", "Ada Lovelace opened the conversation to everyone"),
    88: create(144, "no cli url"),
    89: create(145, "ua"),
    90: join("xnvxrw3h", "Private"),
    91: share(
        147,
        "secret.txt",
        room="xnvxrw3h",
        room_name="Private",
        named=["secret.txt"],
        files=[("582", "secret.txt", "text/plain", 6, "document")],
    ),
    92: join("m5yqeuyk", "Private2"),
    93: share(
        149,
        "secret.txt",
        room="m5yqeuyk",
        room_name="Private2",
        named=["secret.txt"],
        files=[("582", "secret.txt", "text/plain", 6, "document")],
    ),
    95: create(151, "two bots"),
    97: system(153, "group_added", "Ada Lovelace added group research", ["Ada Lovelace", "research"]),
    98: create(154, "hey Bot Service !", named=["Bot Service"]),
    99: create(155, "hey research !", named=["research"]),
    100: create(156, "hey Gast !", named=["Gast"]),
    101: create(157, 'hey Research "room" /2 !', named=[RENAMED]),
    102: create(158, 'literal {mention-user1} braces and @"bob builder" {file}'),
}


def seen(event: IncomingEvent) -> dict[str, Any]:
    parent = event.parent
    assert all(event.text[spot.start : spot.end] == spot.name for spot in event.named)
    return {
        "kind": event.kind,
        "room": event.room,
        "room_name": event.room_name,
        "actor": event.actor.key,
        "speaker": event.actor.name,
        "moderator": event.actor.moderator,
        "name": event.name,
        "text": event.text,
        "named": [spot.name for spot in event.named],
        "files": [(file.id, file.name, file.mimetype, file.size, file.kind) for file in event.files],
        "parent": parent and (parent.message_id, parent.actor.key, parent.text),
        "reaction": event.reaction,
        "one_to_one": event.one_to_one,
        "object_id": event.object_id,
    }


@pytest.fixture
def url(app: Flask) -> str:
    cloud = instances.add("cloud", CLOUD)
    made = registrations.create(cloud.id, "AI Helper", secret=SECRET, webhook_url=BOT_URL)
    assert registrations.actor_id(made) == BOT
    return f"/webhook/talk/{made.key}"


@pytest.mark.parametrize("number", sorted(EXPECTED))
def test_a_captured_event_is_stored_and_understood(number: int, client: Any, url: str) -> None:
    sent = captured(number)

    answer = client.open(url, method=sent.method, headers=sent.headers, data=sent.body)

    assert (answer.status_code, answer.data) == (200, b"")
    with reading() as session:
        (row,) = session.scalars(select(Delivery)).all()
    want = EXPECTED[number]
    assert row.body == sent.body
    assert (row.kind, row.room, row.actor, row.name, row.object_id, row.state) == (
        want["kind"],
        want["room"],
        want["actor"],
        want["name"],
        want["object_id"],
        "queued",
    )
    assert seen(parse(row.body)) == want


@pytest.mark.parametrize("number", REDIRECTED)
def test_a_redirected_webhook_is_a_get_without_a_body_and_is_nothing_to_us(number: int, client: Any, url: str) -> None:
    sent = captured(number)
    assert (sent.method, sent.body) == ("GET", b"")

    for path in (url, sent.path):
        answer = client.get(path, headers=sent.headers)
        assert answer.status_code in (404, 405)
        assert "Location" not in answer.headers
    with reading() as session:
        assert session.scalars(select(Delivery)).all() == []


@pytest.mark.parametrize("number", OTHER_SECRET)
def test_an_event_for_another_bot_is_refused(number: int, client: Any, url: str) -> None:
    sent = captured(number)

    answer = client.post(url, headers=sent.headers, data=sent.body)

    assert answer.status_code == 401
    with reading() as session:
        assert session.scalars(select(Delivery)).all() == []


def test_every_capture_has_an_expectation() -> None:
    assert sorted([*EXPECTED, *REDIRECTED, *OTHER_SECRET]) == NUMBERS
