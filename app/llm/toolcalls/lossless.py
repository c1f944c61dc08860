"""Reads JSON as models write it: strictly first, else by a reader of our own that may change spelling, never content.

Taken beyond JSON: trailing commas, Python's literals and quotes, raw control characters in strings, closing brackets too
many at the end, and a leading "json" or code fence that leaked. Text that ends early is told apart from text that is wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

MAX_DEPTH = 64
SPACE = re.compile(r"[\s\ufeff]*")
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
NUMBER_GOES_ON = re.compile(r"[\w.+-]")
NUMBER_BEGUN = re.compile(r"-?[\d.eE+-]*\Z", re.ASCII)
WORD = re.compile(r"[A-Za-z]+")
MAY_BE_STRICT = re.compile(r"\{\s*[\"}]|\[\s*[^'\s]|[\"\d-]|true|false|null")
PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
LEAKED_PREFIX = re.compile(r"\s*(?:```+[ \t]*)?(?:json|JSON)?\s*(?=[{\[\"'])")
LEAKED_SUFFIX = re.compile(r"[\s\]}]*(?:```+\s*)?\Z")
WORDS: dict[str, bool | None] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
ESCAPES = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\n": "",
}  # fmt: skip
HEX = {"u": 4, "x": 2, "U": 8}


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was spelled, so that "1.10" can still become a text or a number, whichever the schema wants."""

    text: str


class Unreadable(ValueError):
    """The text is no value. `reason` is "ended" where it stops too early, "wrong" where no continuation could help."""

    def __init__(self, reason: Literal["ended", "wrong"], detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def loads(text: str) -> Any:
    """The one value that `text` holds: dict, list, str, Number, bool or None. Raises Unreadable."""
    prefix = LEAKED_PREFIX.match(text)
    value, end = decode(text, prefix.end() if prefix else 0)
    if not LEAKED_SUFFIX.match(text, end):
        raise Unreadable("wrong", f"there is more text after the value, at character {end}")
    return value


def decode(text: str, at: int = 0) -> tuple[Any, int]:
    """The value that begins at `at` (white space is skipped) and the place where it ends. Raises Unreadable."""
    at = _after_space(text, at)
    if at >= len(text):
        raise Unreadable("ended", "the text is empty")
    value, end = _strictly(text, at) or _tolerantly(text, at)
    _check(value)
    return value, end


def _strictly(text: str, at: int) -> tuple[Any, int] | None:
    # Its error counts the lines up to the fault, so it is asked only where it may succeed.
    if not MAY_BE_STRICT.match(text, at):
        return None
    try:
        return _STRICT.raw_decode(text, at)
    except (json.JSONDecodeError, RecursionError):
        return None


def _tolerantly(text: str, at: int) -> tuple[Any, int]:
    reader = _Reader(text, at)
    return reader.value(0), reader.at


def write(value: Any) -> str:
    """JSON text of a value, every number spelled as it was read."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_dump(key)}: {write(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(write(item) for item in value) + "]"
    return _dump(value)


def plain(value: Any) -> Any:
    """The value with every Number turned into int or float. Raises Unreadable where that would lose it."""
    if isinstance(value, Number):
        return _number(value.text)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _number(text: str) -> int | float:
    try:
        number = int(text) if re.fullmatch(r"-?\d+", text) else float(text)
    except ValueError:
        raise Unreadable("wrong", "a number has too many digits") from None
    if number in (float("inf"), float("-inf")):
        raise Unreadable("wrong", f"the number {text[:40]} is too large")
    return number


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _after_space(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    for key, value in pairs:
        if made[key] != value:
            raise Unreadable("wrong", f"the key {key[:60]!r} stands there twice with different values")
    return made


def _refuse_constant(name: str) -> None:
    raise Unreadable("wrong", f"{name} is no value of JSON")


_STRICT = json.JSONDecoder(
    strict=False, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant, object_pairs_hook=_pairs
)


def _check(value: Any) -> None:
    """Refuses what is nested too deeply, and texts that can't be encoded (half of a surrogate pair)."""
    level, depth = [value], 0
    while level:
        for item in level:
            if isinstance(item, str):
                _check_text(item)
        containers = [item for item in level if isinstance(item, dict | list)]
        if containers and depth == MAX_DEPTH:
            raise Unreadable("wrong", f"it is nested more than {MAX_DEPTH} levels deep")
        level = [
            inner for held in containers for inner in ((*held, *held.values()) if isinstance(held, dict) else held)
        ]
        depth += 1


def _check_text(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unreadable("wrong", "a text holds half of a surrogate pair") from None


class _Reader:
    """The tolerant reader: one pass over `text`, `at` is where it stands."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Unreadable("wrong", f"it is nested more than {MAX_DEPTH} levels deep")
        char = self._peek()
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        if char in "\"'":
            return self._string(char)
        return self._bare()

    def _peek(self) -> str:
        self.at = _after_space(self.text, self.at)
        if self.at >= len(self.text):
            raise Unreadable("ended", "the text ends before the value does")
        return self.text[self.at]

    def _take(self, expected: str) -> None:
        if self._peek() != expected:
            raise Unreadable("wrong", f"{expected!r} is missing at character {self.at}")
        self.at += 1

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        pairs: list[tuple[str, Any]] = []
        while (char := self._peek()) != "}":
            if char not in "\"'":
                raise Unreadable("wrong", f"a quoted key is missing at character {self.at}")
            key = self._string(char)
            self._take(":")
            pairs.append((key, self.value(depth + 1)))
            self._comma("}")
        self.at += 1
        return _pairs(pairs)

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while self._peek() != "]":
            items.append(self.value(depth + 1))
            self._comma("]")
        self.at += 1
        return items

    def _comma(self, closer: str) -> None:
        """Goes over the comma after an item; the last one may have it or not."""
        if self._peek() != closer:
            self._take(",")

    def _string(self, quote: str) -> str:
        long = quote * 3
        if self.text.startswith(long, self.at):
            return self._until(long, re.compile(rf"(?:[^{quote}\\]|{quote}(?!{quote}{quote}))*"))
        return self._until(quote, PLAIN[quote])

    def _until(self, closer: str, ordinary: re.Pattern[str]) -> str:
        self.at += len(closer)
        pieces: list[str] = []
        while True:
            found = ordinary.match(self.text, self.at)
            pieces.append(found.group() if found else "")
            self.at += len(pieces[-1])
            if self.text.startswith(closer, self.at):
                self.at += len(closer)
                return _joined(pieces)
            if self.at + 1 >= len(self.text):
                raise Unreadable("ended", "the text ends inside a string")
            pieces.append(self._escape())

    def _escape(self) -> str:
        char = self.text[self.at + 1]
        if char in ESCAPES:
            self.at += 2
            return ESCAPES[char]
        width = HEX.get(char)
        if width is None:
            raise Unreadable(
                "wrong", f"\\{char} is no escape of JSON (character {self.at}); write \\\\ for a backslash"
            )
        digits = self.text[self.at + 2 : self.at + 2 + width]
        if not re.fullmatch(r"[0-9a-fA-F]*", digits) or (len(digits) == width and int(digits, 16) > 0x10FFFF):
            raise Unreadable("wrong", f"\\{char}{digits} is no character (character {self.at})")
        if len(digits) < width:
            raise Unreadable("ended", "the text ends inside a string")
        self.at += 2 + width
        return chr(int(digits, 16))

    def _bare(self) -> Any:
        """A number or one of the words for true, false and nothing."""
        found = NUMBER.match(self.text, self.at)
        if found and not NUMBER_GOES_ON.match(self.text, found.end()):
            self.at = found.end()
            return Number(found.group())
        word = WORD.match(self.text, self.at)
        name = word.group() if word else ""
        if name in WORDS:
            self.at += len(name)
            return WORDS[name]
        rest_ended = self.at + len(name) == len(self.text) and any(known.startswith(name) for known in WORDS)
        if rest_ended or NUMBER_BEGUN.match(self.text, self.at):
            raise Unreadable("ended", "the text ends inside a value")
        raise Unreadable("wrong", f"no value begins at character {self.at}")


def _joined(pieces: list[str]) -> str:
    """The text of a string, pairs of surrogates that were escaped one by one made into one character."""
    text = "".join(pieces)
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
