"""Nextcloud Talk's rooms as the rest of the house reads them, by the service user of the instance."""

from __future__ import annotations

from datetime import datetime

from app.accounts import instances
from app.accounts.serviceuser import Untold
from app.platforms.base import (
    Abilities,
    Actor,
    MissedEvents,
    Page,
    Reader,
    SeenRoom,
    ServerState,
    StoredMessage,
)
from app.platforms.nextcloud_talk import cloud, conversation, recovered

# Their names are lists of their people, and look different to each of them.
OF_TWO = (1, 5)


class TalkReader:
    """Every method is one or a few questions to the server; nothing is kept here."""

    kind = "nextcloud_talk"

    def participants(self, instance_id: int, room: str) -> tuple[Actor, ...]:
        return conversation.participants(instance_id, room)

    def members(self, instance_id: int, kind: str, id: str) -> tuple[Actor, ...]:
        """Raises Untold, also for what is neither a group nor a team."""
        if kind == "groups":
            return cloud.people_of(instance_id, id)
        if kind == "teams":
            return tuple(member.actor for member in cloud.team(instance_id, id))
        raise Untold("missing", detail="neither a group nor a team")

    def page(self, instance_id: int, room: str, *, before: int | None = None, limit: int = 100) -> Page:
        return conversation.page(instance_id, room, before=before, limit=limit)

    def newer(self, instance_id: int, room: str, *, after: int, limit: int = 100) -> tuple[StoredMessage, ...]:
        return conversation.newer(instance_id, room, after=after, limit=limit)

    def context(self, instance_id: int, room: str, message_id: int, *, limit: int = 10) -> tuple[StoredMessage, ...]:
        return conversation.context(instance_id, room, message_id, limit=limit)

    def find(
        self, instance_id: int, room: str, reference_id: str, *, after: int | None = None, since: datetime | None = None
    ) -> StoredMessage | None:
        return conversation.find(instance_id, room, reference_id, after=after, since=since)

    def rooms(self, instance_id: int) -> tuple[SeenRoom, ...]:
        return tuple(
            SeenRoom(each.token, "" if each.kind in OF_TWO else each.name, each.last_message_id, each.expiration)
            for each in conversation.rooms(instance_id)
        )

    def missed(
        self, instance_id: int, room: str, *, name: str, after: int | None, since: datetime, limit: int
    ) -> MissedEvents:
        return recovered.missed(instance_id, room, name=name, after=after, since=since, limit=limit)

    def server(self, instance_id: int) -> ServerState:
        """Raises Untold, also for an instance that is gone."""
        instance = instances.get(instance_id)
        if instance is None:
            raise Untold("missing", detail="no instance")
        found = cloud.status(instance)
        return ServerState(found.version, found.maintenance, found.needs_upgrade)

    def abilities(self, instance_id: int) -> Abilities:
        found = cloud.capabilities(instance_id)
        return Abilities(found.talk_features, found.max_message)

    def whoami(self, instance_id: int) -> str:
        return cloud.myself(instance_id).uid


READER: Reader = TalkReader()
