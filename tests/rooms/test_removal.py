"""A bot is removed while a worker answers in its name: nothing that names it is left, and nobody stumbles over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from app.accounts import serviceuser
from app.bots import store as bots
from app.infra.db import Base, in_transaction, reading
from tests.conftest import Sent
from tests.fakes.house import ROOM, House, built
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault
from tests.rooms import failpoints
from tests.rooms.conftest import Clock
from tests.rooms.plans import AT_THE_DOOR


@contextmanager
def home(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent, server=Nextcloud) as made:
        cloud = made.talk
        assert isinstance(cloud, Nextcloud)
        cloud.user("parley", "an-app-password")
        cloud.conversation(ROOM, users=["mira", "parley"])
        serviceuser.give(made.instance.id, "parley", "an-app-password")
        made.bot("atlas")
        yield made


def rows_that_name(bot_id: int) -> dict[str, int]:
    """Of the bot's own rows: where the column may be empty the row is somebody else's, such as a trace."""
    found = {}
    with reading() as session:
        for table in Base.metadata.sorted_tables:
            column = table.columns.get("bot_id")
            if column is not None and not column.nullable and table.name not in bots.SUMS:
                found[table.name] = session.scalar(select(func.count()).select_from(table).where(column == bot_id)) or 0
    return {name: count for name, count in found.items() if count}


def removed_at(house: House, name: str, *, time: Clock, patch: pytest.MonkeyPatch) -> None:
    """A question with a tool call, whose first reply is lost; at the step the bot is removed, and the worker goes on."""
    bot_id = house.bots["atlas"].id
    removed: list[str] = []

    def crossed(point: str, args: Any, result: Any) -> None:
        if point == name and not removed and not in_transaction():
            removed.append(point)
            bots.remove(bot_id)

    house.model.call("current_time")
    house.model.say("It is late.")
    house.talk.fail(Fault(ends="reset", of="message"))
    house.hear("@atlas what time is it?")
    failpoints.install(crossed, patch.setattr)
    for _ in range(30):
        house.work_later()
        if house.last().state not in ("queued", "claimed", "running"):
            break
        time.pass_(10)
        house.sent("inbox.drain", [house.instance.id, ROOM], delay=0.0)
    assert removed
    assert house.last().state in ("ignored", "done")
    assert rows_that_name(bot_id) == {}


# Only an answer that takes long has these steps.
PIECEWISE = ("before a piece", "piece written")
USUAL = ("addressed", "owed", "turn begun", "model answered", "before parts", "parts written", "part claimed", "closed")
STEPS = [
    pytest.param(name, marks=() if name in USUAL else pytest.mark.long)
    for name in failpoints.POINTS
    if name not in (*AT_THE_DOOR, *PIECEWISE)
]


@pytest.mark.parametrize("name", STEPS)
def test_nothing_is_left_wherever_the_turn_was(
    app: Flask, sent: Sent, time_machine: Clock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with home(app, sent) as house:
        removed_at(house, name, time=time_machine, patch=monkeypatch)


@pytest.mark.parametrize("name", ["addressed", "owed", "before parts", "part claimed"])
def test_nothing_is_left_on_any_database(
    any_app: Flask, sent: Sent, time_machine: Clock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with home(any_app, sent) as house:
        removed_at(house, name, time=time_machine, patch=monkeypatch)
