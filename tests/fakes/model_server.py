"""A scripted OpenAI-compatible server that speaks real HTTP, for every test that needs a model.

    with ModelServer() as server:
        server.say("Nine.")                          # the next chat request, streamed or not as it asks
        server.call("ping", {"to": "bob"})           # a native tool call
        server.answer(Reply(status=429, json={"error": {"message": "slow down"}}))
        server.rule({"body_has": "tools"}, Reply(status=400, json={...}))   # every request that matches
        ... point an endpoint at server.url ...
        assert server.chats[0].body["model"] == "case-model"

Answers are given in order; a rule that matches goes first; when the answers are used up the last one is given again
(with rules only, the last rule's). A server without any script answers "ok". `GET .../models` lists `server.models`
unless a reply for that path was queued with `on="models"`.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

Json = Any
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
PIECE = 64 * 1024


@dataclass(frozen=True)
class Reply:
    """One answer. `body` is bytes, or a callable that makes its pieces; `chunk_bytes` cuts bytes into pieces.

    delay_headers, delay_chunk: seconds before the status line and before each piece. cut_after: the connection is
    reset after so many bytes of body. hang: after the body the connection stays open until the server stops.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Callable[[], Iterator[bytes]] = b""
    json: Json = None
    chunk_bytes: int | None = None
    delay_headers: float = 0.0
    delay_chunk: float = 0.0
    cut_after: int | None = None
    hang: bool = False


@dataclass(frozen=True)
class Asked:
    """A request as it arrived. `body` is its JSON, None where it is none; header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Json


Script = Reply | Callable[[Asked], Reply]


class ModelServer:
    """Real HTTP on 127.0.0.1 and a free port; `requests` records everything that arrived."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self.models: list[str] = ["case-model"]
        self._script: dict[str, list[Script]] = {"chat": [], "models": [], "embeddings": []}
        self._given = {"chat": 0, "models": 0, "embeddings": 0}
        self._rules: list[tuple[Mapping[str, Any], Script]] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=silent())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def chats(self) -> list[Asked]:
        """The requests for chat completions."""
        return [asked for asked in self.requests if asked.path.endswith("/chat/completions")]

    def answer(self, *scripts: Script, on: str = "chat") -> None:
        """Queues answers; a callable gets the request and makes its answer."""
        self._script[on] += scripts

    def rule(self, when: Mapping[str, Any], script: Script) -> None:
        """Answers every request that matches `when` (tests/cases/README.md, area b)."""
        self._rules.append((when, script))

    def say(self, text: str, **extra: Any) -> None:
        """Queues a text; `extra` as in `completion`."""
        self.answer(lambda asked: fitting(asked, completion(text, **extra)))

    def call(self, name: str, arguments: Json = None, *, id: str = "call_1", text: str | None = None) -> None:
        """Queues one native tool call."""
        calls = [tool_call(name, arguments or {}, id=id)]
        self.answer(lambda asked: fitting(asked, completion(text, calls=calls)))

    def close(self) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        asked = asked_of(environ)
        with self._lock:
            self.requests.append(asked)
            script = self._pick(asked)
        reply = script(asked) if callable(script) else script
        self._stop.wait(reply.delay_headers)
        headers = dict(reply.headers)
        body = reply.body
        if reply.json is not None:
            body = json.dumps(reply.json, ensure_ascii=False).encode()
            headers.setdefault("Content-Type", "application/json")
        if isinstance(body, bytes) and not (reply.hang or reply.chunk_bytes or reply.delay_chunk):
            headers.setdefault("Content-Length", str(len(body)))
        start_response(f"{reply.status} Scripted", list(headers.items()))
        return self._pieces(reply, body, environ["werkzeug.socket"])

    def _pieces(self, reply: Reply, body: Any, connection: socket.socket) -> Iterator[bytes]:
        sent = 0
        yield b""
        for piece in _cut(body, reply.chunk_bytes or PIECE):
            self._stop.wait(reply.delay_chunk)
            if reply.cut_after is not None and sent + len(piece) > reply.cut_after:
                yield piece[: reply.cut_after - sent]
                _reset(connection)
            sent += len(piece)
            yield piece
        if reply.cut_after is not None:
            _reset(connection)
        if reply.hang:
            self._stop.wait()

    def _pick(self, asked: Asked) -> Script:
        for when, script in self._rules:
            if matches(when, asked.body):
                return script
        kind = next((kind for kind in ("models", "embeddings") if asked.path.endswith("/" + kind)), "chat")
        queue = self._script[kind]
        if queue:
            number = self._given[kind]
            self._given[kind] += 1
            return queue[min(number, len(queue) - 1)]
        if kind == "models":
            return Reply(json={"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})
        if self._rules:
            return self._rules[-1][1]
        return fitting(asked, completion("ok"))


def completion(
    text: Json = None,
    *,
    calls: Sequence[Json] = (),
    finish_reason: str | None = None,
    usage: Json = USAGE,
    model: str = "case-model",
    **message: Any,
) -> dict[str, Any]:
    """A chat.completion body; further keywords go into the message (reasoning_content=...)."""
    answer = {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **message}
    reason = finish_reason or ("tool_calls" if calls else "stop")
    choice = {"index": 0, "finish_reason": reason, "message": answer}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000, "model": model, "choices": [choice]}
    return {**body, "usage": usage} if usage else body


def tool_call(name: str, arguments: Json, *, id: str = "call_1") -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def chunk(delta: Json = None, *, finish_reason: str | None = None, **extra: Any) -> dict[str, Any]:
    """One chat.completion.chunk."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish_reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "case-model"}
    return {**head, "choices": [choice], **extra}


def sse(events: Sequence[Json], *, done: bool = True) -> bytes:
    """Events as a text/event-stream; a str goes in as it is, everything else as JSON."""
    lines = [event if isinstance(event, str) else json.dumps(event, ensure_ascii=False) for event in events]
    return "".join(f"data: {line}\n\n" for line in [*lines, *(["[DONE]"] if done else [])]).encode()


def stream(events: Sequence[Json], *, done: bool = True, **how: Any) -> Reply:
    """A reply that streams `events`."""
    return Reply(headers={"Content-Type": "text/event-stream"}, body=sse(events, done=done), **how)


def fitting(asked: Asked, body: dict[str, Any]) -> Reply:
    """`body` (a chat.completion) as the request wants it: streamed word by word, or whole."""
    if not (isinstance(asked.body, dict) and asked.body.get("stream")):
        return Reply(json=body)
    return stream(chunks_of(body))


def chunks_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The chunks that a server would stream for a chat.completion."""
    choice = body["choices"][0]
    message = dict(choice["message"])
    text, calls = message.pop("content", None), message.pop("tool_calls", None)
    deltas = [{"role": "assistant", **{key: value for key, value in message.items() if key != "role"}}]
    if isinstance(text, str):
        deltas += [{"content": piece} for piece in _words(text)]
    elif text is not None:
        deltas.append({"content": text})
    if calls:
        deltas.append({"tool_calls": [{"index": number, **one} for number, one in enumerate(calls)]})
    last = [chunk(finish_reason=choice["finish_reason"])]
    if body.get("usage"):
        last.append({**chunk(), "choices": [], "usage": body["usage"]})
    return [chunk(delta) for delta in deltas] + last


def endless(megabytes: int = 50, *, piece: bytes = b"x" * PIECE) -> Callable[[], Iterator[bytes]]:
    """A body of so many megabytes."""
    return lambda: itertools.repeat(piece, megabytes * 1024 * 1024 // len(piece))


def matches(when: Mapping[str, Any], body: Json) -> bool:
    """True when a request body meets every condition of a rule (tests/cases/README.md, area b)."""
    body = body if isinstance(body, dict) else {}
    messages = [message for message in body.get("messages") or [] if isinstance(message, dict)]
    tools = [message for message in messages if message.get("role") == "tool"]
    answers = [message for message in messages if message.get("role") == "assistant"]
    checks: dict[str, Callable[[Any], bool]] = {
        "body_has": lambda key: key in body,
        "role_present": lambda role: any(message.get("role") == role for message in messages),
        "roles_not_alternating": lambda wanted: _alternating(messages) is not bool(wanted),
        "tool_message_lacks": lambda key: any(key not in message for message in tools),
        "assistant_content_null": lambda wanted: any(m.get("content") is None for m in answers) is bool(wanted),
    }
    return all(checks[name](value) for name, value in when.items())


def _alternating(messages: Sequence[Mapping[str, Any]]) -> bool:
    roles = [message.get("role") for message in messages]
    if roles[:1] == ["system"]:
        roles = roles[1:]
    return all(role == ("user", "assistant")[number % 2] for number, role in enumerate(roles))


def _words(text: str) -> list[str]:
    return [word for word in text.replace(" ", " \0").split("\0") if word] or [""]


def asked_of(environ: Mapping[str, Any]) -> Asked:
    """A WSGI request, read to its end."""
    raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    headers = {key[5:].replace("_", "-").lower(): value for key, value in environ.items() if key.startswith("HTTP_")}
    headers["content-type"] = environ.get("CONTENT_TYPE", "")
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = None
    return Asked(environ["REQUEST_METHOD"], environ["PATH_INFO"], headers, raw, body)


def _cut(body: bytes | Callable[[], Iterator[bytes]], size: int) -> Iterator[bytes]:
    if callable(body):
        return body()
    return (body[start : start + size] for start in range(0, len(body), size))


def _reset(connection: socket.socket) -> None:
    time.sleep(0.05)  # a reset discards what the client has not read yet
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    raise ConnectionResetError("scripted")


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        pass


def silent() -> type[WSGIRequestHandler]:
    """A request handler that logs nothing."""
    return _Silent


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """Use it with `from tests.fakes.model_server import model_server  # noqa: F401`."""
    with ModelServer() as server:
        yield server
