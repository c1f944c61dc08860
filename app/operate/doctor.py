"""Looks at every part of an installation, and says of each that does not work what to do about it."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from app.config import Config
from app.infra import crypto
from app.infra.i18n import say
from app.llm import catalog
from app.operate import keys, migrations
from app.operate.health import Check, database, worker
from app.settings import endpoints

READABLE_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def examine(config: Config) -> Iterator[Check]:
    """Checks part by part; a part that others stand on ends it where it fails."""
    yield (found := database())
    if not found.ok:
        return
    yield (found := tables(config))
    if not found.ok:
        return
    yield key(config)
    yield worker()
    yield from models()


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


def models() -> Iterator[Check]:
    """Whether each model endpoint answers, by asking it for its models."""
    configured = endpoints.all()
    if not configured:
        yield Check(
            "endpoints",
            True,
            say("No model is connected: bots answer by quoting what they find."),
            say("Connect one: `python manage.py endpoints set primary --url URL --model MODEL`."),
        )
    for endpoint in configured:
        result = catalog.test(endpoint.name)
        remedy = say("Set it again: `python manage.py endpoints set {name} --url URL`.", name=endpoint.name)
        yield Check(f"endpoint {endpoint.name}", result.ok, result.message, None if result.ok else remedy)
