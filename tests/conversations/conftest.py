from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask

from app.bots.models import Bot
from app.conversations import store
from app.conversations.models import RoomMessage
from app.infra import clock
from app.infra.db import reading
from tests.bots.conftest import any_app, bot, kept_database

__all__ = ["any_app", "kept_database"]

ROOM = "room"


class Time:
    """The clock of a test: it stands until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
        self.seconds = 1000.0

    def pass_(self, **span: float) -> None:
        self.moment += timedelta(**span)
        self.seconds += timedelta(**span).total_seconds()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(clock, "now", lambda: made.moment)
    monkeypatch.setattr(clock, "monotonic", lambda: made.seconds)
    return made


@pytest.fixture
def atlas(any_app: Flask) -> Bot:
    return bot()


def ask(
    made: Bot, text: str, *, who: str = "ada", room: str = ROOM, thread: int = 0, delivery: int | None = None
) -> int:
    return store.say_user(
        made.id,
        made.instance_id,
        room,
        thread,
        actor=f"users/{who}",
        speaker=who.title(),
        text=text,
        delivery_id=delivery,
    )


def answer(
    made: Bot,
    text: str,
    *,
    room: str = ROOM,
    thread: int = 0,
    delivery: int | None = None,
    sources: tuple[tuple[str, str], ...] = (),
) -> int:
    return store.say_bot(
        made.id,
        made.instance_id,
        room,
        thread,
        mention_name=made.mention_name,
        speaker=made.name,
        text=text,
        delivery_id=delivery,
        sources=sources,
    )


def history(made: Bot, *, room: str = ROOM, thread: int = 0, **options: object) -> list[str]:
    found = store.history(made.id, made.instance_id, room, thread, **options)  # type: ignore[arg-type]
    return [message.text for message in found]


def search(made: Bot, query: str, *, room: str = ROOM, limit: int = 10, **options: object) -> list[str]:
    found = store.search(made.id, made.instance_id, room, query, limit=limit, **options)  # type: ignore[arg-type]
    return [message.text for message in found]


def row(id: int) -> RoomMessage | None:
    with reading() as session:
        return session.get(RoomMessage, id)
