"""Server-sent events from the bytes of a stream, however they are cut."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_LINE = 1024 * 1024


class LineTooLong(ValueError):
    """A line has more than LONGEST_LINE bytes."""


@dataclass(frozen=True)
class Event:
    """One event: its name (empty unless told) and its data lines, joined by line feeds."""

    name: str
    data: str


class SseParser:
    """Takes bytes, gives events. CR, LF and CRLF end lines, comments are dropped, a space after the colon is optional.

    An event that the stream ends in is given by `finish`: some servers forget the last empty line.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._return = b""
        self._name = ""
        self._data: list[str] = []
        self._begun = False

    def feed(self, piece: bytes) -> list[Event]:
        """The events that are whole now. Raises LineTooLong."""
        piece = self._return + piece
        # A carriage return at the end may be the first half of a CRLF.
        self._return = b"\r" if piece.endswith(b"\r") else b""
        if b"\r" in piece:
            piece = piece[: len(piece) - len(self._return)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces, self._size = [], 0
        self._pieces.append(rest)
        self._size += len(rest)
        if self._size > LONGEST_LINE or any(len(line) > LONGEST_LINE for line in lines):
            raise LineTooLong(f"a line of more than {LONGEST_LINE} bytes")
        return [event for line in lines if (event := self._line(line))]

    def finish(self) -> list[Event]:
        """The stream is over: what was still open."""
        events = [*self.feed(b"\n"), *self.feed(b"\n")]
        return [event for event in events if event]

    def _line(self, line: bytes) -> Event | None:
        text = line.decode("utf-8", "replace")
        if not self._begun:
            self._begun = True
            text = text.removeprefix("\ufeff")
        if not text:
            return self._dispatch()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        return None

    def _dispatch(self) -> Event | None:
        event = Event(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._data = "", []
        return event
