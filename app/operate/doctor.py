"""Looks at every part of an installation, and says of each that does not work what to do about it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from functools import partial

from app.config import Config
from app.infra import crypto, jobs
from app.infra.i18n import say
from app.llm import catalog
from app.operate import keys, migrations, sidebyside, talk
from app.operate.health import Check, database, worker
from app.operate.sidebyside import Part
from app.settings import endpoints

READABLE_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def examine(config: Config) -> Iterator[Check]:
    """Checks part by part; a part that others stand on ends it where it fails. Other servers are asked side by side."""
    yield (found := database())
    if not found.ok:
        return
    yield (found := tables(config))
    if not found.ok:
        return
    yield key(config)
    if config.broker_url is not None:
        yield broker()
    yield worker()
    configured = endpoints.all()
    if not configured:
        yield no_model()
    yield from sidebyside.examine(
        [
            *(Part(f"endpoint {each.name}", partial(model, each.name)) for each in configured),
            *(Part(f"nextcloud {each.name}", partial(talk.examine, each)) for each in talk.servers()),
        ]
    )


def tables(config: Config) -> Check:
    """Whether the database has the tables of this version."""
    found = migrations.revisions(config)
    if not found.pending:
        return Check("migrations", True, say("The tables are those of this version ({head}).", head=found.head))
    return Check(
        "migrations",
        False,
        say("The tables are not those of this version."),
        say("Make a backup, then run `python manage.py db upgrade`."),
    )


def key(config: Config) -> Check:
    """Whether every sealed secret opens, and whether the key file is private."""
    broken = keys.broken()
    if broken:
        return Check(
            "key",
            False,
            say("{number} stored secrets do not open with the present key.", number=len(broken)),
            say("Restore the key that they were stored with, or set these secrets again."),
        )
    path = crypto.vault.path
    if path is not None and path.stat().st_mode & READABLE_BY_OTHERS:
        return Check(
            "key",
            False,
            say("Others on this machine can read the key file."),
            say("Run `chmod 600 {file}`.", file=path),
        )
    return Check("key", True, say("Every stored secret opens."))


def broker() -> Check:
    """Whether jobs reach the workers."""
    if jobs.broker_answers():
        return Check("broker", True, say("The broker answers."))
    return Check(
        "broker",
        False,
        say("The broker does not answer: messages are stored and wait."),
        say("Look at PARLEY_BROKER_URL, and whether the server that it names runs."),
    )


def no_model() -> Check:
    """That nobody but the built-in endpoint answers."""
    return Check(
        "endpoints",
        True,
        say("No model is connected: bots answer by quoting what they find."),
        say("Connect one: `python manage.py endpoints set primary --url URL --model MODEL`."),
    )


def model(name: str) -> Iterator[Check]:
    """Whether a model endpoint answers, by asking it for its models."""
    result = catalog.test(name)
    remedy = say("Set it again: `python manage.py endpoints set {name} --url URL`.", name=name)
    yield Check(f"endpoint {name}", result.ok, result.message, None if result.ok else remedy)
