"""Fixtures that every test may use. Ada is a person, bob owns bots, carol administers, dan operates (docs: developers)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask, has_app_context
from werkzeug.routing import Rule

from app import config as configuration
from app import create_app
from app.infra import http, jobs
from app.infra.db import Base, db, in_transaction
from tests.fakes import databases

SECRET_KEY = "a-secret-key-for-tests-only"


class Sent(list[tuple[str, list[Any], float]]):
    """The jobs that were sent to no broker; `run` works them off in this thread, also those they send."""

    def __call__(self, name: str, args: list[Any], *, delay: float) -> None:
        self.append((name, args, delay))

    def run(self, app: Flask, *, limit: int = 1000) -> int:
        done = 0
        while self and done < limit:
            name, args, _ = self.pop(0)
            with app.app_context():
                jobs.jobs.tasks[name].run(*args)
            done += 1
        return done


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def config(tmp_path: Path) -> configuration.Config:
    return configuration.load({"PARLEY_DATA_DIR": str(tmp_path / "var"), "PARLEY_SECRET_KEY": SECRET_KEY})


@pytest.fixture(scope="session", autouse=True)
def rules_are_compiled_once() -> Iterator[None]:
    """Werkzeug compiles a function for each address of each application: most of the time that making one takes."""
    compiled: dict[tuple[object, ...], Any] = {}
    compile_builder = Rule._compile_builder

    def once(rule: Rule, append_unknown: bool = True) -> Any:
        key = (rule.rule, rule.subdomain, repr(rule.defaults), append_unknown)
        if key not in compiled:
            compiled[key] = compile_builder(rule, append_unknown)
        return compiled[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "_compile_builder", once)
        yield


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with every table and no row; copied, because making the tables takes longer than most tests."""
    folder = tmp_path_factory.mktemp("tables")
    values = {"PARLEY_DATA_DIR": str(folder), "PARLEY_SECRET_KEY": SECRET_KEY}
    made = create_app(configuration.load(values), sender=Sent())
    with made.app_context():
        Base.metadata.create_all(db.engine)
        with db.engine.connect() as connection:
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        db.engine.dispose()
    return folder / "parley.db"


@pytest.fixture
def app(config: configuration.Config, sent: Sent, empty_database: Path) -> Iterator[Flask]:
    """An application on a fresh SQLite file, with every table and nobody in it; jobs go to `sent`."""
    config.data_dir.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(empty_database, config.data_dir / "parley.db")
    made = create_app(config, sender=sent)
    made.config["TESTING"] = True
    with made.app_context():
        yield made
        db.session.remove()
        db.engine.dispose()


@pytest.fixture(scope="session")
def server_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The address of a database with every table on a real server, made once a test run: tables take seconds there."""
    made: dict[str, str] = {}
    with ExitStack() as stack:

        def address(kind: str) -> str:
            if kind not in made:
                made[kind] = stack.enter_context(databases.fresh(kind, tmp_path_factory.mktemp(kind)))
            return made[kind]

        yield address


@pytest.fixture(params=databases.PARAMS)
def any_app(
    request: pytest.FixtureRequest,
    config: configuration.Config,
    sent: Sent,
    empty_database: Path,
    server_databases: Callable[[str], str],
) -> Iterator[Flask]:
    """The application on each of the three databases, with every table and no row; ids don't begin at 1."""
    if request.param == "sqlite":
        config.data_dir.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(empty_database, config.data_dir / "parley.db")
    else:
        values = {"PARLEY_DATA_DIR": str(config.data_dir), "PARLEY_SECRET_KEY": SECRET_KEY}
        config = configuration.load({**values, "PARLEY_DATABASE_URL": server_databases(request.param)})
    made = create_app(config, sender=sent)
    with made.app_context():
        if request.param != "sqlite":
            Base.metadata.create_all(db.engine)
        yield made
        db.session.remove()
        if request.param != "sqlite":
            empty_every_table()
        db.engine.dispose()


def empty_every_table() -> None:
    with db.engine.begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())


@pytest.fixture
def client(app: Flask) -> Any:
    return app.test_client()


@pytest.fixture(autouse=True)
def no_request_leaves_inside_a_database_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 12: read, commit, talk, write. Whatever leaves for the network inside a block fails its test."""
    begin, send = http.Exchange.__init__, requests.Session.send

    def checked_begin(self: http.Exchange, *args: Any, **kwargs: Any) -> None:
        refuse_inside_a_block(args[:2])
        begin(self, *args, **kwargs)

    def checked_send(self: requests.Session, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        refuse_inside_a_block(request.url)
        return send(self, request, **kwargs)

    monkeypatch.setattr(http.Exchange, "__init__", checked_begin)
    monkeypatch.setattr(requests.Session, "send", checked_send)


def refuse_inside_a_block(what: object) -> None:
    if has_app_context() and in_transaction():
        pytest.fail(f"a network call inside a database block: {what}")
