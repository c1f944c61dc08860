"""What every chat system looks like to the rest of the house: typed incoming events, and a way to answer.

To add a platform: a folder in app/platforms/ with a module `platform.py` that offers `PLATFORM: Platform`, and its doors;
where its rooms can be read, a module `reader.py` that offers `READER: Reader`; where its groups and teams can be asked
for, a module `directory.py` that offers `DIRECTORY: accounts.directory.Directory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from app.infra.i18n import Sentence

LARGEST_ID = 2**63 - 1
LONGEST_ID = 19
EventKind = Literal["message", "join", "leave", "reaction", "unreaction", "system", "unknown"]


@dataclass(frozen=True)
class Actor:
    """Who did it. `kind` is users, guests, emails, federated_users, bots, bridged, phones, deleted_users or unknown;
    `id` is what follows the first "/" (K2). Only kind "users" is a local person. `moderator` is None where untold."""

    kind: str
    id: str
    name: str
    moderator: bool | None = None

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.id}"


@dataclass(frozen=True)
class Named:
    """A placeholder of the rendered text: what stood there, from `start` to `end` in code points of `text`."""

    start: int
    end: int
    kind: str
    id: str
    name: str


@dataclass(frozen=True)
class SharedFile:
    """A file in a message; `size` in bytes, None when untold. `link` and `path` are the sender's view, never fetched."""

    id: str
    name: str
    mimetype: str
    size: int | None
    kind: Literal["image", "audio", "document", "video", "other"]
    path: str = ""
    link: str = ""
    etag: str = ""
    hide_download: bool = False


@dataclass(frozen=True)
class QuotedParent:
    """The message that this one replies to. `message_id` is None when the sender's id is no number."""

    message_id: int | None
    actor: Actor
    text: str


class Envelope(NamedTuple):
    """What is stored beside the raw bytes of an event; see IncomingEvent, which tells the same and its text."""

    kind: EventKind
    room: str
    actor: Actor
    object_id: str | None
    name: str


@dataclass(frozen=True)
class IncomingEvent:
    """One webhook event, understood. `text` has its placeholders filled in one pass; `named` tells where.

    `name` is the platform's own name of the event (for system events, e.g. user_added); `object_id` its message id as
    text, None where it has none.
    """

    kind: EventKind
    room: str
    room_name: str
    actor: Actor
    name: str = ""
    object_id: str | None = None
    text: str = ""
    named: tuple[Named, ...] = ()
    files: tuple[SharedFile, ...] = ()
    parent: QuotedParent | None = None
    thread: int | None = None
    reaction: str = ""
    one_to_one: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def message_id(self) -> int | None:
        """The message's id as the number that a reply names; None where it has none that could be one."""
        text = self.object_id or ""
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_ID else 0
        return number if 0 < number <= LARGEST_ID else None

    @property
    def words(self) -> str:
        """The text without the names that files left in it: blank for a share without a caption."""
        kept, position = [], 0
        for spot in self.named:
            if spot.kind == "file":
                kept.append(self.text[position : spot.start])
                position = spot.end
        return ("".join(kept) + self.text[position:]).strip()


@dataclass(frozen=True)
class StoredMessage:
    """A message as it stands in a room now. `kind` deleted: its text is gone; system: written by the server.

    `name` is the platform's name of a system message. `expires_at` is None where it stays.
    """

    id: int
    actor: Actor
    at: datetime
    text: str
    kind: Literal["message", "system", "deleted"] = "message"
    name: str = ""
    reference_id: str = ""
    thread: int | None = None
    parent_id: int | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Page:
    """Messages of a room, newest first. `before` asks for the page with the next older ones; None: there are none."""

    messages: tuple[StoredMessage, ...]
    before: int | None


@dataclass(frozen=True)
class SeenRoom:
    """A room as a reader sees it. `name` is "" where the server has none for it, as for a room of two.

    `last_message_id` and `expiration` (in seconds, 0: messages stay) are None where they are untold.
    """

    token: str
    name: str
    last_message_id: int | None
    expiration: int | None


@dataclass(frozen=True)
class MissedEvent:
    """What a webhook would have told at that moment: `body` is as Platform.parse reads it; it tells no role."""

    body: bytes
    at: datetime


@dataclass(frozen=True)
class MissedEvents:
    """Events of a room, oldest first. `left_out`: people wrote more there than was asked for, or earlier."""

    events: tuple[MissedEvent, ...]
    left_out: bool = False


@dataclass(frozen=True)
class ServerState:
    """What a chat server says of itself to anybody; `version` such as 31.0.6.2."""

    version: str
    maintenance: bool
    needs_upgrade: bool


@dataclass(frozen=True)
class Abilities:
    """What a chat system can do: the names of its features, and the longest message in code points (None: untold)."""

    features: frozenset[str]
    max_message: int | None


class BadPayload(Exception):
    """The body is not an event of this platform; the text says what is wrong, for the log."""


@dataclass(frozen=True)
class Outcome:
    """What became of a post. `retry_after` in seconds; `remedy` is what an administrator should do about it.

    success: it stands in the room. retryable: it does not, another try may work. permanent: it does not and never will.
    ambiguous: nobody can tell whether it stands there; never sent again blindly. `throttled`: the server said that it
    slows us down, whatever became of the post.
    """

    kind: Literal["success", "retryable", "permanent", "ambiguous"]
    status: int | None = None
    reason: str = ""
    retry_after: float | None = None
    remedy: Sentence | None = None
    throttled: bool = False


@dataclass(frozen=True)
class Granted:
    """What a registration may do in a room, in the words of the chat system; empty where `outcome` is no success."""

    outcome: Outcome
    features: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Address:
    """Where to answer: the server and the registration, with the secret open. Made for one use, never stored."""

    registration_id: int
    instance_id: int
    base_url: str
    secret: str = field(repr=False)
    verify_tls: bool = True
    ca_file: str | None = None


class Platform(Protocol):
    """A chat system. The methods talk to the network and never raise for what the other side does: they tell Outcome."""

    kind: str
    max_message: int
    """The longest message in code points."""

    def parse(self, body: bytes) -> IncomingEvent:
        """Raises BadPayload."""
        ...

    def post(self, address: Address, room: str, text: str, *, reply_to: int | None, reference_id: str) -> Outcome: ...

    def react(self, address: Address, room: str, message_id: int, emoji: str) -> Outcome: ...

    def unreact(self, address: Address, room: str, message_id: int, emoji: str) -> Outcome: ...

    def granted(self, address: Address, room: str) -> Granted:
        """Asks with our signature what we may do in a room, and posts nothing."""
        ...


class Reader(Protocol):
    """Reads rooms as the service user of an instance. Talks to the network: never inside a block.

    Every method raises accounts.serviceuser.Untold when the server doesn't tell: an empty answer always means none.
    """

    kind: str
    """The kind of platform that it reads."""

    def participants(self, instance_id: int, room: str) -> tuple[Actor, ...]:
        """Everyone and every set of people in the room; kinds as of Actor, and groups and teams."""
        ...

    def members(self, instance_id: int, kind: str, id: str) -> tuple[Actor, ...]:
        """Who is in a group or team (`kind` groups or teams); a team may hold groups, teams and emails."""
        ...

    def page(self, instance_id: int, room: str, *, before: int | None = None, limit: int = 100) -> Page:
        """The newest messages, or those older than the message `before`."""
        ...

    def newer(self, instance_id: int, room: str, *, after: int, limit: int = 100) -> tuple[StoredMessage, ...]:
        """The messages after a message id, oldest first."""
        ...

    def context(self, instance_id: int, room: str, message_id: int, *, limit: int = 10) -> tuple[StoredMessage, ...]:
        """A message with those around it, oldest first; empty when it does not exist."""
        ...

    def find(
        self, instance_id: int, room: str, reference_id: str, *, after: int | None = None, since: datetime | None = None
    ) -> StoredMessage | None:
        """The message with this reference among those after a message id, or since a time; None: it is not there."""
        ...

    def rooms(self, instance_id: int) -> tuple[SeenRoom, ...]:
        """Every room that it is a member of."""
        ...

    def missed(
        self, instance_id: int, room: str, *, name: str, after: int | None, since: datetime, limit: int
    ) -> MissedEvents:
        """What people said after a message and since a time, at most the newest `limit`; and what happened after it.

        Without what our own bots and the service user said. `name` is what the events call the room.
        """
        ...

    def server(self, instance_id: int) -> ServerState:
        """What the server says of itself; asked without a login."""
        ...

    def abilities(self, instance_id: int) -> Abilities:
        """What the chat system there can do."""
        ...

    def whoami(self, instance_id: int) -> str:
        """The uid of the service user as the server knows it: proves the password."""
        ...
