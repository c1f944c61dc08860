from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.accounts import instances
from app.infra import clock
from app.infra.db import reading, transaction
from app.infra.errors import BadInput, NotFound
from app.platforms import registrations
from app.platforms.base import Outcome
from app.platforms.models import Registration
from app.platforms.sandbox import server as sandbox


@pytest.fixture
def cloud(app: Flask) -> Any:
    return instances.add("cloud", "https://cloud.example.test/nextcloud/")


def after(monkeypatch: pytest.MonkeyPatch, **delta: float) -> None:
    later = clock.now() + timedelta(**delta)
    monkeypatch.setattr(clock, "now", lambda: later)


def test_a_registration_has_an_opaque_key_and_a_secret_that_talk_takes(cloud: Any) -> None:
    made = [registrations.create(cloud.id, "Parley", shared=number == 0) for number in range(20)]
    secrets = [registrations.secret(each) for each in made]
    assert len({each.key for each in made} | set(secrets)) == 40
    for each, secret in zip(made, secrets, strict=True):
        assert len(secret) == 64
        assert not secret.startswith("-")
        assert set(secret) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
        assert len(each.key) >= 22
        assert each.webhook_url == f"http://127.0.0.1:8000/webhook/talk/{each.key}"


def test_the_secret_is_sealed_in_the_database(cloud: Any) -> None:
    made = registrations.create(cloud.id, "Parley")
    assert registrations.secret(made) not in made.secret
    assert registrations.secret(made) not in repr(registrations.address(made))


def test_our_actor_id_is_the_digest_of_the_installed_address(cloud: Any) -> None:
    made = registrations.create(cloud.id, "Helper", webhook_url="http://127.0.0.1:9099/hook/helper")
    assert registrations.actor_id(made) == "bots/bot-2f322ea485c74d8fcba5789acd4ce2aeffc5336f"
    assert made.actor_hash == hashlib.sha1(made.webhook_url.encode()).hexdigest()


@pytest.mark.parametrize("secret", ["x" * 39, "x" * 129, "ö" * 65])
def test_a_secret_of_a_length_that_talk_refuses_is_refused(cloud: Any, secret: str) -> None:
    with pytest.raises(BadInput):
        registrations.create(cloud.id, "Parley", secret=secret)


@pytest.mark.parametrize(
    ("name", "fitted"),
    [("Parley", "Parley"), ("  a \n b ", "a b"), ("--option", "option"), ("ö" * 40, "ö" * 32), ("x" * 70, "x" * 64)],
)
def test_a_name_is_fitted_to_what_talk_takes(name: str, fitted: str) -> None:
    assert registrations.fitted_name(name) == fitted


@pytest.mark.parametrize("name", ["", "  ", "---"])
def test_a_name_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        registrations.fitted_name(name)


def test_the_only_registration_is_the_only_one_besides_the_sandbox(cloud: Any) -> None:
    sandbox.ensure("http://127.0.0.1:8000")
    assert registrations.only_one() is None
    made = registrations.create(cloud.id, "Parley")
    found = registrations.only_one()
    assert found is not None
    assert found.id == made.id
    registrations.create(cloud.id, "Other", shared=False)
    assert registrations.only_one() is None


def test_the_shared_registration_is_the_oldest_shared_one(cloud: Any) -> None:
    assert registrations.shared_of(cloud.id) is None
    registrations.create(cloud.id, "Own", shared=False)
    first = registrations.create(cloud.id, "First")
    registrations.create(cloud.id, "Second")
    found = registrations.shared_of(cloud.id)
    assert found is not None
    assert found.id == first.id


def test_an_address_has_the_servers_address_and_what_to_trust(cloud: Any) -> None:
    made = registrations.create(cloud.id, "Parley")
    with transaction() as session:
        row = session.get(type(cloud), cloud.id)
        row.verify_tls, row.ca_file = False, "/etc/ca.pem"
    address = registrations.address(made)
    assert (address.base_url, address.secret) == ("https://cloud.example.test/nextcloud", registrations.secret(made))
    assert (address.verify_tls, address.ca_file, address.registration_id) == (False, "/etc/ca.pem", made.id)


def test_during_a_rotation_we_answer_with_the_secret_that_the_server_still_has(cloud: Any) -> None:
    made = registrations.create(cloud.id, "Parley")
    old = registrations.secret(made)
    rotated = registrations.rotate(made.id)
    assert registrations.secret(rotated) != old
    assert registrations.address(rotated).secret == old
    inlet = registrations.inlet(made.key)
    assert inlet is not None
    assert inlet.secrets == (registrations.secret(rotated), old)
    registrations.confirmed(inlet)
    assert registrations.address(registrations.get(made.id)).secret == registrations.secret(rotated)


def test_a_rotation_that_nobody_completes_ends_after_a_day(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = registrations.create(cloud.id, "Parley")
    rotated = registrations.rotate(made.id)
    after(monkeypatch, hours=24, seconds=1)
    inlet = registrations.inlet(made.key)
    assert inlet is not None
    assert inlet.secrets == (registrations.secret(rotated), None)
    assert registrations.address(rotated).secret == registrations.secret(rotated)


def test_rotating_what_is_not_there_is_told(app: Flask) -> None:
    with pytest.raises(NotFound):
        registrations.rotate(99)


def test_a_refused_post_opens_the_breaker_of_that_registration_for_ten_minutes(
    cloud: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = registrations.create(cloud.id, "Parley"), registrations.create(cloud.id, "Other", shared=False)
    registrations.posted(made.id, Outcome("permanent", 401, "refused"))
    assert registrations.blocked(made)
    assert not registrations.blocked(other)
    after(monkeypatch, seconds=599)
    assert registrations.blocked(made)
    after(monkeypatch, seconds=2)
    assert not registrations.blocked(made)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome("success", 201, "posted"), "201 posted"),
        (Outcome("retryable", 503, "busy"), "503 busy"),
        (Outcome("ambiguous", None, "timeout"), "timeout"),
        (Outcome("permanent", None), "permanent"),
    ],
)
def test_every_other_outcome_is_noted_and_leaves_the_breaker_closed(cloud: Any, outcome: Outcome, status: str) -> None:
    made = registrations.create(cloud.id, "Parley")
    registrations.posted(made.id, outcome)
    found = registrations.get(made.id)
    assert (found.last_post_status, found.blocked_until) == (status, None)
    assert found.last_post_at is not None


def test_a_breaker_can_be_tripped_for_a_time_and_closed_by_hand(cloud: Any) -> None:
    made = registrations.create(cloud.id, "Parley")
    registrations.trip(made.id, "throttled", 60)
    until = registrations.blocked_until(made.id)
    assert until is not None
    assert timedelta(seconds=50) < until - clock.now() <= timedelta(seconds=60)
    registrations.untrip(made.id)
    assert not registrations.blocked(made)


def test_a_rotation_closes_the_breaker(cloud: Any) -> None:
    made = registrations.create(cloud.id, "Parley")
    registrations.trip(made.id, "refused")
    registrations.rotate(made.id)
    assert not registrations.blocked(made)


def test_removing_an_instance_removes_its_registrations(cloud: Any) -> None:
    registrations.create(cloud.id, "Parley")
    with transaction() as session:
        session.delete(session.get(type(cloud), cloud.id))
    with reading() as session:
        assert session.scalars(select(Registration)).all() == []
