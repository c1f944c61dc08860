"""Deliveries for tests that don't care what the chat system sent."""

from __future__ import annotations

import itertools
from typing import Any

from app.accounts import people, tokens
from app.accounts.models import Instance
from app.infra import clock
from app.infra.db import transaction
from app.platforms.base import Actor, IncomingEvent
from app.platforms.models import Registration

ADA = Actor("users", "ada", "Ada Lovelace", moderator=True)
numbers = itertools.count(1)


def instance(name: str = "cloud") -> int:
    made = Instance(name=name, kind="nextcloud", url=f"https://{name}.example.org", created_at=clock.now())
    with transaction() as session:
        session.add(made)
        session.flush()
        return made.id


def registration(instance_id: int | None = None) -> Registration:
    number = next(numbers)
    made = Registration(
        instance_id=instance(f"cloud{number}") if instance_id is None else instance_id,
        name=f"Helper {number}",
        key=f"key-{number}",
        secret="sealed",
        webhook_url="https://parley.example.org/webhook/talk/key",
        actor_hash="0" * 40,
        created_at=clock.now(),
    )
    with transaction() as session:
        session.add(made)
    return made


def message(room: str = "room", object_id: str | None = None, **changes: Any) -> IncomingEvent:
    number = next(numbers) if object_id is None else object_id
    values: dict[str, Any] = {
        "kind": "message",
        "room": room,
        "room_name": "Research room",
        "actor": ADA,
        "name": "message",
        "object_id": str(number),
        "text": "@helper hello",
    }
    return IncomingEvent(**(values | changes))


def bearer(instance_id: int, uid: str, *, admin: bool = False) -> dict[str, str]:
    """The headers of a request of this person."""
    person = people.grant(people.ensure(instance_id, uid).id, admin=admin)
    scope = "administrator" if admin else "user"
    _, token, _ = tokens.issue(instance_id, person_id=person.id, scope=scope)
    return {"Authorization": f"Bearer {token}"}
