from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete

from app import config as configuration
from app import create_app
from app.accounts import instances, people
from app.accounts.models import Instance
from app.bots import store
from app.bots.models import Bot
from app.infra.db import Base, core_transaction, db
from tests.fakes import databases


@pytest.fixture(scope="session", params=databases.PARAMS)
def kept_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of each kind with every table, kept for the whole run: making one takes seconds."""
    folder = tmp_path_factory.mktemp("kept")
    with databases.fresh(request.param, folder) as url:
        made = create_app(config_of(folder, url))
        with made.app_context():
            Base.metadata.create_all(db.engine)
            db.engine.dispose()
        yield url


@pytest.fixture
def any_app(kept_database: str, tmp_path: Path, sent: Any) -> Iterator[Flask]:
    """The application on each of the three databases, with every table and nobody in it."""
    made = create_app(config_of(tmp_path, kept_database), sender=sent)
    with made.app_context():
        yield made
        db.session.remove()
        with core_transaction() as connection:
            for table in reversed(Base.metadata.sorted_tables):
                connection.execute(delete(table))
        db.engine.dispose()


def config_of(folder: Path, url: str) -> configuration.Config:
    values = {"PARLEY_DATA_DIR": str(folder / "var"), "PARLEY_SECRET_KEY": "a-secret-key-for-tests-only"}
    return configuration.load({**values, "PARLEY_DATABASE_URL": url})


def cloud(name: str = "cloud") -> Instance:
    """An instance with ada (no rights), bob (who owns bots) and carol (an administrator)."""
    known = instances.by_name(name)
    if known is not None:
        return known
    made = instances.add(name, f"https://{name}.example.test")
    for uid in ("ada", "bob", "carol"):
        people.ensure(made.id, uid)
    carol = people.find(made.id, "carol")
    assert carol is not None
    people.grant(carol.id, admin=True)
    return made


def person_id(instance: Instance, uid: str) -> int:
    found = people.find(instance.id, uid)
    assert found is not None
    return found.id


def bot(mention: str = "atlas", *, instance: Instance | None = None, owner: str = "bob", **values: Any) -> Bot:
    where = instance or cloud()
    form = {"name": mention.title(), "mention_name": mention, "system_prompt": "Be kind.", "scope": "global"} | values
    return store.create(where.id, person_id(where, owner), form)
