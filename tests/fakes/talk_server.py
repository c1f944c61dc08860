"""A Nextcloud Talk that takes bots' posts and reactions, as strict as the measured one (spec: nextcloud.md 2, 13).

In a test: `with TalkServer(secret) as talk:` gives `talk.url`, `talk.posts` (what stands in the rooms, in order),
`talk.reactions`, `talk.requests` (everything that came) and `talk.fail(Fault...)` for what goes wrong next. As a process
of its own: `python -m tests.fakes.talk_server --port 0 --secret S --record FILE` prints its address and writes one JSON
line for each request, so that a crash test can kill everything else.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

API = "/ocs/v2.php/apps/spreed/api/v1/bot/"
MAX_MESSAGE = 32_000
UNKNOWN_MESSAGE = 999_999
XML = b'<?xml version="1.0"?>\n<ocs><meta><status>ok</status><statuscode>%d</statuscode></meta><data/></ocs>\n'
HTML = b"<!DOCTYPE html><html><body><h1>Maintenance mode</h1></body></html>"


@dataclass(frozen=True)
class Fault:
    """What happens to the next request instead of the usual answer; `of` narrows it to "message" or "reaction".

    `stores` says whether the message is stored all the same, whatever the answer; `ends` is "drop" (closed without a byte) or "reset" (RST);
    `holds` is how many seconds later it is stored, on the server's clock: nobody is kept waiting for that here.
    """

    status: int | None = None
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    stores: bool = False
    holds: float = 0.0
    ends: str = ""
    form: str = ""
    of: str = ""

    @classmethod
    def maintenance(cls) -> Fault:
        return cls(503, HTML, (("Content-Type", "text/html"),))

    @classmethod
    def throttled(cls, retry_after: int | None = None) -> Fault:
        headers = (("X-Nextcloud-Bruteforce-Throttled", "25000ms"),)
        return cls(429, headers=headers if retry_after is None else (*headers, ("Retry-After", str(retry_after))))

    @classmethod
    def redirect(cls) -> Fault:
        return cls(302, headers=(("Location", "/redirected"),))

    @classmethod
    def lost(cls) -> Fault:
        """Stored, and then the connection breaks before the answer."""
        return cls(ends="drop", stores=True)

    @classmethod
    def held(cls, seconds: float = 25.0) -> Fault:
        """Nobody reads the answer any more; the message is stored so many seconds later, as a throttling server does."""
        return cls(ends="drop", stores=True, holds=seconds)

    @classmethod
    def reset(cls) -> Fault:
        """Reset by the server before anything is stored."""
        return cls(ends="reset")

    @classmethod
    def late(cls, seconds: float) -> Fault:
        """The usual answer, after a while: what throttling does to valid requests."""
        return cls(delay=seconds, stores=True)

    @classmethod
    def formed(cls, form: str) -> Fault:
        """The usual answer as "xml", "gzip" or "html"."""
        return cls(form=form, stores=True)


@dataclass(frozen=True)
class Seen:
    """One request as it came: `kind` is message, react, unreact or other; `status` is what was answered (0: nothing)."""

    number: int
    at: float
    kind: str
    method: str
    path: str
    room: str
    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True)
class Post:
    """A message that stands in a room."""

    id: int
    number: int
    at: float
    room: str
    text: str
    reply_to: int
    reference_id: str
    silent: bool
    random: str
    secret: str


@dataclass
class TalkServer:
    """The fake; a context manager that serves on 127.0.0.1 in threads of its own.

    `rooms` None: every room exists; `gone` are rooms deleted after the setup; `disabled` are secrets of bots that may
    not post; `known_messages` None: every positive id but 999999 can be replied and reacted to. `longest` is what it takes
    of one message, `clock` tells its time in unix seconds. `bot_features` are the flags that Talk 25 tells a bot; None: it
    is older, and does not know the question.
    """

    secret: str | Iterable[str] = ""
    port: int = 0
    prefix: str = ""
    rooms: set[str] | None = None
    gone: set[str] = field(default_factory=set)
    disabled: set[str] = field(default_factory=set)
    known_messages: set[int] | None = None
    longest: int = MAX_MESSAGE
    bot_features: int | None = None
    record: Path | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.secrets = [self.secret] if isinstance(self.secret, str) else list(self.secret)
        self.posts: list[Post] = []
        self.requests: list[Seen] = []
        self.reactions: dict[tuple[str, int], list[str]] = {}
        self.violations: list[str] = []
        self.lock = threading.Lock()
        self._faults: list[Fault] = []
        self._always: Fault | None = None
        self._randoms: set[str] = set()
        self._next_id = 100_000
        self._holds = 0.0
        self._held: list[tuple[float, Post]] = []

    def __enter__(self) -> TalkServer:
        self._server = make_server("127.0.0.1", self.port, self._serve, threaded=True)
        # A connection that we cut ourselves is no error to tell.
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{self.prefix}"

    @property
    def texts(self) -> list[str]:
        return [post.text for post in self.posts]

    def fail(self, *faults: Fault) -> None:
        """The next requests meet these faults, one each, in order."""
        with self.lock:
            self._faults += faults

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        """Every request in the block meets this fault."""
        self._always = fault
        try:
            yield
        finally:
            self._always = None

    def wait_for(self, posts: int, *, seconds: float = 10.0) -> list[Post]:
        """The posts, as soon as there are so many; raises AssertionError when they don't come."""
        end = time.monotonic() + seconds
        while len(self.posts) < posts:
            assert time.monotonic() < end, f"{len(self.posts)} of {posts} posts came in {seconds:g} s"
            time.sleep(0.01)
        return list(self.posts)

    def let_in(self) -> None:
        """Stores what was held back and is due; so does every request."""
        with self.lock:
            self._let_in()

    def check(self) -> None:
        """Raises AssertionError when a client did what no client should do."""
        assert not self.violations, self.violations

    def _serve(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        body = request.get_data()
        path = request.path.removeprefix(self.prefix)
        kind, room = _route(request.method, path)
        fault = self._take(kind)
        with self.lock:
            self._let_in()
            number = len(self.requests)
            if fault is None or fault.stores:
                self._holds = 0.0 if fault is None else fault.holds
                response = self._answer(request, path, kind, room, number, body)
                if fault is not None and fault.status is not None:
                    # A proxy in between says otherwise.
                    response = Response(fault.body, fault.status, list(fault.headers))
            else:
                response = Response(fault.body, fault.status or 201, list(fault.headers))
            status = 0 if fault is not None and fault.ends else response.status_code
            seen = Seen(
                number, time.time(), kind, request.method, path, room, status, dict(request.headers), _text(body)
            )
            self.requests.append(seen)
            self._write({"request": asdict(seen)})
        if fault is not None:
            time.sleep(fault.delay)
            if fault.ends:
                _cut(environ["werkzeug.socket"], rst=fault.ends == "reset")
            response = _formed(response, fault.form)
            response.headers.update(dict(fault.headers))
        return response(environ, start_response)

    def _take(self, kind: str) -> Fault | None:
        kind = "reaction" if kind in ("react", "unreact") else kind
        with self.lock:
            if self._always is not None:
                return self._always if self._always.of in ("", kind) else None
            for position, fault in enumerate(self._faults):
                if fault.of in ("", kind):
                    return self._faults.pop(position)
        return None

    def _answer(self, request: Request, path: str, kind: str, room: str, number: int, body: bytes) -> Response:
        if path == "/status.php":
            return _json({"installed": True, "maintenance": False, "version": "31.0.6.2", "productname": "Nextcloud"})
        if kind == "other":
            if path == "/redirected":
                self.violations.append("followed a redirect")
            return _ocs(404)
        if request.headers.get("OCS-APIRequest", "").lower() != "true":
            self.violations.append("no OCS-APIRequest")
            return _json({"message": "CSRF check failed"}, 412)
        data = _parameters(request, body)
        if kind == "features":
            return self._features(request, data)
        if kind == "message":
            status = self._message(request, data, room, number)
        else:
            status = self._reaction(request, data, path, room, kind)
        headers = {"X-Nextcloud-Bruteforce-Throttled": "200ms"} if status == 401 else {}
        return _ocs(status, xml="json" not in request.headers.get("Accept", ""), headers=headers)

    def _message(self, request: Request, data: dict[str, Any], room: str, number: int) -> int:
        text = data.get("message")
        if not isinstance(text, str) or not text.strip():
            return 400
        status, secret = self._bot(request, text, room)
        if status:
            return status
        reply_to = data.get("replyTo", 0)
        if not isinstance(reply_to, int) or isinstance(reply_to, bool):
            return 400
        if reply_to and not self._knows(reply_to):
            return 400
        if len(text) > self.longest:
            return 413
        post = Post(
            id=0,
            number=number,
            at=0.0,
            room=room,
            text=text,
            reply_to=reply_to,
            reference_id=str(data.get("referenceId", ""))[:64],
            silent=bool(data.get("silent", False)),
            random=request.headers["X-Nextcloud-Talk-Bot-Random"],
            secret=secret,
        )
        if self._holds:
            self._held.append((self.clock() + self._holds, post))
        else:
            self._stand(post)
        return 201

    def _let_in(self) -> None:
        due = [post for at, post in self._held if at <= self.clock()]
        self._held = [each for each in self._held if each[1] not in due]
        for post in due:
            self._stand(post)

    def _stand(self, post: Post) -> Post:
        """The message stands in its room from now on."""
        self._next_id += 1
        post = replace(post, id=self._next_id, at=self.clock())
        self.posts.append(post)
        self._write({"post": asdict(post)})
        return post

    def _reaction(self, request: Request, data: dict[str, Any], path: str, room: str, kind: str) -> int:
        emoji = data.get("reaction")
        if not isinstance(emoji, str) or not emoji:
            return 400
        status, _ = self._bot(request, emoji, room)
        if status:
            return status
        message_id = int(path.rsplit("/", 1)[1])
        if not self._knows(message_id):
            return 404
        if emoji.isascii() or len(emoji) > 12:
            return 400
        placed = self.reactions.setdefault((room, message_id), [])
        if kind == "react":
            if emoji in placed:
                return 200
            placed.append(emoji)
            return 201
        if emoji not in placed:
            return 404
        placed.remove(emoji)
        return 200

    def _features(self, request: Request, data: dict[str, Any]) -> Response:
        if self.bot_features is None:
            return _ocs(404)
        token = str(data.get("token", ""))
        status, _ = self._bot(request, token, token)
        if status:
            return _ocs(status, headers={"X-Nextcloud-Bruteforce-Throttled": "200ms"})
        meta = {"status": "ok", "statuscode": 200, "message": "OK"}
        return _json({"ocs": {"meta": meta, "data": {"features": self.bot_features}}})

    def _bot(self, request: Request, value: str, room: str) -> tuple[int, str]:
        """A status that refuses the request, or 0 and the secret that signed it."""
        random = request.headers.get("X-Nextcloud-Talk-Bot-Random", "")
        given = request.headers.get("X-Nextcloud-Talk-Bot-Signature", "").lower()
        if len(random) < 32 or not given:
            return 400, ""
        if random in self._randoms:
            self.violations.append("used a random twice")
        self._randoms.add(random)
        if self.rooms is not None and room not in self.rooms | self.gone:
            return 401, ""
        for secret in self.secrets:
            signed = (random + value).encode("utf-8", "surrogatepass")
            made = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
            if hmac.compare_digest(made, given) and secret not in self.disabled:
                return (404, "") if room in self.gone else (0, secret)
        return 401, ""

    def _knows(self, message_id: int) -> bool:
        if self.known_messages is None:
            return 0 < message_id != UNKNOWN_MESSAGE
        return message_id in self.known_messages or any(post.id == message_id for post in self.posts)

    def _write(self, line: dict[str, Any]) -> None:
        if self.record is None:
            return
        with self.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def recorded(record: Path) -> list[Post]:
    """The posts that a server in a process of its own has written down."""
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    return [Post(**line["post"]) for line in map(json.loads, lines) if "post" in line]


def _route(method: str, path: str) -> tuple[str, str]:
    if not path.startswith(API):
        return "other", ""
    room, _, rest = path.removeprefix(API).partition("/")
    if (method, room) == ("POST", "ask-features"):
        return "features", ""
    if (method, rest) == ("POST", "message"):
        return "message", room
    if rest.startswith("reaction/") and rest.removeprefix("reaction/").isdigit() and method in ("POST", "DELETE"):
        return ("react" if method == "POST" else "unreact"), room
    return "other", room


def _parameters(request: Request, body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = dict(request.args)
    if body and "json" in request.headers.get("Content-Type", ""):
        try:
            data = json.loads(body)
        except ValueError:
            return found
        if isinstance(data, dict):
            found.update(data)
    return found


def _json(data: Any, status: int = 200) -> Response:
    return Response(json.dumps(data), status, content_type="application/json; charset=utf-8")


def _ocs(status: int, *, xml: bool = False, headers: dict[str, str] | None = None) -> Response:
    ok = status < 400
    meta = {"status": "ok" if ok else "failure", "statuscode": status, "message": "OK" if ok else ""}
    if xml:
        return Response(XML % status, status, headers, content_type="application/xml; charset=utf-8")
    response = _json({"ocs": {"meta": meta, "data": None}}, status)
    response.headers.update(headers or {})
    return response


def _formed(response: Response, form: str) -> Response:
    if form == "xml":
        return Response(XML % response.status_code, response.status_code, content_type="application/xml")
    if form == "html":
        return Response(HTML, response.status_code, content_type="text/html")
    if form == "gzip":
        response.set_data(gzip.compress(response.get_data()))
        response.headers["Content-Encoding"] = "gzip"
    return response


def _cut(connection: socket.socket, *, rst: bool) -> None:
    if rst:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The file objects of the request still hold the socket: only its descriptor can be closed at once.
        os.close(connection.detach())
    else:
        connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError("the fake cut the connection")


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--secret", action="append", default=[])
    parser.add_argument("--record", type=Path)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    options = parser.parse_args(arguments)
    with TalkServer(options.secret, port=options.port, record=options.record) as talk:
        print(talk.url, flush=True)
        with talk.failing(Fault.late(options.delay)):
            threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
