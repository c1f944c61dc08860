"""Ada is a person, bob too, carol administers, dan operates; Ada has a namesake on another server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from app.accounts import instances, people, tokens
from app.accounts.models import Instance, Person
from app.infra import crypto
from app.infra.db import transaction

PASSWORD = "correct horse battery"


@dataclass
class House:
    """Who lives in the tests of accounts."""

    cloud: Instance
    other: Instance
    ada: Person
    namesake: Person
    bob: Person
    carol: Person
    dan: Person

    def token(self, person: Person, scope: str = "user") -> str:
        return tokens.issue(person.instance_id, person_id=person.id, scope=scope)[1]

    def bearer(self, person: Person, scope: str = "user") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(person, scope)}"}


@pytest.fixture
def house(app: Flask) -> House:
    cloud = instances.add("cloud", "https://cloud.example.test")
    other = instances.add("other", "https://other.example.test")
    ada, bob, carol, dan = (people.ensure(cloud.id, uid) for uid in ("ada", "bob", "carol", "dan"))
    made = House(
        cloud=cloud,
        other=other,
        ada=ada,
        namesake=people.ensure(other.id, "ada"),
        bob=bob,
        carol=people.grant(carol.id, admin=True),
        dan=people.grant(dan.id, operator=True),
    )
    with transaction() as session:
        session.execute(update(Person).where(Person.id.in_((ada.id, carol.id))).values(password_hash=_hashed()))
    return made


@cache
def _hashed() -> str:
    # Slow on purpose, so made once for all tests.
    return crypto.hash_password(PASSWORD)


@pytest.fixture
def browser(app: Flask) -> Any:
    return app.test_client()
