"""What must be the same on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import threading
from collections.abc import Callable

from flask import Flask

from app.accounts import attempts, directory, instances, people, tokens
from app.infra import clock
from app.infra.db import db
from app.infra.errors import TooMany
from app.settings import endpoints, store


def at_once(app: Flask, work: Callable[[], object], *, threads: int = 12) -> list[object]:
    """The results of `work`, done by many threads at the same moment; an error counts as its type."""
    results: list[object] = []
    start = threading.Barrier(threads)

    def run() -> None:
        with app.app_context():
            start.wait()
            try:
                results.append(work())
            except Exception as error:
                results.append(type(error))
            finally:
                db.session.remove()

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return results


def test_uids_are_compared_exactly(any_app: Flask) -> None:
    home = instances.add("cloud", "https://cloud.example.test")
    uids = ["k2", "K2", "ka", "kä", "kà", "ka.", "ss", "ß", "İ", "i", "ı", "𝒶", "a"]
    made = [people.ensure(home.id, uid).id for uid in uids]
    assert len(set(made)) == len(uids)
    assert [people.ensure(home.id, uid).id for uid in uids] == made
    assert people.find(home.id, "k2 ") is None


def test_one_person_is_made_by_many_at_once(any_app: Flask) -> None:
    home = instances.add("cloud", "https://cloud.example.test").id
    made = at_once(any_app, lambda: people.ensure(home, "ada", "Ada").id)
    assert len(set(made)) == 1
    assert len(made) == 12
    assert len(people.listed(home)) == 1


def test_one_sandbox_is_made_by_many_at_once(any_app: Flask) -> None:
    made = at_once(any_app, lambda: instances.ensure_sandbox("http://127.0.0.1:8000").id)
    assert len(set(made)) == 1
    assert isinstance(made[0], int)


def test_many_guesses_at_once_are_counted_one_by_one(any_app: Flask) -> None:
    counted = attempts.subjects(1, "ada", address="192.0.2.1", browser=None)
    results = at_once(any_app, lambda: attempts.begin(counted))
    assert results.count(None) in (5, 6)  # a wait of one second may end while they run
    assert set(results) <= {None, TooMany}
    attempts.succeeded(counted)
    attempts.begin(counted)
    assert attempts.forget(before=clock.now() + attempts.FORGET_AFTER) == 2


def test_a_setting_is_stored_for_the_first_time_by_many_at_once(any_app: Flask) -> None:
    results = at_once(any_app, lambda: store.set("turn_seconds", 77))
    assert set(results) == {None}
    assert store.get("turn_seconds") == 77
    store.update({"branding_name": "🦜 Parley", "default_temperature": None, "allowed_models": ["a:ä"]})
    assert store.several("branding_name", "default_temperature", "allowed_models") == {
        "branding_name": "🦜 Parley",
        "default_temperature": None,
        "allowed_models": ["a:ä"],
    }


def test_an_endpoint_is_made_by_many_at_once(any_app: Flask) -> None:
    made = at_once(any_app, lambda: endpoints.save("primary", url="http://127.0.0.1:9", model="m").name)
    assert set(made) == {"primary"}
    assert [info.name for info in endpoints.all()] == ["primary"]


def test_memberships_are_replaced_by_many_at_once(any_app: Flask) -> None:
    person = people.ensure(instances.add("cloud", "https://cloud.example.test").id, "ada").id
    results = at_once(any_app, lambda: directory.remember(person, groups=directory.named(["a", "b"])))
    assert set(results) == {None}
    assert directory.memberships(person).groups == frozenset({"a", "b"})


def test_tokens_people_and_searches_work(any_app: Flask) -> None:
    home = instances.add("cloud", "https://cloud.example.test").id
    person = people.ensure(home, "ada", "Ada 100%")
    people.grant(person.id, admin=True)
    id, token, _ = tokens.issue(home, person_id=person.id, scope="administrator")
    identity = tokens.verify(token)
    assert identity is not None
    assert identity.admin
    assert [row.used_at is not None for row in tokens.of_person(person.id)] == [True]
    assert [row.uid for row in people.listed(words="00%")] == ["ada"]
    first = people.first_admin(home)
    assert first is not None
    assert first.id == person.id
    assert not people.somebody_administers()
    tokens.revoke(id)
    assert tokens.verify(token) is None
