"""Turns that ask for a place, without the rooms and models around them."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from app.accounts import instances, people
from app.bots import store
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import transaction
from app.rooms.limits.slots import Asking
from app.rooms.limits.terms import Terms
from app.rooms.models import Answer

numbers = itertools.count(1)


class Time:
    """The clock of a test: it stands until it is moved."""

    def __init__(self) -> None:
        self.moment = clock.now()

    def pass_(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(clock, "now", lambda: made.moment)
    return made


def terms(*, room: int = 0, person: int = 0, longest: float = 60, mark: str = "mark") -> Terms:
    return Terms(room, person, timedelta(minutes=longest), 5.0, mark)


def turn(room: str = "room", actor: str = "users/mira", *, state: str = "queued", instance_id: int = 1) -> Asking:
    """A delivery, and the answer that one bot owes it."""
    number, bot = next(numbers), a_bot()
    now = clock.now()
    with transaction() as session:
        delivery = Delivery(
            registration_id=1,
            instance_id=instance_id,
            room=room,
            kind="message",
            actor=actor,
            random_digest=f"digest {number}",
            body=b"{}",
            state=state,
            reason="limit_wait" if state == "queued" else "",
            due_at=now + timedelta(hours=1),
            held_until=now,
            received_at=now,
        )
        session.add(delivery)
        session.flush()
        answer = Answer(delivery_id=delivery.id, bot_id=bot, position=0, state="due", created_at=now)
        session.add(answer)
        session.flush()
        return Asking(answer.id, delivery.id, instance_id, room, actor)


def a_bot() -> int:
    """Any bot: answers are of one that is there."""
    home = next(iter(instances.all()), None) or instances.add("limits", "https://limits.example.test")
    known = store.by_mention(home.id, "atlas")
    if known is None:
        owner = people.ensure(home.id, "bob")
        values = {"name": "atlas", "mention_name": "atlas", "system_prompt": "You are atlas.", "scope": "global"}
        known = store.create(home.id, owner.id, values)
    return known.id
