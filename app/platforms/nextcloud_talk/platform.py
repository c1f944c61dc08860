"""Nextcloud Talk as a chat system of this installation."""

from __future__ import annotations

from app.platforms.base import Address, Granted, IncomingEvent, Outcome, Platform
from app.platforms.nextcloud_talk import client, payload

MAX_MESSAGE = 32_000


class NextcloudTalk:
    """A Talk bot: signed webhooks come in, signed posts go out."""

    kind = "nextcloud_talk"
    max_message = MAX_MESSAGE

    def parse(self, body: bytes) -> IncomingEvent:
        """Raises BadPayload."""
        return payload.parse(body)

    def post(self, address: Address, room: str, text: str, *, reply_to: int | None, reference_id: str) -> Outcome:
        return client.post(address, room, text, reply_to=reply_to, reference_id=reference_id)

    def react(self, address: Address, room: str, message_id: int, emoji: str) -> Outcome:
        return client.react(address, room, message_id, emoji)

    def unreact(self, address: Address, room: str, message_id: int, emoji: str) -> Outcome:
        return client.unreact(address, room, message_id, emoji)

    def granted(self, address: Address, room: str) -> Granted:
        return client.granted(address, room)


PLATFORM: Platform = NextcloudTalk()
