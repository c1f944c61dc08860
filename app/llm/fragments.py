"""Tool calls from the pieces that streams give them in, as servers really send them.

Seen in the field: no index, an index that starts at 7, one index for every call, ids resent, missing or new with every
piece, names resent or cut in pieces, and an empty object before the real arguments.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from app.llm.base import ToolCall

# What matters for the end of a JSON value; an escape that the piece ends in stands alone.
MARK = re.compile(r'\\.|[\\"{}\[\]]', re.DOTALL)


class _Slot:
    """A call that is being put together."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.index: int | None = None
        self.size = 0
        self._pieces: list[str] = []
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._begun = False

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def whole(self) -> bool:
        """True when the arguments are one complete value, so that nothing can follow."""
        return self._begun and self._depth <= 0 and not self._in_string

    def append(self, text: str) -> None:
        self._pieces.append(text)
        self.size += len(text)
        for mark in MARK.findall(("\\" if self._escaped else "") + text):
            self._escaped = mark == "\\"
            if mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string and len(mark) == 1:
                self._depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(mark, 0)
            self._begun = True

    def empty(self) -> None:
        """Forgets the arguments."""
        self._pieces, self.size = [], 0
        self._begun = False


class Fragments:
    """Collects pieces with `add`, whole calls with `add_whole`; `names` are the tools that the model may call."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._slots: list[_Slot] = []
        self._by_id: dict[str, _Slot] = {}
        self._by_index: dict[int, _Slot] = {}

    def add(self, pieces: Any) -> None:
        """Takes `delta.tool_calls` of one chunk; what is no piece of a call is left out."""
        for piece in _mappings(pieces):
            index, id, name, text = _read(piece)
            slot = self._fitting(index, id, name=name, text=text)
            self._put(slot or self._new(), index, id, name=name, text=text)

    def add_whole(self, calls: Any) -> None:
        """Takes `message.tool_calls` of a whole answer: each entry is one call."""
        for call in _mappings(calls):
            _, id, name, text = _read(call)
            slot = self._new()
            slot.id, slot.name = id, name
            slot.append(text)

    def __bool__(self) -> bool:
        return any(slot.name for slot in self._slots)

    def calls(self, *, ended: bool) -> tuple[ToolCall, ...]:
        """The calls in order, with ids that are there and differ; when the answer did not end, the last is incomplete."""
        named = [slot for slot in self._slots if slot.name]
        taken: set[str] = set()
        calls = []
        for slot in named:
            id = slot.id if slot.id and slot.id not in taken else f"call_{secrets.token_hex(6)}"
            taken.add(id)
            calls.append(ToolCall(id, slot.name, slot.text, complete=ended or slot is not named[-1]))
        return tuple(calls)

    def _fitting(self, index: int | None, id: str, *, name: str, text: str) -> _Slot | None:
        """The call that this piece goes on with, None when it begins one."""
        slot = self._candidate(index, id)
        if slot is None:
            return None
        other = bool(id and slot.id and id != slot.id)
        if not name:
            return slot if not other or index is not None or not slot.whole else None
        if other:
            return slot if slot.size and not slot.whole else None
        if index is not None and slot.index is not None and index != slot.index:
            return slot if id and name == slot.name and not slot.whole else None
        if slot.name and slot.whole and text.strip() and not _resent(slot, text):
            return None
        both_known = slot.name in self._names and name in self._names
        return None if slot.name and name != slot.name and both_known else slot

    def _candidate(self, index: int | None, id: str) -> _Slot | None:
        if id and id in self._by_id:
            return self._by_id[id]
        if index is not None and index in self._by_index:
            return self._by_index[index]
        last = self._slots[-1] if self._slots else None
        if last is None or index is None:
            return last
        # A tail whose index no head had belongs to the last call; with a head of its own it is a new one.
        return last if not id or last.index is None else None

    def _new(self) -> _Slot:
        slot = _Slot()
        self._slots.append(slot)
        return slot

    def _put(self, slot: _Slot, index: int | None, id: str, *, name: str, text: str) -> None:
        slot.id = slot.id or id
        if id:
            self._by_id[id] = slot
        if index is not None:
            slot.index = index
            self._by_index[index] = slot
        slot.name = self._joined(slot.name, name)
        if slot.whole and _resent(slot, text):
            return
        if slot.size <= len("{ }") and slot.whole and text.strip():
            slot.empty()  # a placeholder that some gateways send before the arguments
        slot.append(text)

    def _joined(self, name: str, piece: str) -> str:
        if not name or piece.startswith(name):
            return piece or name
        return name if name in self._names or not piece else name + piece


def _resent(slot: _Slot, text: str) -> bool:
    return len(text) == slot.size and text == slot.text


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    entries = value if isinstance(value, list) else [value]
    return [entry for entry in entries if isinstance(entry, dict)]


def _read(piece: Mapping[str, Any]) -> tuple[int | None, str, str, str]:
    """(index, id, name, text of the arguments) of a piece; what has the wrong type counts as missing."""
    index, id = piece.get("index"), piece.get("id")
    function = piece.get("function")
    inner: Mapping[str, Any] = function if isinstance(function, dict) else piece
    name, arguments = inner.get("name"), inner.get("arguments")
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return (
        index if isinstance(index, int) and not isinstance(index, bool) else None,
        id if isinstance(id, str) else "",
        name if isinstance(name, str) else "",
        arguments,
    )
