from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app import config as configuration
from app import create_app
from app.accounts import instances
from app.accounts.models import Instance
from app.infra import crypto
from app.infra.db import Base, db, reading, transaction
from app.operate import keys
from app.platforms import registrations
from app.settings import endpoints, store
from tests.conftest import Sent


@pytest.fixture
def house(tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An installation with a generated key file and a secret in every sealed column."""
    monkeypatch.setattr(keys, "SETTLE", 0.05)
    config = configuration.load({"PARLEY_DATA_DIR": str(tmp_path / "var")})
    app = create_app(config, sender=sent)
    with app.app_context():
        Base.metadata.create_all(db.engine)
        fill()
        yield app
        db.session.remove()
        db.engine.dispose()


def fill() -> None:
    store.set("metrics_token", "metrics-token-of-the-test-0123456789abcdef")
    endpoints.save("primary", url="http://127.0.0.1:9/v1", key="endpoint-key-1")
    instance = instances.add("cloud", "https://cloud.example.test", kind="nextcloud", domain=None, context=None)
    registration = registrations.create(instance.id, "Parley")
    with transaction() as session:
        row = session.get(type(registration), registration.id)
        assert row is not None
        row.previous_secret = crypto.seal("previous-secret-1")
        found = session.get(Instance, instance.id)
        assert found is not None
        found.service_secret = crypto.seal("service-secret-1")


def opened() -> list[str]:
    values = []
    for column in keys.SEALED:
        with reading() as session:
            values += [crypto.unseal(sealed) for sealed in session.scalars(select(column).where(column.is_not(None)))]
    return values


def config_of(app: Flask) -> configuration.Config:
    found: configuration.Config = app.extensions["parley_config"]
    return found


def test_every_sealed_column_of_the_models_is_rotated(app: Flask) -> None:
    listed = {(column.class_.__tablename__, column.key) for column in keys.SEALED}
    for table in Base.metadata.tables.values():
        for column in table.columns:
            if "sealed" in (column.doc or "") or column.name == "sealed":
                assert (table.name, column.name) in listed, f"{table.name}.{column.name} is sealed and not rotated"


def test_after_a_rotation_only_the_new_key_is_left_and_opens_everything(house: Flask) -> None:
    before = opened()
    assert len(before) == 5
    done = keys.rotate(config_of(house))
    assert (done.resealed, done.broken, done.dropped) == (5, (), 1)
    assert opened() == before
    left = crypto.keys_of(config_of(house))
    assert len(left) == 1
    for column in keys.SEALED:
        with reading() as session:
            assert all(map(crypto.opens_with_newest, session.scalars(select(column).where(column.is_not(None)))))


@pytest.mark.parametrize("moment", ["after the new key", "between two secrets", "before the old key goes"])
def test_a_rotation_that_was_cut_off_loses_nothing_and_the_next_one_goes_on(
    house: Flask, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before, config = opened(), config_of(house)
    calls = {"replace": 0, "store": 0}
    replace, store_keys = keys._replace, crypto.store_keys

    def cut(*args: Any) -> int:
        calls["replace"] += 1
        if moment == "after the new key" or (moment == "between two secrets" and calls["replace"] == 3):
            raise KeyboardInterrupt
        return replace(*args)

    def cut_store(path: Path, names: list[str]) -> None:
        calls["store"] += 1
        if moment == "before the old key goes" and calls["store"] == 2:
            raise KeyboardInterrupt
        store_keys(path, names)

    monkeypatch.setattr(keys, "_replace", cut)
    monkeypatch.setattr(crypto, "store_keys", cut_store)
    with pytest.raises(KeyboardInterrupt):
        keys.rotate(config)
    assert opened() == before
    monkeypatch.undo()
    monkeypatch.setattr(keys, "SETTLE", 0.05)
    crypto.init_app(config)
    assert opened() == before
    keys.rotate(config)
    assert opened() == before
    assert len(crypto.keys_of(config)) == 1


def test_secrets_that_a_running_server_stores_meanwhile_are_kept(house: Flask) -> None:
    stop = threading.Event()
    stored: list[int] = []

    def serve() -> None:
        with house.app_context():
            while not stop.is_set():
                endpoints.save("primary", url="http://127.0.0.1:9/v1", key=f"endpoint-key-{len(stored)}")
                stored.append(len(stored))
                stop.wait(0.3)

    server = threading.Thread(target=serve)
    server.start()
    try:
        keys.rotate(config_of(house))
    finally:
        stop.set()
        server.join(10)
    found = endpoints.get("primary")
    assert found is not None
    assert found.key == f"endpoint-key-{len(stored) - 1}"
    assert len(opened()) == 5


def test_a_value_that_opens_with_no_key_is_named_and_stops_nothing(house: Flask) -> None:
    with transaction() as session:
        row = session.scalars(select(Instance).where(Instance.name == "cloud")).one()
        row.service_secret = "never sealed"
    done = keys.rotate(config_of(house))
    assert done.resealed == 4
    assert len(done.broken) == 1
    assert "instances.service_secret" in done.broken[0]
    assert keys.broken() == done.broken


def test_with_a_key_of_the_environment_the_first_one_seals_and_the_old_may_go(
    tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "SETTLE", 0.01)
    values = {"PARLEY_DATA_DIR": str(tmp_path / "var"), "PARLEY_SECRET_KEY": "the-old-key-of-before"}
    app = create_app(configuration.load(values), sender=sent)
    with app.app_context():
        Base.metadata.create_all(db.engine)
        fill()
        before = opened()
        db.engine.dispose()
    values["PARLEY_SECRET_KEY"] = "the-new-key-of-today,the-old-key-of-before"
    config = configuration.load(values)
    with create_app(config, sender=sent).app_context():
        done = keys.rotate(config)
        assert (done.resealed, done.dropped, done.keys) == (5, 0, 2)
        values["PARLEY_SECRET_KEY"] = "the-new-key-of-today"
        crypto.init_app(configuration.load(values))
        assert opened() == before
        db.engine.dispose()
