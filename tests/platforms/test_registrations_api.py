from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from app.accounts import instances, people, tokens
from app.platforms import registrations

URL = "/api/v1/registrations"


@pytest.fixture
def cloud(app: Flask) -> Any:
    return instances.add("cloud", "https://cloud.example.test")


def bearer(instance: Any, uid: str, scope: str) -> dict[str, str]:
    person = people.ensure(instance.id, uid)
    people.grant(person.id, admin=scope == "administrator")
    _, token, _ = tokens.issue(instance.id, person_id=person.id, scope=scope)
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def carol(cloud: Any) -> dict[str, str]:
    return bearer(cloud, "carol", "administrator")


def test_an_administrator_creates_lists_and_rotates(client: Any, cloud: Any, carol: dict[str, str]) -> None:
    made = client.post(URL, json={"name": "Talk AI"}, headers=carol)
    assert made.status_code == 201
    assert len(made.json["secret"]) == 64
    assert made.json["occ_command"].startswith("occ talk:bot:install -f webhook -f response 'Talk AI' ")
    listed = client.get(URL, headers=carol)
    assert [each["id"] for each in listed.json["registrations"]] == [made.json["id"]]
    assert made.json["secret"] not in listed.text
    rotated = client.post(f"{URL}/{made.json['id']}/rotate", json={}, headers=carol)
    assert rotated.json["secret"] not in ("", made.json["secret"])
    assert rotated.json["rotating_until"] is not None
    at_once = client.post(f"{URL}/{made.json['id']}/rotate", json={"now": True}, headers=carol)
    assert at_once.json["rotating_until"] is None


def test_there_is_one_shared_registration_and_any_number_of_others(
    client: Any, cloud: Any, carol: dict[str, str]
) -> None:
    assert client.post(URL, headers=carol).json["name"] == "Parley"
    assert client.post(URL, headers=carol).status_code == 409
    for _ in range(2):
        assert client.post(URL, json={"name": "Own", "shared": False}, headers=carol).status_code == 201
    assert len(registrations.of_instance(cloud.id)) == 3


def test_another_instance_is_named(client: Any, cloud: Any, carol: dict[str, str]) -> None:
    other = instances.add("other", "https://other.example.test")
    client.post(URL, json={"instance": "other"}, headers=carol)
    assert len(registrations.of_instance(other.id)) == 1
    assert len(client.get(f"{URL}?instance=other", headers=carol).json["registrations"]) == 1
    assert client.get(f"{URL}?instance=cloud", headers=carol).json["registrations"] == []
    assert client.get(f"{URL}?instance=none", headers=carol).status_code == 400


@pytest.mark.parametrize(
    "body", [{"name": 5}, {"shared": "yes"}, {"surprise": 1}, [], {"name": "  "}, {"instance": "none"}]
)
def test_bad_input_is_told_and_changes_nothing(client: Any, cloud: Any, carol: dict[str, str], body: Any) -> None:
    answer = client.post(URL, json=body, headers=carol)
    assert answer.status_code == 400
    assert registrations.of_instance(cloud.id) == []


def test_rotating_what_is_not_there_is_not_found(client: Any, carol: dict[str, str]) -> None:
    assert client.post(f"{URL}/99/rotate", json={}, headers=carol).status_code == 404


def test_nobody_else_may_see_or_make_registrations(client: Any, cloud: Any, carol: dict[str, str]) -> None:
    made = client.post(URL, headers=carol).json
    ada = bearer(cloud, "ada", "user")
    for headers, status in (({}, 401), (ada, 403)):
        assert client.get(URL, headers=headers).status_code == status
        assert client.post(URL, json={}, headers=headers).status_code == status
        assert client.post(f"{URL}/{made['id']}/rotate", json={}, headers=headers).status_code == status
