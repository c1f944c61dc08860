from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import responses
from flask import Flask
from werkzeug.serving import make_server

from app.infra import http, netguard, signing
from app.platforms import registrations
from app.platforms.base import Address, Outcome
from app.platforms.nextcloud_talk import client
from app.platforms.sandbox import server as sandbox
from app.platforms.sandbox import talk as sandbox_talk
from tests.fakes.talk_server import Fault, Post, TalkServer

SECRET = "s3cret-" * 9
API = "/ocs/v2.php/apps/spreed/api/v1/bot/"


@dataclass
class Place:
    """A Talk server of either kind: where it is, a room and a message in it, and what stands there."""

    address: Address
    room: str
    message_id: int
    stored: Any


@contextmanager
def fake_place() -> Iterator[Place]:
    with TalkServer(SECRET, prefix="/nextcloud", rooms={"r00mtok1"}, known_messages={17}) as talk:

        def stored() -> list[tuple[str, int, str]]:
            return [(post.text, post.reply_to, post.reference_id) for post in talk.posts]

        yield Place(Address(1, 1, talk.url, SECRET), "r00mtok1", 17, stored)
        assert [found for found in talk.violations if found != "no OCS-APIRequest"] == []


@contextmanager
def sandbox_place(app: Flask) -> Iterator[Place]:
    served = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    registration = sandbox.ensure(f"http://127.0.0.1:{served.server_port}")
    asked = sandbox_talk.store("sandbox", "users/ada", "Ada", text="hi")

    def stored() -> list[tuple[str, int, str]]:
        found = sandbox.messages("sandbox", after=asked.id)
        return [(row.text, row.reply_to or 0, row.reference_id or "") for row in found]

    try:
        yield Place(registrations.address(registration), "sandbox", asked.id, stored)
    finally:
        served.shutdown()
        served.server_close()
        thread.join(5)


@pytest.fixture(params=["fake", "sandbox"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "fake":
        with fake_place() as made:
            yield made
    else:
        with sandbox_place(request.getfixturevalue("app")) as made:
            yield made


@pytest.fixture
def talk() -> Iterator[TalkServer]:
    with TalkServer(SECRET) as made:
        yield made
        made.check()


def post(address: Address, text: str = "hello", *, room: str = "r00mtok1", **values: Any) -> Outcome:
    return client.post(address, room, text, **({"reply_to": None, "reference_id": "r" * 64} | values))


def to(talk: TalkServer) -> Address:
    return Address(1, 1, talk.url, SECRET)


def raw(place: Place, path: str, value: str, body: Any, *, method: str = "POST", **headers: str) -> http.Response:
    random = signing.fresh_random()
    usual = {
        "OCS-APIRequest": "true",
        "Accept": "application/json",
        "X-Nextcloud-Talk-Bot-Random": random,
        "X-Nextcloud-Talk-Bot-Signature": signing.sign(place.address.secret, random, value.encode()),
    }
    sent = {name: text for name, text in (usual | headers).items() if text}
    url = f"{place.address.base_url}{API}{place.room}/{path}"
    return http.request(method, url, guard=netguard.ADMIN, headers=sent, json=body)


# The same contract holds for the strict fake and for our own sandbox server.


@pytest.mark.parametrize(
    "text", ["hello", "  padded \n", "Hei Åse – porten er åpen 🚤\n", '{"message":"x"}', "a/b\\c\t\u200b"]
)
def test_a_message_stands_in_the_room_exactly_as_it_was_given(place: Place, text: str) -> None:
    outcome = post(place.address, text, room=place.room, reply_to=place.message_id, reference_id="f" * 64)
    assert (outcome.kind, outcome.status) == ("success", 201)
    assert place.stored() == [(text, place.message_id, "f" * 64)]


def test_what_utf8_can_not_hold_is_replaced_before_it_is_signed(place: Place) -> None:
    assert post(place.address, "a\ud800b\x00c", room=place.room).kind == "success"
    assert place.stored()[0][0] == "a?bc"


def test_the_limit_counts_code_points(place: Place) -> None:
    assert post(place.address, "😀" * 32_000, room=place.room).kind == "success"
    outcome = post(place.address, "x" * 32_001, room=place.room)
    assert (outcome.kind, outcome.status, outcome.reason) == ("permanent", 413, "too_long")
    assert len(place.stored()) == 1


def test_a_long_reference_is_cut_to_what_talk_keeps(place: Place) -> None:
    post(place.address, room=place.room, reference_id="x" * 100)
    assert place.stored()[0][2] == "x" * 64


@pytest.mark.parametrize("text", ["", "   \n"])
def test_an_empty_message_is_refused_for_good(place: Place, text: str) -> None:
    outcome = post(place.address, text, room=place.room)
    assert (outcome.kind, outcome.status, outcome.reason) == ("permanent", 400, "not_accepted")


def test_a_reply_to_a_message_that_is_not_there_is_refused_for_good(place: Place) -> None:
    outcome = post(place.address, room=place.room, reply_to=999_999)
    assert (outcome.kind, outcome.status) == ("permanent", 400)


def test_another_secret_is_refused_with_a_hint_for_the_administrator(place: Place) -> None:
    outcome = post(replace(place.address, secret="other-" * 10), room=place.room)
    assert (outcome.kind, outcome.status, outcome.reason) == ("permanent", 401, "refused")
    assert "talk register" in str(outcome.remedy)
    assert place.stored() == []


def test_an_unknown_room_is_refused_like_a_bad_signature(place: Place) -> None:
    assert post(place.address, room="n0where").status == 401


def test_a_reaction_is_set_once_and_taken_away_once(place: Place) -> None:
    def told(outcome: Outcome) -> tuple[str, int | None]:
        return outcome.kind, outcome.status

    assert told(client.react(place.address, place.room, place.message_id, "👀")) == ("success", 201)
    assert told(client.react(place.address, place.room, place.message_id, "👀")) == ("success", 200)
    assert told(client.unreact(place.address, place.room, place.message_id, "👀")) == ("success", 200)
    assert told(client.unreact(place.address, place.room, place.message_id, "👀")) == ("success", 404)


def test_a_reaction_that_is_no_emoji_or_to_no_message_fails_for_good(place: Place) -> None:
    assert client.react(place.address, place.room, place.message_id, "abc").status == 400
    outcome = client.react(place.address, place.room, 999_999, "👍")
    assert (outcome.kind, outcome.status, outcome.reason) == ("permanent", 404, "no_message")


def test_signing_the_json_instead_of_the_message_is_refused(place: Place) -> None:
    assert raw(place, "message", '{"message":"hi"}', {"message": "hi"}).status == 401
    assert raw(place, "message", "hi", {"message": "hi"}).status == 201


def test_the_server_is_as_strict_about_headers_as_the_measured_one(place: Place) -> None:
    without_header = raw(place, "message", "hi", {"message": "hi"}, **{"OCS-APIRequest": ""})
    assert without_header.status == 412
    assert json.loads(without_header.body) == {"message": "CSRF check failed"}
    assert raw(place, "message", "hi", {"message": "hi"}, **{"X-Nextcloud-Talk-Bot-Random": "short"}).status == 400
    assert raw(place, "message", "hi", {"message": "hi"}, **{"X-Nextcloud-Talk-Bot-Signature": ""}).status == 400
    as_xml = raw(place, "message", "hi", {"message": "hi"}, Accept="*/*")
    assert (as_xml.status, as_xml.body[:5]) == (201, b"<?xml")
    refused = raw(place, "message", "other", {"message": "hi"})
    assert refused.headers["X-Nextcloud-Bruteforce-Throttled"] == "200ms"
    assert b'"statuscode": 401' in refused.body


def test_upper_case_signatures_and_reactions_in_the_address_are_taken(place: Place) -> None:
    random = signing.fresh_random()
    signed = signing.sign(place.address.secret, random, "👍".encode()).upper()
    headers = {"X-Nextcloud-Talk-Bot-Random": random, "X-Nextcloud-Talk-Bot-Signature": signed}
    path = f"reaction/{place.message_id}"
    assert raw(place, path, "👍", {"reaction": "👍"}, **headers).status == 201
    assert raw(place, f"{path}?reaction=%F0%9F%91%8D", "👍", None, method="DELETE").status == 200


@pytest.mark.parametrize("reply_to", ["x", True, -1, 2**70, [1], {"a": 1}])
def test_a_reply_to_that_is_no_number_is_refused(place: Place, reply_to: Any) -> None:
    assert raw(place, "message", "hi", {"message": "hi", "replyTo": reply_to}).status == 400


@pytest.mark.parametrize("message", [5, None, ["hi"], {"a": "hi"}])
def test_a_message_that_is_no_text_is_refused(place: Place, message: Any) -> None:
    assert raw(place, "message", "hi", {"message": message}).status == 400


# What goes wrong on the way.


def test_each_request_has_a_long_random_text_of_its_own_and_the_headers_that_talk_asks_for(talk: TalkServer) -> None:
    post(to(talk))
    post(to(talk))
    client.react(to(talk), "r00mtok1", 5, "👀")
    assert len({seen.headers["X-Nextcloud-Talk-Bot-Random"] for seen in talk.requests}) == 3
    for seen in talk.requests:
        assert len(seen.headers["X-Nextcloud-Talk-Bot-Random"]) == 64
        assert (seen.headers["Ocs-Apirequest"], seen.headers["Accept"]) == ("true", "application/json")
        assert SECRET not in str(seen)


@pytest.mark.parametrize("room", ["", "..", "a/b", "room?x", "room#x", "å", "a" * 65])
def test_a_room_that_is_no_token_can_not_be_abused_to_reach_another_path(talk: TalkServer, room: str) -> None:
    assert post(to(talk), room=room) == Outcome("permanent", None, "bad_room")
    assert talk.requests == []


def test_a_room_that_is_gone_is_told(talk: TalkServer) -> None:
    talk.gone.add("r00mtok1")
    outcome = post(to(talk))
    assert (outcome.kind, outcome.status, outcome.reason) == ("permanent", 404, "room_gone")


def test_a_disabled_bot_is_refused(talk: TalkServer) -> None:
    talk.disabled.add(SECRET)
    assert post(to(talk)).status == 401


@pytest.mark.parametrize(
    ("fault", "kind", "reason", "wait"),
    [
        (Fault.maintenance(), "retryable", "busy", 5.0),
        (Fault(503, headers=(("Retry-After", "90"),)), "retryable", "busy", 90.0),
        (Fault(502), "retryable", "busy", 5.0),
        (Fault(504), "retryable", "busy", 5.0),
        (Fault(500), "retryable", "busy", 5.0),
        (Fault.throttled(), "retryable", "throttled", 1800.0),
        (Fault.throttled(5), "retryable", "throttled", 30.0),
        (Fault.throttled(99_999), "retryable", "throttled", 3600.0),
        (Fault(429, headers=(("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"),)), "retryable", "throttled", 1800.0),
        (Fault(412, b'{"message":"CSRF check failed"}'), "permanent", "no_ocs_header", None),
        (Fault(403), "permanent", "not_talk", None),
        (Fault(200, b"<html>Sign in to the hotel</html>"), "permanent", "not_talk", None),
        (Fault.redirect(), "permanent", "redirected", None),
    ],
)
def test_each_status_has_its_meaning(
    talk: TalkServer, fault: Fault, kind: str, reason: str, wait: float | None
) -> None:
    talk.fail(fault)
    outcome = post(to(talk))
    assert (outcome.kind, outcome.reason, outcome.retry_after) == (kind, reason, wait)
    assert outcome.remedy is not None
    assert len(talk.requests) == 1


@pytest.mark.parametrize("form", ["xml", "html", "gzip"])
def test_a_created_message_is_a_success_whatever_the_body_looks_like(talk: TalkServer, form: str) -> None:
    talk.fail(Fault.formed(form))
    assert post(to(talk)).kind == "success"


def test_an_answer_that_is_lost_after_the_message_was_stored_is_ambiguous(talk: TalkServer) -> None:
    talk.fail(Fault.lost())
    outcome = post(to(talk))
    assert (outcome.kind, outcome.status) == ("ambiguous", None)
    assert len(talk.posts) == 1


def test_a_connection_that_is_reset_after_sending_is_ambiguous(talk: TalkServer) -> None:
    talk.fail(Fault.reset())
    assert post(to(talk)).kind == "ambiguous"
    assert talk.posts == []


def test_an_answer_that_does_not_come_in_time_is_ambiguous(talk: TalkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "READ_SECONDS", 0.3)
    talk.fail(Fault.late(1.0))
    outcome = post(to(talk))
    assert (outcome.kind, outcome.reason) == ("ambiguous", "timeout")
    assert len(talk.posts) == 1


def test_a_delayed_answer_is_waited_for(talk: TalkServer) -> None:
    assert (client.CONNECT_SECONDS, client.READ_SECONDS) == (5.0, 35.0)
    talk.fail(Fault.late(1.0))
    assert post(to(talk)).kind == "success"


def test_a_refused_connection_is_worth_another_try() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcome = post(Address(1, 1, f"http://127.0.0.1:{port}", SECRET))
    assert (outcome.kind, outcome.reason) == ("retryable", "refused")


def test_an_unknown_host_is_worth_another_try() -> None:
    assert post(Address(1, 1, "http://no-such-host.invalid", SECRET)).kind == "retryable"


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://[fe80::1]", "http://0.0.0.0"])
def test_the_address_of_an_instance_can_not_be_abused_to_reach_metadata(url: str) -> None:
    outcome = post(Address(1, 1, url, SECRET))
    assert (outcome.kind, outcome.reason) == ("permanent", "blocked")


def test_a_server_that_speaks_no_tls_fails_for_good(talk: TalkServer) -> None:
    outcome = post(Address(1, 1, talk.url.replace("http://", "https://"), SECRET))
    assert outcome.kind in ("permanent", "retryable")
    assert outcome.kind != "ambiguous"


def test_a_missing_file_of_authorities_is_told(tmp_path: Path) -> None:
    address = Address(1, 1, "https://127.0.0.1:9", SECRET, ca_file=str(tmp_path / "none.pem"))
    outcome = post(address)
    assert (outcome.kind, outcome.reason) == ("permanent", "tls")


def test_a_server_that_hangs_up_in_the_middle_of_its_answer_is_ambiguous() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        outcome = post(Address(1, 1, f"http://127.0.0.1:{listening.getsockname()[1]}", SECRET))
        thread.join(5)
    assert outcome.kind == "ambiguous"


def test_an_endless_answer_is_ambiguous_and_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 1000)
    with TalkServer(SECRET) as talk:
        talk.fail(Fault(503, b"x" * 5000))
        assert post(to(talk)).reason == "too_large"


def test_a_base_address_with_a_path_is_kept() -> None:
    with TalkServer(SECRET, prefix="/nextcloud") as talk:
        assert post(to(talk)).kind == "success"
        assert talk.requests[0].path == f"{API}r00mtok1/message"


@responses.activate
def test_the_request_is_what_talk_documents() -> None:
    url = "https://cloud.example.test/nextcloud/ocs/v2.php/apps/spreed/api/v1/bot/r00mtok1/message"
    responses.post(url, status=201, json={"ocs": {}})
    outcome = post(Address(1, 1, "https://cloud.example.test/nextcloud", SECRET), "hi", reply_to=7, reference_id="abc")
    assert outcome.kind == "success"
    (call,) = responses.calls
    assert call.request.body == b'{"message":"hi","referenceId":"abc","replyTo":7}'


def test_a_post_in_the_fake_knows_who_signed_it() -> None:
    with TalkServer(["a" * 64, "b" * 64]) as talk:
        post(Address(1, 1, talk.url, "b" * 64))
        (made,) = talk.wait_for(1)
    assert isinstance(made, Post)
    assert made.secret == "b" * 64
