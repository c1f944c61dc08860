"""A TCP server on loopback whose behaviour is one function of a socket: for everything a web server would not do."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

Handler = Callable[[socket.socket], None]


class RawServer:
    """Runs `handler(connection)` on a thread for each connection; `accepted` counts them."""

    def __init__(self, handler: Handler, *, context: ssl.SSLContext | None = None) -> None:
        self.accepted = 0
        self.stopping = threading.Event()
        self._handler = handler
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> RawServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                self._handler(connection)


def read_request(connection: socket.socket) -> bytes:
    """One whole request (head and a body of Content-Length), or b"" when the client left."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def keep_alive(*answers: bytes) -> Handler:
    """Answers each request of a connection with the next body (the last one again), without closing it."""

    def handler(connection: socket.socket) -> None:
        number = 0
        while read_request(connection):
            body = answers[min(number, len(answers) - 1)]
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            number += 1

    return handler
