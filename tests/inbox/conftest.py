from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from flask import Flask

from app import config as configuration
from app import create_app
from app.inbox.accept import accept
from app.infra import clock
from app.infra.db import Base, db
from app.platforms.models import Registration
from tests.fakes import databases, events


@pytest.fixture(params=databases.PARAMS)
def any_app(request: pytest.FixtureRequest, tmp_path: Path, sent: object) -> Iterator[Flask]:
    """The application on each of the three databases, with every table."""
    with databases.fresh(request.param, tmp_path) as url:
        values = {
            "PARLEY_DATA_DIR": str(tmp_path / "var"),
            "PARLEY_SECRET_KEY": "a-secret-key-for-tests-only",
            "PARLEY_DATABASE_URL": url,
        }
        made = create_app(configuration.load(values), sender=sent)  # type: ignore[arg-type]
        with made.app_context():
            Base.metadata.create_all(db.engine)
            yield made
            db.session.remove()
            db.engine.dispose()


class Time:
    """The clock of a test: it stands until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
        self.seconds = 1000.0

    def pass_(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        self.seconds += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(clock, "now", lambda: made.moment)
    monkeypatch.setattr(clock, "monotonic", lambda: made.seconds)
    return made


@pytest.fixture
def registration(app: Flask) -> Registration:
    return events.registration()


Accepted = Callable[..., int]


@pytest.fixture
def accepted(registration: Registration) -> Accepted:
    """Puts a message into the inbox and gives its id."""

    def put(room: str = "room", **changes: object) -> int:
        event = events.message(room, **changes)
        stored = accept(registration, random=f"random-{next(events.numbers)}", body=b"{}", event=event)
        assert stored is not None
        return stored

    return put
