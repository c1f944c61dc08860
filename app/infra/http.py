"""The only way out: HTTP with a guard on addresses, a cap on size, a wall clock, and a socket that can be cut.

Proxies, netrc and certificates of the environment are not read; cookies are not kept.
"""

from __future__ import annotations

import http.client
import json as json_
import queue
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.exceptions import DecodeError, InvalidHeader
from urllib3.util.ssl_match_hostname import CertificateError

from app.infra import clock, netguard
from app.infra.errors import ParleyError
from app.infra.i18n import Sentence, say
from app.infra.netguard import Guard, Pools, Unreached, Wire

Kind = Literal["refused", "timeout", "reset", "too_large", "blocked", "tls", "dns", "protocol"]
Verify = bool | str

TICK_SECONDS = 0.2
MAX_BYTES = 4 * 1024 * 1024
MAX_REDIRECTS = 5
PIECE_BYTES = 64 * 1024
QUEUE_PIECES = 64
HELPER_IDLE_SECONDS = 30.0
SECRET_HEADERS = frozenset({"authorization", "cookie", "x-api-key", "api-key"})
PASSING = frozenset({"refused", "timeout", "reset", "dns"})
USUAL_PORTS = {"http": 80, "https": 443}
REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Compressed streams arrive in lumps, so only whole answers are asked for compressed.
BASE_HEADERS = {"User-Agent": "Parley", "Accept": "*/*", "Accept-Encoding": "identity"}
WHOLE_HEADERS = {"Accept-Encoding": "gzip, deflate"}

DETAIL_CHARS = 300

KINDS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Kind], ...] = (
    ((TimeoutError, requests.Timeout), "timeout"),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, http.client.IncompleteRead), "reset"),
    ((ssl.SSLError, CertificateError, requests.exceptions.SSLError), "tls"),
    ((http.client.HTTPException, DecodeError, InvalidHeader), "protocol"),
    (requests.ConnectionError, "reset"),
)
SENTENCES: Mapping[str, Sentence] = {
    "refused": say("The other server takes no connections."),
    "timeout": say("The other server did not answer in time."),
    "reset": say("The connection to the other server broke off."),
    "too_large": say("The answer of the other server is too large."),
    "blocked": say("This address must not be reached from here."),
    "tls": say("The other server's certificate can't be trusted."),
    "dns": say("The name of the other server is not known."),
    "protocol": say("The other server can't be talked to at this address."),
}


class HttpError(ParleyError):
    """An exchange failed. `sent` is True when the request may have reached the other side all the same."""

    code = "http_error"
    status = 502

    def __init__(self, kind: Kind, *, sent: bool, detail: str = "") -> None:
        super().__init__(SENTENCES[kind], detail=detail)
        self.kind = kind
        self.sent = sent
        self.permanent = kind not in PASSING


@dataclass(frozen=True)
class Head:
    """Status and headers (their names in any case) of an answer whose body is still to come."""

    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Response:
    """A whole answer; `body` is decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def request(
    method: str,
    url: str,
    *,
    guard: Guard,
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    data: bytes | None = None,
    timeout: tuple[float, float] = (5.0, 35.0),
    total_seconds: float | None = None,
    max_bytes: int = MAX_BYTES,
    allow_redirects: bool = False,
    verify: Verify = True,
) -> Response:
    """One exchange, read to its end. Raises HttpError.

    `timeout` is (connect, between two reads) in seconds; `total_seconds` ends it all, by default their sum. Redirects
    are followed only when asked for, and never to where the guard forbids.
    """
    end = clock.monotonic() + (sum(timeout) if total_seconds is None else total_seconds)
    sent = {**WHOLE_HEADERS, **(headers or {})}
    for _ in range(MAX_REDIRECTS + 1):
        opened = exchange(
            method,
            url,
            guard=guard,
            headers=sent,
            json=json,
            data=data,
            timeout=timeout,
            total_seconds=end - clock.monotonic(),
            max_bytes=max_bytes,
            verify=verify,
        )
        response = _whole(opened)
        target = response.headers.get("Location") if response.status in REDIRECTS else None
        if not allow_redirects or not target:
            return response
        onward = urljoin(url, target)
        if _origin(onward) != _origin(url):
            if guard.same_origin:
                raise HttpError("blocked", sent=True, detail="redirected to another origin")
            sent = {name: value for name, value in sent.items() if name.lower() not in SECRET_HEADERS}
        if response.status not in (307, 308) and method != "HEAD":
            method, json, data = "GET", None, None
        url = onward
    raise HttpError("protocol", sent=True, detail=f"more than {MAX_REDIRECTS} redirects")


def exchange(
    method: str,
    url: str,
    *,
    guard: Guard,
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    data: bytes | None = None,
    timeout: tuple[float, float] = (5.0, 35.0),
    total_seconds: float,
    max_bytes: int = MAX_BYTES,
    verify: Verify = True,
) -> Exchange:
    """An exchange to be read as it comes, with redirects left to the caller. Raises HttpError for a bad address."""
    prepared = _prepare(method, url, headers or {}, json=json, data=data)
    adapter = pools.adapter(guard, verify)
    return Exchange(prepared, adapter, Wire(guard), timeout=timeout, total_seconds=total_seconds, max_bytes=max_bytes)


class Exchange:
    """One request and its answer; a context manager, because whoever leaves must close it."""

    def __init__(
        self,
        prepared: requests.PreparedRequest,
        adapter: _Adapter,
        wire: Wire,
        *,
        timeout: tuple[float, float],
        total_seconds: float,
        max_bytes: int,
    ) -> None:
        self._prepared = prepared
        self._adapter = adapter
        self._wire = wire
        self._timeout = (min(timeout[0], total_seconds), min(timeout[1], total_seconds))
        self._total = total_seconds
        self._max_bytes = max_bytes
        self._queue: queue.Queue[Head | bytes | HttpError | None] = queue.Queue(QUEUE_PIECES)
        self._over = threading.Event()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def events(self) -> Iterator[Head | bytes | None]:
        """Head first, then the pieces of the body, and None at least every 200 ms. Raises HttpError."""
        end = clock.monotonic() + self._total
        helpers.run(self._work)
        while True:
            left = end - clock.monotonic()
            if left <= 0:
                self.close()
                raise HttpError("timeout", sent=self._wire.sent, detail=f"not over after {self._total:g} s")
            try:
                item = self._queue.get(timeout=min(TICK_SECONDS, left))
            except queue.Empty:
                yield None
                continue
            if item is None:
                return
            if isinstance(item, HttpError):
                raise item
            yield item

    def close(self, *, grace: float = 0.0) -> None:
        """Cuts the connection, wherever it is; `grace` seconds are given to an answer that is about to be over."""
        if grace:
            self._over.wait(grace)
        if not self._over.is_set():
            self._wire.cut()

    def _work(self) -> None:
        netguard.current.set(self._wire)
        last: HttpError | None = None
        try:
            self._read()
        except HttpError as error:
            last = error
        except Exception as error:
            last = _understood(error, self._wire)
        self._over.set()
        self._put(last)

    def _read(self) -> None:
        response = self._adapter.send(self._prepared, stream=True, timeout=self._timeout)
        raw = response.raw
        self._put(Head(response.status_code, response.headers))
        size = 0
        while piece := raw.read1(PIECE_BYTES, decode_content=True):
            size += len(piece)
            if size > self._max_bytes or self._wire.is_cut:
                raw.close()
                raise HttpError("too_large", sent=True, detail=f"more than {self._max_bytes} bytes")
            self._put(piece)
        raw.release_conn()

    def _put(self, item: Head | bytes | HttpError | None) -> None:
        while True:
            try:
                self._queue.put(item, timeout=TICK_SECONDS)
                return
            except queue.Full:
                if self._wire.is_cut:  # nobody reads any more
                    return


class _Adapter(HTTPAdapter):
    """requests' adapter over guarded pools, without the proxies, cookies and certificates it would look for."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *_: Any, **__: Any) -> None:
        self.poolmanager = Pools(self._context)

    def get_connection_with_tls_context(self, request: Any, verify: Any, proxies: Any = None, cert: Any = None) -> Any:
        parts = urlsplit(request.url)
        return self.poolmanager.connection_from_host(parts.hostname, parts.port, parts.scheme)

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Nothing: the context of the pools decides."""

    def request_url(self, request: Any, proxies: Any) -> str:
        return str(request.path_url)

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        response = requests.Response()
        response.request = req
        response.status_code = resp.status
        response.headers = resp.headers
        response.raw = resp
        return response


class ConnectionPools:
    """The kept-alive connections of this process, apart for each guard and each idea of whom to trust."""

    def __init__(self) -> None:
        self._adapters: dict[tuple[Guard, Verify], _Adapter] = {}
        self._lock = threading.Lock()

    def adapter(self, guard: Guard, verify: Verify) -> _Adapter:
        """The adapter to send with; a file of certificates is read once. Raises HttpError."""
        found = self._adapters.get((guard, verify))
        if found is not None:
            return found
        try:
            made = _Adapter(_context(verify))
        except OSError as error:
            raise HttpError("tls", sent=False, detail=f"the certificates can't be read: {error.strerror}") from None
        with self._lock:
            return self._adapters.setdefault((guard, verify), made)


class Helpers:
    """Threads that work on exchanges; one that has nothing to do is used again, which is cheaper than a new one."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Callable[[], None]]] = []
        self._lock = threading.Lock()

    def run(self, work: Callable[[], None]) -> None:
        """Has `work` done on another thread, at once."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), daemon=True, name="http").start()
        inbox.put(work)

    def _serve(self, inbox: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            try:
                inbox.get(timeout=HELPER_IDLE_SECONDS)()
            except queue.Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue
            with self._lock:
                self._idle.append(inbox)


pools = ConnectionPools()
helpers = Helpers()


def _whole(opened: Exchange) -> Response:
    head = Head(0, {})
    pieces = []
    with opened:
        for event in opened.events():
            if isinstance(event, Head):
                head = event
            elif event:
                pieces.append(event)
    return Response(head.status, head.headers, b"".join(pieces))


def _prepare(
    method: str, url: str, headers: Mapping[str, str], *, json: Any, data: bytes | None
) -> requests.PreparedRequest:
    merged = {**BASE_HEADERS, **headers}
    if json is not None:
        # Lone surrogates can't be sent as UTF-8, and no server reads NaN.
        data = json_.dumps(json, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
        merged["Content-Type"] = "application/json"
    prepared = requests.PreparedRequest()
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.username is not None or not parts.hostname:
            raise ValueError("the address must begin with http:// or https:// and name a host, without a user")
        prepared.prepare(method=method, url=url, headers=merged, data=data)
    except ValueError as error:
        # The libraries below repeat the whole address in their texts, and a key may stand in it.
        known = not isinstance(error, requests.RequestException)
        raise HttpError("protocol", sent=False, detail=str(error) if known else type(error).__name__) from None
    return prepared


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or USUAL_PORTS.get(parts.scheme)
    except ValueError:
        raise HttpError("protocol", sent=True, detail="redirected to something that is no address") from None


def _context(verify: Verify) -> ssl.SSLContext:
    if isinstance(verify, str):
        return ssl.create_default_context(cafile=verify)
    context = ssl.create_default_context()
    if verify:
        # The system's authorities (a company's own among them), and those that come with requests.
        context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _understood(error: BaseException, wire: Wire) -> HttpError:
    """What a failure of the libraries below means, told by its innermost cause that says something."""
    causes = [error]
    while inner := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(inner)
    detail = f"{type(causes[-1]).__name__}: {causes[-1]}"[:DETAIL_CHARS]
    for cause in reversed(causes):
        if isinstance(cause, Unreached):
            return HttpError("reset" if cause.kind == "cut" else cause.kind, sent=wire.sent, detail=str(cause))
        kind = next((kind for classes, kind in KINDS if isinstance(cause, classes)), None)
        if kind:
            # Where no connection of ours was used the failure was made up by a test, and only its class can tell.
            unsure = kind in ("reset", "timeout") and not isinstance(cause, requests.ConnectTimeout)
            return HttpError(kind, sent=wire.sent if wire.used else unsure, detail=detail)
    return HttpError("protocol", sent=wire.sent, detail=detail)
