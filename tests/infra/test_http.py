from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import responses
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from app.infra import http, netguard
from app.infra.http import Head, HttpError
from app.infra.netguard import ADMIN, PUBLIC
from tests.fakes.model_server import ModelServer, Reply, endless
from tests.fakes.raw_server import RawServer, keep_alive, read_request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def answering(answer: bytes, then: Callable[[socket.socket], None] | None = None) -> Callable[[socket.socket], None]:
    def handler(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(answer)
        if then:
            then(connection)

    return handler


def wait(_: socket.socket) -> None:
    time.sleep(20)


def failing(url: str, **how: Any) -> HttpError:
    with pytest.raises(HttpError) as caught:
        http.request("POST", url, json={"a": 1}, **{"guard": ADMIN, **how})
    return caught.value


def test_a_request_is_answered_with_status_headers_and_body() -> None:
    with ModelServer() as server:
        server.answer(Reply(status=201, json={"ok": "å"}, headers={"X-Kind": "test"}))
        response = http.request("POST", server.url + "/chat/completions", guard=ADMIN, json={"text": "å", "n": 1})
        assert (response.status, response.headers["x-kind"]) == (201, "test")
        assert response.body == '{"ok": "å"}'.encode()
        assert server.requests[0].raw == '{"text":"å","n":1}'.encode()
        assert server.requests[0].headers["content-type"] == "application/json"


def test_connections_are_kept_and_used_again() -> None:
    with RawServer(keep_alive(b"one", b"two", b"three")) as server:
        bodies = [http.request("GET", server.url, guard=ADMIN).body for _ in range(3)]
        assert bodies == [b"one", b"two", b"three"]
        assert server.accepted == 1


def test_a_connection_that_stood_idle_too_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netguard, "IDLE_SECONDS", 0.0)
    with RawServer(keep_alive(b"one")) as server:
        for _ in range(3):
            assert http.request("GET", server.url, guard=ADMIN).body == b"one"
        assert server.accepted == 3


def test_lone_surrogates_are_sent_as_valid_utf_8() -> None:
    with ModelServer() as server:
        http.request("POST", server.url, guard=ADMIN, json={"text": "a\ud800b"})
        assert server.requests[0].body == {"text": "a?b"}


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = failing(f"http://127.0.0.1:{port}/")
    assert (error.kind, error.sent, error.permanent) == ("refused", False, False)


def test_an_unknown_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(netguard.socket, "getaddrinfo", unknown)
    error = failing("http://nowhere.example.test/")
    assert (error.kind, error.sent) == ("dns", False)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "127.0.0.1:9",
        "http://ada:pw@127.0.0.1/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:port/",
        "http://[::1/",
        "http://exa mple.test/",
        "",
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    error = failing(url)
    assert (error.kind, error.sent, error.permanent) == ("protocol", False, True)
    assert "pw" not in error.detail


def test_a_header_with_a_line_break_is_refused() -> None:
    error = failing("http://127.0.0.1:9/", headers={"Authorization": "Bearer a\r\nX-Evil: 1"})
    assert (error.kind, error.sent) == ("protocol", False)


def test_no_answer_in_time() -> None:
    with RawServer(wait) as server:
        error = failing(server.url, timeout=(1.0, 0.3))
        assert (error.kind, error.sent) == ("timeout", True)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", CHUNKED])
def test_a_slow_drip_can_not_be_abused_to_hold_a_request_for_ever(head: bytes) -> None:
    def drip(connection: socket.socket) -> None:
        connection.settimeout(5)
        for _ in range(200):
            connection.sendall(b"1\r\nx\r\n" if head == CHUNKED else b"x")
            time.sleep(0.05)

    with RawServer(answering(head, drip)) as server:
        begun = time.monotonic()
        error = failing(server.url, timeout=(1.0, 1.0), total_seconds=0.6)
        assert (error.kind, error.sent) == ("timeout", True)
        assert time.monotonic() - begun < 1.2


def test_by_default_the_whole_request_ends_after_the_sum_of_its_timeouts() -> None:
    with RawServer(answering(CHUNKED, lambda c: [c.sendall(b"1\r\nx\r\n") or time.sleep(0.1) for _ in range(99)])) as s:
        begun = time.monotonic()
        assert failing(s.url, timeout=(0.3, 0.4)).kind == "timeout"
        assert time.monotonic() - begun < 1.5


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", "reset"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "reset"),
        (CHUNKED + b"5\r\nab", "reset"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200 + b"\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000 + b"\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "protocol"),
    ],
)
def test_an_answer_that_breaks_off_or_is_none_is_told(answer: bytes, kind: str) -> None:
    with RawServer(answering(answer)) as server:
        error = failing(server.url)
        assert (error.kind, error.sent) == (kind, True)
        assert "127.0.0.1" not in error.detail


def test_a_large_answer_is_stopped_while_it_is_read() -> None:
    with ModelServer() as server:
        server.answer(Reply(body=endless(50)))
        error = failing(server.url, max_bytes=100_000)
        assert (error.kind, error.permanent) == ("too_large", True)


def test_a_gzip_bomb_is_stopped_by_what_it_unpacks_to() -> None:
    bomb = gzip.compress(b"\0" * 200_000_000, 6)
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(bomb), bomb)
    with RawServer(answering(answer)) as server:
        assert failing(server.url).kind == "too_large"


def test_a_compressed_answer_is_unpacked() -> None:
    body = gzip.compress(b"hello " * 1000)
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with RawServer(answering(answer)) as server:
        assert http.request("GET", server.url, guard=ADMIN).body == b"hello " * 1000


def redirect(status: int, location: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


def test_redirects_are_left_to_the_caller_unless_asked_for() -> None:
    with RawServer(answering(redirect(302, "/there"))) as server:
        assert http.request("GET", server.url, guard=ADMIN).status == 302


def test_a_redirect_on_the_same_origin_is_followed_when_asked_for() -> None:
    def handler(connection: socket.socket) -> None:
        first = read_request(connection)
        connection.sendall(redirect(303, "/there") if b" /there " not in first else OK)

    with RawServer(handler) as server:
        response = http.request("POST", server.url, guard=ADMIN, json={}, allow_redirects=True)
        assert (response.status, response.body) == (200, b"ok")


@pytest.mark.parametrize("guard", [ADMIN, PUBLIC.allowing("127.0.0.1")])
def test_a_redirect_can_not_be_abused_to_reach_another_server(guard: netguard.Guard) -> None:
    with RawServer(keep_alive(b"secret")) as inner:
        target = inner.url.replace("127.0.0.1", "127.0.0.2")
        with RawServer(answering(redirect(307, target + "/"))) as outer:
            error = failing(outer.url, guard=guard, allow_redirects=True)
            assert error.kind == "blocked"
            assert inner.accepted == 0


def test_secrets_do_not_follow_a_redirect_to_another_origin() -> None:
    with ModelServer() as second, RawServer(answering(redirect(307, second.url + "/x"))) as first:
        guard = PUBLIC.allowing("127.0.0.1")
        headers = {"Authorization": "Bearer secret", "X-Other": "1"}
        http.request("POST", first.url, guard=guard, headers=headers, json={}, allow_redirects=True)
        assert "authorization" not in second.requests[0].headers
        assert second.requests[0].headers["x-other"] == "1"


def test_redirects_in_a_circle_end() -> None:
    with RawServer(answering(redirect(302, "/again"))) as server:
        assert failing(server.url, allow_redirects=True).kind == "protocol"


def test_proxies_and_passwords_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password pw")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with ModelServer() as server:
        assert http.request("GET", server.url + "/models", guard=ADMIN).status == 200
        assert "authorization" not in server.requests[0].headers


def test_cookies_are_not_kept() -> None:
    with ModelServer() as server:
        server.answer(Reply(headers={"Set-Cookie": "a=b; Path=/"}))
        for _ in range(2):
            http.request("POST", server.url, guard=ADMIN, json={})
        assert "cookie" not in server.requests[1].headers


# Exchanges that are read as they come


def opened(url: str, **how: Any) -> http.Exchange:
    settings = {"guard": ADMIN, "timeout": (5.0, 20.0), "total_seconds": 20.0, **how}
    return http.exchange("POST", url, json={}, **settings)


def test_an_exchange_tells_the_head_then_pieces_as_they_arrive_and_ticks_between() -> None:
    def drip(connection: socket.socket) -> None:
        for letter in (b"a", b"b"):
            time.sleep(0.5)
            connection.sendall(b"1\r\n" + letter + b"\r\n")
        connection.sendall(b"0\r\n\r\n")

    with RawServer(answering(CHUNKED, drip)) as server, opened(server.url) as exchange:
        seen: list[tuple[float, Any]] = []
        begun = time.monotonic()
        for event in exchange.events():
            seen.append((time.monotonic() - begun, event))
        events = [event for _, event in seen]
        assert isinstance(events[0], Head)
        assert [event for event in events if isinstance(event, bytes)] == [b"a", b"b"]
        assert events.count(None) >= 3
        assert max(later - earlier for (earlier, _), (later, _) in zip(seen, seen[1:], strict=False)) < 0.35


@pytest.fixture
def unanswered() -> Any:
    """The address of a listener whose queue is full: a connection to it is neither taken nor refused."""
    sockets = [socket.socket() for _ in range(6)]
    listener = sockets[0]
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    for filler in sockets[1:]:
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    for each in sockets:
        each.close()


def cut_after(exchange: http.Exchange, *, seconds: float) -> float:
    """Reads for so long, closes, and gives the seconds that closing took, with the work of the helper thread."""
    begun = time.monotonic()
    events = exchange.events()
    for _ in events:
        if time.monotonic() - begun > seconds:
            break
    closing = time.monotonic()
    exchange.close()
    assert exchange._over.wait(5)
    return time.monotonic() - closing


def test_closing_while_connecting_takes_no_time(unanswered: str) -> None:
    assert cut_after(opened(unanswered), seconds=0.5) < 0.5


def test_closing_before_the_head_came_takes_no_time() -> None:
    gone = threading.Event()

    def handler(connection: socket.socket) -> None:
        read_request(connection)
        connection.settimeout(5)
        if connection.recv(1) == b"":
            gone.set()

    with RawServer(handler) as server:
        assert cut_after(opened(server.url), seconds=0.3) < 0.5
        assert gone.wait(0.5)


def test_closing_in_mid_stream_takes_no_time_and_the_server_notices() -> None:
    gone = threading.Event()

    def handler(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(CHUNKED)
        try:
            while True:
                connection.sendall(b"1\r\nx\r\n")
                time.sleep(0.02)
        except OSError:
            gone.set()

    with RawServer(handler) as server:
        assert cut_after(opened(server.url), seconds=0.3) < 0.5
        assert gone.wait(1)


def test_closing_while_tls_shakes_hands_takes_no_time() -> None:
    with RawServer(wait) as server:
        assert cut_after(opened(server.url.replace("http:", "https:")), seconds=0.5) < 0.5


def test_closing_while_the_reader_is_slow_frees_the_helper() -> None:
    with ModelServer() as server:
        server.answer(Reply(body=endless(50)))
        exchange = opened(server.url, max_bytes=10**9)
        events = exchange.events()
        assert isinstance(next(events), Head)
        time.sleep(0.3)
        exchange.close()
        assert exchange._over.wait(1)


def test_closing_an_exchange_that_is_over_leaves_its_connection_to_others() -> None:
    with RawServer(keep_alive(b"one", b"two")) as server:
        first = opened(server.url)
        assert b"".join(event for event in first.events() if isinstance(event, bytes)) == b"one"
        second = opened(server.url)
        events = second.events()
        assert isinstance(next(event for event in events if event), Head)
        first.close()
        assert b"".join(event for event in events if isinstance(event, bytes)) == b"two"
        assert server.accepted == 1


def test_the_wall_clock_ends_an_exchange_that_keeps_talking() -> None:
    with RawServer(
        answering(CHUNKED, lambda c: [c.sendall(b"1\r\nx\r\n") or time.sleep(0.02) for _ in range(500)])
    ) as s:
        with opened(s.url, total_seconds=0.5) as exchange, pytest.raises(HttpError) as caught:
            for _ in exchange.events():
                pass
        assert (caught.value.kind, caught.value.sent) == ("timeout", True)


def test_helper_threads_are_used_again() -> None:
    with RawServer(keep_alive(b"one")) as server:
        http.request("GET", server.url, guard=ADMIN)
        time.sleep(0.05)
        before = sum(thread.name == "http" for thread in threading.enumerate())
        for _ in range(20):
            http.request("GET", server.url, guard=ADMIN)
            time.sleep(0.005)
        assert sum(thread.name == "http" for thread in threading.enumerate()) <= before + 1


# TLS


@pytest.fixture
def certified(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    """A server's context for the name models.example.test, and the file that proves it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "models.example.test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("models.example.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (tmp_path / "cert.pem").write_bytes(pem)
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context, str(tmp_path / "cert.pem")


@pytest.fixture
def local_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(netguard.socket, "getaddrinfo", getaddrinfo)


@pytest.mark.usefixtures("local_names")
def test_the_name_in_the_address_is_what_the_certificate_must_prove(certified: tuple[ssl.SSLContext, str]) -> None:
    context, proof = certified
    told: list[str | None] = []
    context.sni_callback = lambda _sock, name, _context: told.append(name)
    with RawServer(keep_alive(b"fine"), context=context) as server:
        url = f"https://models.example.test:{server.port}/"
        assert http.request("GET", url, guard=ADMIN, verify=proof).body == b"fine"
        assert told == ["models.example.test"]
        error = failing(f"https://other.example.test:{server.port}/", verify=proof)
        assert (error.kind, error.sent, error.permanent) == ("tls", False, True)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.usefixtures("local_names")
def test_a_certificate_that_nobody_vouches_for_is_refused(certified: tuple[ssl.SSLContext, str]) -> None:
    with RawServer(keep_alive(b"fine"), context=certified[0]) as server:
        url = f"https://models.example.test:{server.port}/"
        assert failing(url).kind == "tls"
        assert http.request("GET", url, guard=ADMIN, verify=False).body == b"fine"
        assert failing(url).kind == "tls"


def test_certificates_that_can_not_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "broken.pem").write_text("no certificate")
    for name in ("missing.pem", "broken.pem"):
        error = failing("https://127.0.0.1:9/", verify=str(tmp_path / name))
        assert (error.kind, error.sent) == ("tls", False)


# What the library below may raise, with responses


@pytest.mark.parametrize(
    ("raised", "kind", "sent"),
    [
        (requests.ConnectTimeout("x"), "timeout", False),
        (requests.ReadTimeout("x"), "timeout", True),
        (requests.exceptions.SSLError("x"), "tls", False),
        (requests.ConnectionError("x"), "reset", True),
        (requests.exceptions.InvalidHeader("x"), "protocol", False),
        (OSError("disk"), "protocol", False),
    ],
)
@responses.activate
def test_what_the_library_raises_becomes_a_class_of_ours(raised: Exception, kind: str, sent: bool) -> None:
    responses.post("https://models.example.test/", body=raised)
    error = failing("https://models.example.test/")
    assert (error.kind, error.sent) == (kind, sent)


@responses.activate
def test_a_scripted_answer_is_read_like_a_real_one() -> None:
    responses.post("https://models.example.test/", json={"a": 1}, status=418)
    response = http.request("POST", "https://models.example.test/", guard=ADMIN, json={})
    assert (response.status, response.body) == (418, b'{"a": 1}')


def test_a_secret_in_an_address_stays_out_of_the_error() -> None:
    error = failing("http://127.0.0.1:9/path?key=canary-1234", headers={"Authorization": "Bearer canary-1234"})
    assert "canary" not in error.detail + str(error.sentence)
