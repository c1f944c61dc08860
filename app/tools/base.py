"""A tool is data plus one function. Built-in tools, MCP tools and those of third parties share this form.

To add one: a module in app/tools/builtin/ (or a module of your own distribution, named by an entry point of the group
`parley.tools`) with a list `TOOLS` of `Tool`. docs/developers.md shows it step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from app.infra.errors import ParleyError
from app.infra.i18n import Sentence


@dataclass(frozen=True)
class Attachment:
    """A file that came with the current message; `id` is the storage's id, `size` in bytes (None when untold)."""

    id: str
    name: str
    mimetype: str
    size: int | None = None
    kind: Literal["image", "audio", "document", "video", "other"] = "other"


@dataclass(frozen=True)
class FoundMessage:
    """A message that a search of the room found."""

    speaker: str
    at: datetime
    text: str


class RoomHistory(Protocol):
    """What a tool may see of the room: the caller binds room, bot and rights."""

    scope: Sentence
    """What this history covers, for the model to say."""

    def search(
        self, query: str, *, limit: int, from_name: str | None, since: datetime | None, until: datetime | None
    ) -> list[FoundMessage]: ...


@dataclass(frozen=True)
class ToolContext:
    """What a tool knows of the turn it runs in. Nothing here was chosen by the model."""

    instance: str
    room: str
    person: str
    timezone: str = "UTC"
    language: str = "en"
    attachments: tuple[Attachment, ...] = ()
    collections: tuple[str, ...] = ()
    history: RoomHistory | None = None
    configured: frozenset[str] = frozenset()
    """Which optional capabilities an administrator set up: "vision", "speech", "documents"."""


@dataclass(frozen=True)
class ToolResult:
    """What the model is told. `sources` are opaque (collection, node) pairs that the text came from.

    `detail` is for the trace and never reaches the model.
    """

    text: str
    is_error: bool = False
    sources: tuple[tuple[str, str], ...] = ()
    detail: str = ""


class ToolError(ParleyError):
    """A tool could not do it; the sentence is told to the model and says what to change."""

    code = "tool_error"
    status = 400


Kind = Literal["search", "read", "write", "analyze", "unknown"]


@dataclass(frozen=True)
class Tool:
    """One tool. `run` gets validated arguments; it returns a text or a ToolResult, and raises ToolError.

    `parameters` is a JSON Schema of type object. `runs` is "client" where the caller's application executes it.
    `run` may be a generator function: it then yields None while it waits (at least every 200 ms) and returns its result.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[ToolContext, Mapping[str, Any]], ToolResult | str | Iterator[None]] | None = None
    kind: Kind = "read"
    runs: Literal["here", "client"] = "here"
    source: str = "builtin"
    timeout: float = 60.0
    tags: frozenset[str] = field(default_factory=frozenset)
