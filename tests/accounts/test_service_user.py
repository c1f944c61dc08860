"""Setting the service user of an instance, by command and by API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flask import Flask

from app.accounts import instances, serviceuser
from app.accounts.commands import COMMANDS
from app.accounts.models import Instance
from app.infra import crypto
from app.infra.errors import BadInput
from tests.accounts.conftest import House
from tests.fakes.nextcloud import Nextcloud

GROUP = next(group for group in COMMANDS if group.name == "instances")


@pytest.fixture
def server() -> Iterator[Nextcloud]:
    with Nextcloud("s" * 64) as made:
        made.user("parley", "app-password")
        yield made
        made.check()


@pytest.fixture
def work(app: Flask, server: Nextcloud) -> Instance:
    return instances.add("work", server.url)


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(GROUP, ["service-user", *words, "--json"], input=stdin)


def row() -> Instance:
    found = instances.by_name("work")
    assert found is not None
    return found


def test_the_password_comes_from_stdin_is_sealed_and_tried_at_once(work: Instance, server: Nextcloud) -> None:
    result = run("work", "--uid", "parley", "--stdin", stdin="app-password\n")
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert (told["name"], told["service_uid"], told["ok"]) == ("work", "parley", True)
    assert "app-password" not in result.output + str(row().service_secret)
    assert crypto.unseal(str(row().service_secret)) == "app-password"
    assert json.loads(run("work").output)["ok"]


def test_at_a_terminal_the_password_is_asked_for(work: Instance) -> None:
    result = run("work", "--uid", "parley", stdin="app-password\n")
    assert result.exit_code == 0, result.output


def test_a_password_that_the_server_refuses_is_told_and_tried_once(work: Instance, server: Nextcloud) -> None:
    result = run("work", "--uid", "parley", "--stdin", stdin="wrong\n")
    assert result.exit_code == 1
    assert "refused" in json.loads(result.output)["message"]
    assert run("work").exit_code == 1
    assert server.bad_logins == 1
    assert run("work", "--uid", "parley", "--stdin", stdin="app-password\n").exit_code == 0


def test_it_is_forgotten_with_its_password(work: Instance) -> None:
    run("work", "--uid", "parley", "--stdin", stdin="app-password\n")
    assert run("work", "--clear").exit_code == 0
    assert (row().service_uid, row().service_secret) == (None, None)
    result = run("work")
    assert result.exit_code == 1
    assert "no service user" in json.loads(result.output)["message"]


@pytest.mark.parametrize("words", [["work", "--uid", "a/b", "--stdin"], ["work", "--uid", "x", "--clear"], ["nowhere"]])
def test_what_makes_no_sense_changes_nothing(work: Instance, words: list[str]) -> None:
    serviceuser.give(work.id, "parley", "app-password")
    result = run(*words, stdin="other\n")
    assert isinstance(result.exception, BadInput)
    assert serviceuser.login(work.id).password == "app-password"


def test_administrators_set_test_and_forget_it_by_the_api(house: House, server: Nextcloud, browser: Any) -> None:
    instances.add("work", server.url)
    headers, path = house.bearer(house.carol, "administrator"), "/api/v1/instances/work/service-user"
    made = browser.put(path, json={"uid": "parley", "password": "app-password"}, headers=headers)
    assert (made.status_code, made.json["ok"], made.json["service_uid"]) == (200, True, "parley")
    assert "app-password" not in made.text
    assert browser.post(f"{path}/test", headers=headers).json["ok"]
    bad = browser.put(path, json={"uid": "parley", "password": "wrong"}, headers=headers)
    assert (bad.status_code, bad.json["ok"]) == (200, False)
    listed = {each["name"]: each for each in browser.get("/api/v1/instances", headers=headers).json["instances"]}
    assert listed["work"]["service_blocked"] == "refused"
    assert browser.delete(path, headers=headers).status_code == 204
    assert not browser.post(f"{path}/test", headers=headers).json["ok"]


@pytest.mark.parametrize("body", [{}, {"uid": "parley"}, {"uid": 7, "password": "x"}, {"uid": "p", "password": ""}])
def test_a_bad_body_is_refused(house: House, browser: Any, body: dict[str, Any]) -> None:
    headers = house.bearer(house.carol, "administrator")
    assert browser.put("/api/v1/instances/cloud/service-user", json=body, headers=headers).status_code == 400
    assert browser.put("/api/v1/instances/nowhere/service-user", json=body, headers=headers).status_code == 400


def test_the_api_can_not_be_abused_by_whoever_is_no_administrator(house: House, browser: Any) -> None:
    path = "/api/v1/instances/cloud/service-user"
    for headers in ({}, house.bearer(house.ada), house.bearer(house.carol)):
        assert browser.put(path, json={"uid": "p", "password": "x"}, headers=headers).status_code in (401, 403)
        assert browser.post(f"{path}/test", headers=headers).status_code in (401, 403)
        assert browser.delete(path, headers=headers).status_code in (401, 403)
