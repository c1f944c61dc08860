from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from werkzeug.test import create_environ, run_wsgi_app

from app.accounts import instances
from app.accounts.models import Instance
from app.inbox.models import Delivery
from app.infra import metrics, signing
from app.infra.db import db, reading, transaction
from app.infra.errors import TooSlow
from app.platforms import registrations
from app.platforms.models import Registration
from app.platforms.nextcloud_talk import routes
from app.platforms.sandbox import server as sandbox

CLOUD = "https://cloud.example.test/nextcloud"
RANDOM = "R" * 64


@dataclass
class Talk:
    """A Nextcloud that sends webhooks to the application under test."""

    client: Any
    registration: Registration
    secret: str
    count: int = 0

    def body(self, text: str = "@atlas hi", **values: Any) -> bytes:
        self.count += 1
        content = json.dumps({"message": text, "parameters": []})
        event = {
            "type": "Create",
            "actor": {"type": "Person", "id": "users/ada", "name": "Ada"},
            "object": {"type": "Note", "id": str(self.count), "name": "message", "content": content},
            "target": {"type": "Collection", "id": "r00mtok1", "name": "Harbour crew"},
        }
        return json.dumps(event | values).encode()

    def headers(self, body: bytes, **values: str | None) -> dict[str, str]:
        random = signing.fresh_random()
        usual: dict[str, str | None] = {
            "Content-Type": "application/json",
            "X-Nextcloud-Talk-Random": random,
            "X-Nextcloud-Talk-Signature": signing.sign(self.secret, random, body),
            "X-Nextcloud-Talk-Backend": CLOUD + "/",
            "OCS-APIRequest": "true",
        }
        return {name: text for name, text in (usual | values).items() if text is not None}

    def send(self, body: bytes | None = None, *, path: str | None = None, **headers: str | None) -> Any:
        body = self.body() if body is None else body
        to = path or f"/webhook/talk/{self.registration.key}"
        return self.client.post(to, data=body, headers=self.headers(body, **headers))


class Unread:
    """A body that counts what was taken of it."""

    def __init__(self, data: bytes) -> None:
        self.data, self.taken = data, 0

    def read(self, size: int = -1) -> bytes:
        size = len(self.data) - self.taken if size < 0 else size
        piece = self.data[self.taken : self.taken + size]
        self.taken += len(piece)
        return piece

    def readline(self, size: int = -1) -> bytes:
        return self.read(size)

    def readinto(self, buffer: Any) -> int:
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.fixture
def talk(client: Any) -> Talk:
    cloud = instances.add("cloud", CLOUD)
    made = registrations.create(cloud.id, "Parley")
    return Talk(client, made, registrations.secret(made))


def rows() -> list[Delivery]:
    with reading() as session:
        return list(session.scalars(select(Delivery).order_by(Delivery.id)).all())


def test_a_signed_event_is_stored_before_it_is_acknowledged_with_an_empty_body(talk: Talk, sent: Any) -> None:
    body = talk.body()
    answer = talk.send(body)
    assert (answer.status_code, answer.data) == (200, b"")
    (row,) = rows()
    assert (row.body, row.room, row.actor, row.kind, row.state) == (body, "r00mtok1", "users/ada", "message", "queued")
    assert any(args == [row.instance_id, "r00mtok1"] for _, args, _ in sent)


def test_no_cookie_is_set_and_no_redirect_is_ever_given(talk: Talk) -> None:
    key = talk.registration.key
    for path in (
        f"/webhook/talk/{key}",
        f"/webhook/talk/{key}/",
        f"//webhook/talk/{key}",
        "/webhook/talk/",
        f"/webhook//talk/{key}",
    ):
        answer = talk.send(path=path)
        assert answer.status_code in (200, 401, 404)
        assert "Set-Cookie" not in answer.headers
        assert "Location" not in answer.headers
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        answer = talk.client.open(f"/webhook/talk/{key}", method=method)
        assert answer.status_code == 405
        assert "Location" not in answer.headers


def test_whatever_is_wrong_with_a_signature_the_answer_is_the_same(talk: Talk) -> None:
    body = talk.body()
    random = signing.fresh_random()
    signed = signing.sign(talk.secret, random, body)
    wrong: list[dict[str, str | None]] = [
        {"X-Nextcloud-Talk-Signature": "0" * 64},
        {"X-Nextcloud-Talk-Signature": None},
        {"X-Nextcloud-Talk-Signature": ""},
        {"X-Nextcloud-Talk-Signature": "sign\u00e4tur"},
        {"X-Nextcloud-Talk-Random": None},
        {"X-Nextcloud-Talk-Random": "", "X-Nextcloud-Talk-Signature": signing.sign(talk.secret, "", body)},
        {"X-Nextcloud-Talk-Random": "r" * 31, "X-Nextcloud-Talk-Signature": signing.sign(talk.secret, "r" * 31, body)},
        {"X-Nextcloud-Talk-Random": random + "x", "X-Nextcloud-Talk-Signature": signed},
        {"X-Nextcloud-Talk-Backend": "https://elsewhere.example.test/"},
    ]
    answers = [talk.send(body, **headers) for headers in wrong]
    answers.append(talk.send(body, path="/webhook/talk/no-such-key"))
    answers.append(talk.send(body + b" ", **{"X-Nextcloud-Talk-Random": random, "X-Nextcloud-Talk-Signature": signed}))
    answers.append(talk.send(b"{", **{"X-Nextcloud-Talk-Signature": "0" * 64}))
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.data for answer in answers}) == 1
    assert len({str(sorted(answer.headers)) for answer in answers}) == 1
    assert answers[0].json["code"] == "bad_signature"
    assert rows() == []


def test_an_unknown_key_costs_the_same_work_as_a_bad_signature(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    work: list[int] = []
    real = signing.sign

    def counted(secret: str, random: str, payload: bytes) -> str:
        work.append(len(payload))
        return real(secret, random, payload)

    body = talk.body()
    costs = []
    for path in (None, "/webhook/talk/no-such-key"):
        headers = talk.headers(body, **{"X-Nextcloud-Talk-Signature": "0" * 64})
        monkeypatch.setattr(signing, "sign", counted)
        work.clear()
        talk.client.post(path or f"/webhook/talk/{talk.registration.key}", data=body, headers=headers)
        costs.append(list(work))
        monkeypatch.setattr(signing, "sign", real)
    assert costs == [[len(body)] * 2] * 2


def test_upper_case_hex_is_taken(talk: Talk) -> None:
    body = talk.body()
    signed = signing.sign(talk.secret, RANDOM, body).upper()
    assert (
        talk.send(body, **{"X-Nextcloud-Talk-Random": RANDOM, "X-Nextcloud-Talk-Signature": signed}).status_code == 200
    )


@pytest.mark.parametrize("body", [b'{"type":"Create",', b"", b"[]", b"\xff", b"[" * 100_000])
def test_a_signed_body_that_is_no_event_is_a_bad_request(talk: Talk, body: bytes) -> None:
    answer = talk.send(body)
    assert (answer.status_code, answer.json["code"]) == (400, "bad_input")
    assert rows() == []


@pytest.mark.parametrize(
    "event", [{"type": "Announce"}, {}, {"type": "Create", "actor": None, "object": {"id": None}, "target": None}]
)
def test_an_unknown_signed_event_is_taken_and_recorded(talk: Talk, event: Any) -> None:
    assert talk.send(json.dumps(event).encode()).status_code == 200
    assert [row.kind for row in rows()] == ["unknown"]


def test_the_same_request_twice_makes_one_row(talk: Talk) -> None:
    body = talk.body()
    headers = talk.headers(body)
    for _ in range(3):
        assert talk.client.post(f"/webhook/talk/{talk.registration.key}", data=body, headers=headers).status_code == 200
    assert len(rows()) == 1


def sent_as(app: Flask, path: str, body: Unread, **environ: Any) -> str:
    """The status for a request whose body is read from `body`."""
    made = create_environ(path, method="POST") | {"wsgi.input": body} | environ
    return run_wsgi_app(app, made)[1]


def test_a_body_over_the_limit_is_refused_before_it_is_read(talk: Talk, app: Flask) -> None:
    body = Unread(b"x" * (3 * 1024 * 1024))
    status = sent_as(app, f"/webhook/talk/{talk.registration.key}", body, CONTENT_LENGTH=str(len(body.data)))
    assert status.startswith("413")
    assert body.taken == 0


def test_a_chunked_body_over_the_limit_is_read_no_further_than_the_limit(talk: Talk, app: Flask) -> None:
    body = Unread(b"x" * (8 * 1024 * 1024))
    chunked = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    status = sent_as(app, f"/webhook/talk/{talk.registration.key}", body, **chunked)
    assert status.startswith("413")
    assert body.taken <= routes.MAX_BODY + 1024 * 1024


def test_the_largest_body_is_taken(talk: Talk) -> None:
    body = talk.body("x" * 1_900_000)
    assert talk.send(body).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "GZIP"])
def test_a_compressed_body_is_refused(talk: Talk, encoding: str) -> None:
    answer = talk.send(gzip.compress(talk.body()), **{"Content-Encoding": encoding})
    assert answer.status_code == 415


def test_the_short_way_answers_like_the_long_one(talk: Talk, app: Flask) -> None:
    short = talk.send()
    body = talk.body()
    chunked = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}
    path = f"/webhook/talk/{talk.registration.key}"
    made = create_environ(path, method="POST", data=body, headers=talk.headers(body)) | chunked
    _, status, headers = run_wsgi_app(app, made)
    assert (short.status, short.data) == (status, b"") == ("200 OK", b"")
    assert sorted(short.headers) == sorted(headers)
    assert len(rows()) == 2


def test_every_answer_is_counted_once_whichever_way_it_took(talk: Talk) -> None:
    def counted(status: str) -> float:
        labels = ("POST", "nextcloud_talk.webhook", status)
        return float(metrics.requests_total.labels(*labels)._value.get())

    before = [counted(status) for status in ("200", "401", "400")]
    talk.send()
    talk.send(**{"X-Nextcloud-Talk-Signature": "0" * 64})
    talk.send(b"{")
    assert [counted(status) for status in ("200", "401", "400")] == [number + 1 for number in before]


def test_a_body_that_ends_too_early_is_a_bad_request(talk: Talk, app: Flask) -> None:
    body = talk.body()
    path, headers = f"/webhook/talk/{talk.registration.key}", talk.headers(body)
    for length in (len(body) + 1, len(body) + 100):
        made = create_environ(path, method="POST", data=body, headers=headers) | {"CONTENT_LENGTH": str(length)}
        assert run_wsgi_app(app, made)[1].startswith("400")
    assert rows() == []


class Broken(Unread):
    """A body whose sender breaks off, or is too slow."""

    def __init__(self, error: Exception) -> None:
        super().__init__(b"")
        self.error = error

    def read(self, size: int = -1) -> bytes:
        raise self.error


def test_a_sender_that_breaks_off_or_is_too_slow_is_told_so(talk: Talk, app: Flask) -> None:
    path = f"/webhook/talk/{talk.registration.key}"
    assert sent_as(app, path, Broken(TooSlow()), CONTENT_LENGTH="100").startswith("408")
    assert sent_as(app, path, Broken(ConnectionResetError()), CONTENT_LENGTH="100").startswith("400")


@pytest.mark.parametrize("length", ["-1", "1.5", "x", "", "999999999999"])
def test_a_length_that_is_none_can_not_be_abused(talk: Talk, app: Flask, length: str) -> None:
    body = talk.body()
    made = create_environ(
        f"/webhook/talk/{talk.registration.key}", method="POST", data=body, headers=talk.headers(body)
    )
    assert run_wsgi_app(app, made | {"CONTENT_LENGTH": length})[1][:3] in ("400", "401", "413")
    assert rows() == []


# The backend header is a claim: checked, never used as an address.


@pytest.mark.parametrize(
    ("backend", "status"),
    [
        (CLOUD + "/", 200),
        (CLOUD, 200),
        ("https://CLOUD.example.test:443/nextcloud/", 200),
        ("/", 200),
        ("", 200),
        (None, 200),
        ("https://cloud.example.test/", 401),
        ("https://cloud.example.test/nextcloud/other/", 401),
        ("http://cloud.example.test/nextcloud/", 401),
        ("https://cloud.example.test:8443/nextcloud/", 401),
        ("https://cloud.example.test@evil.example.test/nextcloud/", 401),
        ("https://evil@cloud.example.test/nextcloud/", 401),
        ("http://169.254.169.254/latest/", 401),
        ("https://cloud.example.test/nextcloud/?x", 401),
        ("file:///etc/passwd", 401),
        ("https://[::1/", 401),
        ("https://cloud.example.test:99999/nextcloud/", 401),
    ],
)
def test_the_backend_header_must_name_the_server_that_we_know(talk: Talk, backend: str | None, status: int) -> None:
    assert talk.send(**{"X-Nextcloud-Talk-Backend": backend}).status_code == status
    assert len(rows()) == (status == 200)


def test_a_further_name_of_the_server_is_taken_when_an_administrator_allowed_it(talk: Talk) -> None:
    with transaction() as session:
        session.scalars(select(Instance)).one().backends = ["http://localhost"]
    assert talk.send(**{"X-Nextcloud-Talk-Backend": "http://localhost/"}).status_code == 200


def test_a_name_that_is_refused_is_remembered_for_whoever_looks_why(talk: Talk) -> None:
    talk.send(**{"X-Nextcloud-Talk-Backend": "http://localhost/"})
    assert registrations.get(talk.registration.id).backend_seen == "http://localhost/"


def test_the_name_of_a_server_can_not_be_abused_to_fill_the_database(talk: Talk) -> None:
    talk.send(**{"X-Nextcloud-Talk-Backend": "http://" + "x" * 5000})
    assert len(registrations.get(talk.registration.id).backend_seen or "") <= 1024


# Addresses without a key.


@pytest.mark.parametrize("path", ["/webhook/talk", "/apps/educai/webhook/talk"])
def test_an_address_without_a_key_serves_the_only_registration_besides_the_sandbox(talk: Talk, path: str) -> None:
    sandbox.ensure("http://127.0.0.1:8000")
    assert talk.send(path=path).status_code == 200
    assert [row.registration_id for row in rows()] == [talk.registration.id]
    registrations.create(talk.registration.instance_id, "Another", shared=False)
    assert talk.send(path=path).status_code == 401


def test_an_address_without_a_key_serves_nobody_where_there_is_only_the_sandbox(client: Any) -> None:
    made = sandbox.ensure("http://127.0.0.1:8000")
    talk = Talk(client, made, registrations.secret(made))
    assert talk.send(path="/webhook/talk", **{"X-Nextcloud-Talk-Backend": "/"}).status_code == 401
    assert talk.send(**{"X-Nextcloud-Talk-Backend": "/"}).status_code == 200


def test_the_key_of_one_registration_and_the_secret_of_another_do_not_fit(talk: Talk) -> None:
    other = registrations.create(talk.registration.instance_id, "Other", shared=False)
    assert talk.send(path=f"/webhook/talk/{other.key}").status_code == 401


# A rotated secret.


def test_both_secrets_are_taken_until_the_new_one_is_used(talk: Talk) -> None:
    old, rotated = talk.secret, registrations.rotate(talk.registration.id)
    assert talk.send().status_code == 200
    talk.secret = registrations.secret(rotated)
    assert talk.send().status_code == 200
    talk.secret = old
    assert talk.send().status_code == 401
    assert len(rows()) == 2


def test_a_secret_that_somebody_else_knows_is_refused_at_once(talk: Talk) -> None:
    registrations.rotate(talk.registration.id, keep_hours=0)
    assert talk.send().status_code == 401


# Trouble of our own.


def lost() -> float:
    return metrics.events_lost_total._value.get()  # type: ignore[no-any-return]


def test_an_event_that_can_not_be_stored_is_told_and_counted(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OperationalError("INSERT", {}, Exception("disk full"))

    monkeypatch.setattr(routes, "accept", full)
    before = lost()
    answer = talk.send()
    assert (answer.status_code, answer.json["code"]) == (503, "unavailable")
    assert "disk full" not in answer.text
    assert lost() == before + 1


def test_a_database_that_is_away_is_told_and_counted(talk: Talk) -> None:
    body = talk.body()
    before = lost()
    with db.engine.begin() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {Registration.__tablename__} RENAME TO away")
    assert talk.send(body).status_code == 503
    assert lost() == before + 1


def test_a_secret_that_no_longer_opens_is_like_no_registration(talk: Talk) -> None:
    with transaction() as session:
        session.scalars(select(Registration)).one().secret = "gAAAAA-not-ours"
    assert talk.send().status_code == 401


def test_nothing_is_asked_of_another_server_while_an_event_is_taken(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, app: Flask
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a network call in the webhook")

    monkeypatch.setattr("socket.socket.connect", never)
    assert talk.send().status_code == 200


def test_the_secret_stands_in_no_answer_and_no_log(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    answers = [talk.send(), talk.send(b"{"), talk.send(**{"X-Nextcloud-Talk-Signature": "0" * 64})]
    assert all(talk.secret not in answer.text for answer in answers)
    assert talk.secret not in caplog.text
    assert talk.secret not in repr(registrations.inlet(talk.registration.key))
