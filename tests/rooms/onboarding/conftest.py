"""A house whose bot atlas asks two questions first: where (A Oslo, B Bergen), and which boat (own words beside a choice)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask

from app.inbox.models import Delivery
from app.infra import jobs
from app.rooms.onboarding import rounds
from app.rooms.onboarding.models import Round
from app.rooms.onboarding.rounds import Spot
from tests.conftest import Sent
from tests.fakes.house import ROOM, House, built, message
from tests.rooms.conftest import time_machine

__all__ = ["time_machine"]

QUESTIONS: dict[str, Any] = {
    "start": "where",
    "questions": [
        {
            "id": "where",
            "text": "Where is your berth?",
            "answers": [
                {"id": "no-osl", "text": "Oslo", "next": "boat"},
                {"id": "no-bgo", "text": "Bergen", "next": None},
            ],
        },
        {
            "id": "boat",
            "text": "Which boat is yours?",
            "answers": [
                {"id": "none", "text": "None", "next": None},
                {"id": "own", "text": "Its name", "type": "free_text", "next": None},
            ],
        },
    ],
}
MIRA = {"actor": "users/mira", "name": "Mira Sund"}
BOB = {"actor": "users/bob", "name": "Bob"}
CAROL = {"actor": "users/carol", "name": "Carol", "role": "2"}


@pytest.fixture
def house(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent) as made:
        made.bot("atlas", onboarding=QUESTIONS)
        yield made


def told(house: House, text: str, *, thread: int | None = None, **how: Any) -> Delivery:
    """The delivery of a message, worked off."""
    body = message(text, **how)
    if thread is not None:
        body["object"]["threadId"] = thread
    assert house.post(body).status_code == 200
    house.work()
    return house.last()


def ends(house: House) -> list[tuple[str, str]]:
    return [(row.state, row.reason) for row in house.deliveries()]


def round_of(house: House, bot: str = "atlas", *, thread: int = 0, room: str = ROOM) -> Round:
    found = rounds.find(Spot(house.instance.id, room, thread, house.bots[bot].id))
    assert found is not None
    return found


def answers(house: House, **where: Any) -> list[str]:
    return [each["answer"] for each in round_of(house, **where).answers]


def look_after(house: House) -> None:
    """The periodic job, and what it wakes."""
    jobs.jobs.tasks["rooms.answer_unasked"].run()
    house.work()


def system(house: House, number: int = -1) -> str:
    """The system message of a request to the model."""
    return str(house.asked(number)["messages"][0]["content"])
