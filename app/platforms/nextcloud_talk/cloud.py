"""What a Nextcloud tells of itself and of its people: status, capabilities, users, groups, teams (nextcloud.md 3.9, 13).

Groups of somebody else are told to administrators and, in part, to sub-admins; everybody else gets 404 or 403, which is
`missing` or `forbidden` and never "no groups".
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from app.accounts import instances
from app.accounts.models import Instance
from app.accounts.serviceuser import Untold
from app.infra import http, netguard
from app.infra.db import clean_text
from app.infra.http import HttpError
from app.platforms.base import Actor
from app.platforms.nextcloud_talk import ocs

USERS = "/cloud/users"
GROUPS = "/cloud/groups"
TEAMS = "/apps/circles/circles"
ADMIN_GROUP = "admin"
STATUS_SECONDS = 10.0
STATUS_BYTES = 64 * 1024
MODERATOR_LEVEL = 4
TEAM_MEMBER_KINDS: Mapping[int, str] = {1: "users", 2: "groups", 4: "emails", 16: "teams"}
LONGEST_NAME = 190


@dataclass(frozen=True)
class ServerStatus:
    """What status.php says without a login."""

    version: str
    maintenance: bool
    needs_upgrade: bool


@dataclass(frozen=True)
class Capabilities:
    """What the server can do: Talk's features, and how long a message may be (None: untold)."""

    version: str
    talk_features: frozenset[str]
    max_message: int | None
    apps: frozenset[str]


@dataclass(frozen=True)
class Myself:
    """The service user as the server knows it."""

    uid: str
    groups: frozenset[str]

    @property
    def administers(self) -> bool:
        return ADMIN_GROUP in self.groups


@dataclass(frozen=True)
class TeamMember:
    """Somebody or some set of people in a team; only one who has joined counts."""

    actor: Actor
    moderates: bool


def status(instance: Instance) -> ServerStatus:
    """What the server says of its health; needs no service user. Raises Untold."""
    try:
        response = http.request(
            "GET",
            f"{instance.url.rstrip('/')}/status.php",
            guard=netguard.ADMIN,
            headers={"Accept": "application/json"},
            timeout=(ocs.CONNECT_SECONDS, STATUS_SECONDS),
            max_bytes=STATUS_BYTES,
            verify=(instance.ca_file or True) if instance.verify_tls else False,
        )
    except (HttpError, OSError) as error:
        raise Untold("unreachable", detail=type(error).__name__) from None
    try:
        data = json.loads(response.body)
    except (ValueError, RecursionError):
        raise Untold("maintenance" if response.status >= 500 else "not_nextcloud") from None
    if not isinstance(data, dict) or not isinstance(data.get("version"), str):
        raise Untold("not_nextcloud")
    return ServerStatus(
        clean_text(data["version"]), data.get("maintenance") is True, data.get("needsDbUpgrade") is True
    )


def capabilities(instance_id: int) -> Capabilities:
    """Raises Untold."""
    data = _object(ocs.get(instance_id, "/cloud/capabilities").data)
    known = _object(data.get("capabilities"))
    talk = _object(known.get("spreed"))
    chat = _object(_object(talk.get("config")).get("chat"))
    features = talk.get("features")
    return Capabilities(
        version=str(_object(data.get("version")).get("string", "")),
        talk_features=frozenset(map(str, features)) if isinstance(features, list) else frozenset(),
        max_message=ocs.whole(chat.get("max-length")),
        apps=frozenset(map(str, known)),
    )


def myself(instance_id: int) -> Myself:
    """Who the service user is, and its own groups. Raises Untold."""
    data = _object(ocs.get(instance_id, "/cloud/user").data)
    uid = data.get("id")
    if not isinstance(uid, str) or not uid:
        raise Untold("not_nextcloud", detail="a user without an id")
    return Myself(_exact(uid), frozenset(map(_exact, ocs.texts(data.get("groups", [])))))


def groups_of(instance_id: int, uid: str) -> frozenset[str]:
    """The groups of a person, as far as the service user may see them. Raises Untold."""
    data = _object(ocs.get(instance_id, f"{USERS}/{_name(uid)}/groups").data)
    if "groups" not in data:
        raise Untold("forbidden", detail="no groups in the answer")
    return frozenset(map(_exact, ocs.texts(data["groups"])))


def managed_by(instance_id: int, uid: str) -> frozenset[str]:
    """The groups that a person is sub-admin of; told to administrators only. Raises Untold."""
    return frozenset(map(_exact, ocs.texts(ocs.get(instance_id, f"{USERS}/{_name(uid)}/subadmins").data)))


def people_of(instance_id: int, group: str) -> tuple[Actor, ...]:
    """Who is in a group. Raises Untold."""
    data = _object(ocs.get(instance_id, f"{GROUPS}/{_name(group)}/users").data)
    if "users" not in data:
        raise Untold("forbidden", detail="no users in the answer")
    return tuple(Actor("users", _exact(uid), "") for uid in ocs.texts(data["users"]))


def teams(instance_id: int) -> tuple[str, ...]:
    """The ids of the teams that the service user can see: one that is missing may exist all the same. Raises Untold."""
    found = [each.get("id") for each in ocs.rows(ocs.get(instance_id, TEAMS).data)]
    if not all(isinstance(id, str) and id for id in found):
        raise Untold("not_nextcloud", detail="a team without an id")
    return tuple(_exact(str(id)) for id in found)


def team(instance_id: int, id: str) -> tuple[TeamMember, ...]:
    """Who has joined a team. Raises Untold, also for a member of a kind that nobody knows."""
    instance = instances.get(instance_id)
    host = urlsplit(instance.url).netloc if instance else ""
    reply = ocs.get(instance_id, f"{TEAMS}/{_name(id)}/members")
    return tuple(_team_member(each, host) for each in ocs.rows(reply.data) if _has_joined(each))


def _has_joined(data: Mapping[str, Any]) -> bool:
    # Invited and Requesting are no members yet; older versions write no status.
    return data.get("status", "Member") == "Member" and (ocs.whole(data.get("level")) or 0) >= 1


def _team_member(data: Mapping[str, Any], host: str) -> TeamMember:
    number = ocs.whole(data.get("userType"))
    kind = TEAM_MEMBER_KINDS.get(number or 0, f"team_members_{number}")
    id = data.get("userId")
    if _is_elsewhere(data, host):
        # The bob of another server is not our bob.
        kind, id = f"federated_{kind}", f"{id}@{data.get('instance')}" if id else id
    if not isinstance(id, str) or not id:
        raise Untold("not_nextcloud", detail="a member of a team without an id")
    shown = data.get("displayName")
    level = ocs.whole(data.get("level")) or 0
    actor = Actor(kind, _exact(id), clean_text(shown)[:LONGEST_NAME] if isinstance(shown, str) else "")
    return TeamMember(actor, level >= MODERATOR_LEVEL)


def _is_elsewhere(data: Mapping[str, Any], host: str) -> bool:
    if isinstance(data.get("local"), bool):
        return not data["local"]
    return data.get("instance") not in (None, "", host, host.partition(":")[0])


def _name(name: str) -> str:
    if not name or name in (".", "..") or clean_text(name) != name:
        raise Untold("missing", detail="no name")
    return quote(name, safe="")


def _exact(name: str) -> str:
    return unicodedata.normalize("NFC", clean_text(name))


def _object(value: Any) -> Mapping[str, Any]:
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise Untold("not_nextcloud", detail="no object")
    return value
