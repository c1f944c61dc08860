"""A room on a fake Talk server, ready to be answered in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask

from app.accounts import instances, people
from app.bots import store
from app.bots.models import Bot
from app.infra import clock
from app.platforms import registrations, registry, rooms
from app.rooms.parts import Place
from tests.fakes.talk_server import TalkServer

SECRET = "s" * 64


@dataclass
class Clock:
    """The time of a test: `pass_` moves it on, and what sleeps moves it too."""

    ahead: float = 0.0

    def pass_(self, seconds: float) -> None:
        self.ahead += seconds


@pytest.fixture
def time_machine(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    now, monotonic = clock.now, clock.monotonic
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=made.ahead))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + made.ahead)
    monkeypatch.setattr(clock, "sleep", made.pass_)
    return made


@pytest.fixture
def talk() -> Iterator[TalkServer]:
    with TalkServer(SECRET) as server:
        yield server
        server.check()


@pytest.fixture
def place(app: Flask, talk: TalkServer) -> Place:
    instance = instances.add("cloud", talk.url)
    registration = registrations.create(instance.id, "Talk AI", secret=SECRET)
    room = rooms.seen(instance.id, "r00mtok1", "Harbour crew")
    rooms.bind(room.id, registration.id)
    platform = registry.get("nextcloud_talk")
    return Place(platform, registration, instance, room, reply_to=1501, received_at=clock.now())


def make_bot(place: Place, mention_name: str = "atlas", **values: Any) -> Bot:
    owner = people.ensure(place.instance.id, "bob", "Bob")
    given = {"name": mention_name, "mention_name": mention_name, "system_prompt": "Be brief.", "scope": "global"}
    return store.create(place.instance.id, owner.id, given | values)


def minutes_ago(minutes: float) -> datetime:
    return clock.now() - timedelta(minutes=minutes)
