"""A Nextcloud with Talk, people, groups and teams, as its service user and its bots meet it (spec: nextcloud.md 3, 13).

It is the fake Talk server with the rest of the OCS API around it, as strict as the measured one: a conversation is 404
for whoever is no member, groups of others are told to administrators and sub-admins only, bad logins are counted and
throttled, and 304 means nothing new.

    with Nextcloud(SECRET) as cloud:
        cloud.user("ada", "secret", groups=["crew"])
        cloud.conversation("r00mtok1", users=["ada", "parley"], groups=["crew"])
        cloud.say("r00mtok1", "users/ada", "hello")
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from werkzeug.wrappers import Request, Response

from tests.fakes import talk_server
from tests.fakes.talk_server import HTML, XML, Post, TalkServer

OCS = "/ocs/v2.php"
ROOMS = f"{OCS}/apps/spreed/api/v4/room"
CHAT = f"{OCS}/apps/spreed/api/v1/chat/"
CIRCLES = f"{OCS}/apps/circles/circles"
USER_TYPES = {"users": 1, "groups": 2, "emails": 4, "circles": 16}
MOST_BAD_LOGINS = 10
MOST_MESSAGES = 200


@dataclass
class Account:
    """Somebody who can sign in."""

    password: str
    name: str
    manages: set[str] = field(default_factory=set)


@dataclass
class Conversation:
    """A room: `attendees` are (type, id) as they were added; groups and circles are expanded when somebody looks."""

    token: str
    name: str
    attendees: dict[tuple[str, str], int]
    messages: list[dict[str, Any]] = field(default_factory=list)
    expiration: int = 0


@dataclass
class Nextcloud(TalkServer):
    """See the module. `hidden_circles` are listed to nobody but their members; `without_circles`: the app is missing.

    `broken` are paths that answer 503, whatever the rest of the server does.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=lambda: {"admin": set()})
    circles: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)
    hidden_circles: set[str] = field(default_factory=set)
    remote_members: set[tuple[str, str]] = field(default_factory=set)
    without_circles: bool = False
    maintenance: bool = False
    version: str = "31.0.6.2"
    talk_features: tuple[str, ...] = ("bots-v1", "chat-v2", "threads")
    conversations: dict[str, Conversation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bad_logins = 0
        self.broken: set[str] = set()
        self.asked: list[str] = []

    def user(
        self, uid: str, password: str = "password", *, groups: Iterable[str] = (), manages: Iterable[str] = ()
    ) -> None:
        self.accounts[uid] = Account(password, uid.title(), set(manages))
        for group in groups:
            self.groups.setdefault(group, set()).add(uid)

    def circle(self, id: str, members: Mapping[tuple[str, str], int]) -> None:
        """A team: {("users", "ada"): level, ("groups", "crew"): 1, ("circles", "c2"): 1}; level 0 was only invited."""
        self.circles[id] = dict(members)

    def conversation(self, token: str, attendees: Iterable[tuple[str, str]] = (), **by_type: Iterable[str]) -> None:
        """A room with (type, id) attendees; `users=["ada"]` is the same as ("users", "ada")."""
        known = [*attendees, *((kind, id) for kind, ids in by_type.items() for id in ids)]
        self.conversations[token] = Conversation(token, token.title(), dict.fromkeys(known, 3))

    def say(self, token: str, actor: str, text: str, **more: Any) -> int:
        """A message in a room; gives its id. `id`, `at` in unix seconds; anything else replaces a field of the answer."""
        with self.lock:
            self._next_id += 1
            id = more.pop("id", self._next_id)
            self._write_down(token, actor, text, id=id, reference="", **more)
            return int(id)

    def _write_down(self, token: str, actor: str, text: str, *, id: int, reference: str, **more: Any) -> None:
        kind, _, name = actor.partition("/")
        message = {
            "id": id,
            "token": token,
            "actorType": kind,
            "actorId": name,
            "actorDisplayName": more.pop("name", "Talk AI (Bot)" if kind == "bots" else name.title()),
            "timestamp": int(more.pop("at", self.clock())),
            "message": text,
            "messageParameters": [],
            "systemMessage": "",
            "messageType": "comment",
            "isReplyable": True,
            "referenceId": reference,
            "reactions": {},
            "expirationTimestamp": 0,
            "markdown": True,
        } | more
        self.conversations[token].messages.append(message)

    def delete(self, token: str, id: int) -> None:
        """What Talk leaves of a deleted message."""
        for message in self.conversations[token].messages:
            if message["id"] == id:
                message |= {"messageType": "comment_deleted", "message": "Message deleted", "messageParameters": {}}

    def people_in(self, token: str) -> set[tuple[str, str]]:
        """Everyone who reads the room, sets of people expanded: (type, id) without groups and circles."""
        found: set[tuple[str, str]] = set()
        waiting, seen = list(self.conversations[token].attendees), set()
        while waiting:
            kind, id = waiting.pop()
            if (kind, id) in seen:
                continue
            seen.add((kind, id))
            if kind == "groups":
                waiting += [("users", uid) for uid in self.groups.get(id, ())]
            elif kind == "circles":
                waiting += [member for member, level in self.circles.get(id, {}).items() if level >= 1]
            else:
                found.add((kind, id))
        return found

    def _stand(self, post: Post) -> Post:
        post = super()._stand(post)
        if post.room in self.conversations:
            self._write_down(post.room, f"bots/bot-{'0' * 40}", post.text, id=post.id, reference=post.reference_id)
        return post

    def _answer(self, request: Request, path: str, kind: str, room: str, number: int, body: bytes) -> Response:
        if path == "/status.php":
            return talk_server._json(
                {
                    "installed": True,
                    "maintenance": self.maintenance,
                    "needsDbUpgrade": False,
                    "version": self.version,
                    "versionstring": self.version.rpartition(".")[0],
                    "edition": "",
                    "productname": "Nextcloud",
                }
            )
        if self.maintenance or path in self.broken:
            return Response(HTML, 503, content_type="text/html")
        if kind != "other" or not path.startswith(OCS):
            return super()._answer(request, path, kind, room, number, body)
        if request.headers.get("OCS-APIRequest", "").lower() != "true":
            self.violations.append("no OCS-APIRequest")
            return talk_server._json({"message": "CSRF check failed"}, 412)
        self.asked.append(path)
        uid, refusal = self._signed_in(request)
        if refusal is not None:
            return refusal
        status, data, headers = self._told(request, path, uid)
        if status == 304:
            return Response(b"", 304)
        if "json" not in request.headers.get("Accept", ""):
            self.violations.append("no Accept")
            return Response(XML % status, status, content_type="application/xml")
        return enveloped(status, data, headers)

    def _signed_in(self, request: Request) -> tuple[str, Response | None]:
        """Who asks; every bad login is counted, delays are told, and after ten there is only 429."""
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        try:
            uid, _, password = base64.b64decode(text).decode().partition(":")
        except ValueError:
            uid, password = "", ""
        account = self.accounts.get(uid)
        if self.bad_logins > MOST_BAD_LOGINS:
            return "", Response(b"", 429, {"X-Nextcloud-Bruteforce-Throttled": "25000ms"})
        if kind != "Basic" or account is None or account.password != password:
            self.bad_logins += 1
            throttled = {"X-Nextcloud-Bruteforce-Throttled": f"{200 * 2 ** min(self.bad_logins - 1, 7)}ms"}
            return "", enveloped(401, [], throttled, code=997)
        return uid, None

    def _told(self, request: Request, path: str, uid: str) -> tuple[int, Any, dict[str, str]]:
        parts = [unquote(part) for part in path.split("/")]
        if request.method != "GET":
            return 998, [], {}
        if path == f"{OCS}/cloud/capabilities":
            return 200, capabilities(self.talk_features), {}
        if path == f"{OCS}/cloud/user":
            return 200, {"id": uid, "displayname": self.accounts[uid].name, "groups": sorted(self._groups(uid))}, {}
        if path.startswith(f"{OCS}/cloud/users/") and len(parts) == 7:
            return (*self._about(uid, parts[5], parts[6]), {})
        if path.startswith(f"{OCS}/cloud/groups/") and len(parts) == 7 and parts[6] == "users":
            return (*self._members(uid, parts[5]), {})
        if path == CIRCLES and not self.without_circles:
            return 200, [{"id": id, "displayName": "a team"} for id in self._visible(uid)], {}
        if path.startswith(CIRCLES) and parts[-1] == "members" and not self.without_circles:
            return (*self._circle(uid, parts[-2]), {})
        if path == ROOMS:
            mine = [each for each in self.conversations.values() if self._is_in(uid, each.token)]
            return 200, [facts(each) for each in mine], {}
        if path.startswith(f"{ROOMS}/"):
            return (*self._room(uid, path.removeprefix(f"{ROOMS}/")), {})
        if path.startswith(CHAT):
            return self._chat(request, uid, path.removeprefix(CHAT))
        return 998, [], {}

    def _groups(self, uid: str) -> set[str]:
        return {name for name, people in self.groups.items() if uid in people}

    def _about(self, asking: str, uid: str, what: str) -> tuple[int, Any]:
        administers = "admin" in self._groups(asking)
        if what == "subadmins":
            if not administers:
                return 403, []
            return (200, sorted(self.accounts[uid].manages)) if uid in self.accounts else (404, [])
        if what != "groups":
            return 998, []
        if uid not in self.accounts:
            return 404, []
        if administers or asking == uid:
            return 200, {"groups": sorted(self._groups(uid))}
        shared = self._groups(uid) & self.accounts[asking].manages
        return (200, {"groups": sorted(shared)}) if shared else (404, [])

    def _members(self, asking: str, group: str) -> tuple[int, Any]:
        if group not in self.groups:
            return 404, []
        if "admin" not in self._groups(asking) and group not in self.accounts[asking].manages:
            return 403, []
        return 200, {"users": sorted(self.groups[group])}

    def _visible(self, uid: str) -> list[str]:
        return [
            id for id, members in self.circles.items() if id not in self.hidden_circles or ("users", uid) in members
        ]

    def _circle(self, uid: str, id: str) -> tuple[int, Any]:
        if id not in self._visible(uid):
            return 404, []
        rows = []
        for (kind, name), level in self.circles[id].items():
            remote = (kind, name) in self.remote_members
            rows.append(
                {
                    "userId": name,
                    "userType": USER_TYPES[kind],
                    "level": level,
                    "status": "Member" if level else "Invited",
                    "instance": "elsewhere.example.test" if remote else "",
                }
            )
        return 200, rows

    def _is_in(self, uid: str, token: str) -> bool:
        return token in self.conversations and ("users", uid) in self.people_in(token)

    def _room(self, uid: str, rest: str) -> tuple[int, Any]:
        token, _, what = rest.partition("/")
        if not self._is_in(uid, token):
            return 404, []
        here = self.conversations[token]
        if not what:
            return 200, facts(here)
        if what != "participants":
            return 998, []
        # As measured: the people of groups and circles stand beside them, as ordinary participants.
        listed = dict(here.attendees) | {
            member: here.attendees.get(member, 3) for member in sorted(self.people_in(token))
        }
        return 200, [participant(token, kind, id, role) for (kind, id), role in listed.items()]

    def _chat(self, request: Request, uid: str, rest: str) -> tuple[int, Any, dict[str, str]]:
        token, _, more = rest.partition("/")
        if not self._is_in(uid, token):
            return 404, [], {}
        messages = [each for each in self.conversations[token].messages if not expired(each, self.clock())]
        number = request.args.get("limit", 100, int)
        if number > MOST_MESSAGES:
            self.violations.append("asked for more than 200 messages")
        if more.endswith("/context"):
            return self._context(messages, int(more.partition("/")[0]), number)
        if request.args.get("lookIntoFuture") not in ("0", "1"):
            return 400, [], {}
        if request.args.get("setReadMarker") != "0":
            self.violations.append("moved the read marker")
        known = request.args.get("lastKnownMessageId", 0, int)
        if request.args["lookIntoFuture"] == "1":
            found = sorted((each for each in messages if each["id"] > known), key=lambda each: each["id"])[:number]
        else:
            older = [each for each in messages if not known or each["id"] < known]
            found = sorted(older, key=lambda each: -int(each["id"]))[:number]
        if not found:
            return 304, None, {}
        return 200, found, {"X-Chat-Last-Given": str(found[-1]["id"]), "X-Chat-Last-Common-Read": "0"}

    def _context(self, messages: list[dict[str, Any]], id: int, number: int) -> tuple[int, Any, dict[str, str]]:
        position = next((at for at, each in enumerate(messages) if each["id"] == id), None)
        if position is None:
            return 304, None, {}
        return 200, messages[max(0, position - number) : position + number + 1], {}


def capabilities(talk_features: Iterable[str]) -> dict[str, Any]:
    talk = {
        "features": list(talk_features),
        "config": {"chat": {"max-length": 32000}, "attachments": {"folder": "/Talk"}},
    }
    version = {"major": 31, "minor": 0, "micro": 6, "string": "31.0.6"}
    return {"version": version, "capabilities": {"spreed": talk, "circles": {}}}


def enveloped(status: int, data: Any, headers: Mapping[str, str] | None = None, *, code: int | None = None) -> Response:
    http = 404 if status == 998 else status
    meta = {"status": "ok" if http < 400 else "failure", "statuscode": code or status, "message": ""}
    text = json.dumps({"ocs": {"meta": meta, "data": data}})
    return Response(text, http, dict(headers or {}), content_type="application/json; charset=utf-8")


def facts(here: Conversation) -> dict[str, Any]:
    last = here.messages[-1] if here.messages else []
    return {
        "token": here.token,
        "type": 2,
        "name": here.name,
        "displayName": here.name,
        "readOnly": 0,
        "messageExpiration": here.expiration,
        "lastMessage": last,
    }


def participant(token: str, kind: str, id: str, role: int) -> dict[str, Any]:
    return {
        "roomToken": token,
        "inCall": 0,
        "participantType": role,
        "attendeeId": abs(hash((kind, id))) % 10**6,
        "actorType": kind,
        "actorId": id,
        "displayName": id.title(),
        "permissions": 254,
        "sessionIds": [],
    }


def expired(message: Mapping[str, Any], now: float) -> bool:
    return 0 < message["expirationTimestamp"] < now
