"""JSON about who is asking."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Flask

from app.accounts import directory, instances, people, tokens
from app.accounts import routes as door
from app.infra.db import transaction
from app.infra.jobs import jobs
from tests.accounts.conftest import PASSWORD, House
from tests.accounts.test_login import csrf_of, sign_in

LEVEL_OF = {
    "GET /api/v1/me": "user",
    "GET /api/v1/tokens": "user",
    "POST /api/v1/tokens": "user",
    "DELETE /api/v1/tokens/<int:id>": "user",
    "GET /api/v1/people": "administrator",
    "POST /api/v1/people": "administrator",
    "GET /api/v1/people/<int:id>": "administrator",
    "PATCH /api/v1/people/<int:id>": "administrator",
    "PUT /api/v1/people/<int:id>/password": "administrator",
    "GET /api/v1/instances": "administrator",
    "POST /api/v1/instances": "administrator",
    "PUT /api/v1/instances/<name>/service-user": "administrator",
    "DELETE /api/v1/instances/<name>/service-user": "administrator",
    "POST /api/v1/instances/<name>/service-user/test": "administrator",
}


def rules(app: Flask, blueprint: str) -> dict[str, str]:
    return {
        f"{method} {rule.rule}": app.view_functions[rule.endpoint].parley_access  # type: ignore[attr-defined]
        for rule in app.url_map.iter_rules()
        if rule.endpoint.startswith(f"{blueprint}.")
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    }


def test_every_route_has_the_level_that_stands_here(app: Flask) -> None:
    assert rules(app, door.blueprint.name) == LEVEL_OF


@pytest.mark.parametrize("route", LEVEL_OF)
def test_each_route_is_closed_to_strangers_and_to_whoever_has_less(house: House, browser: Any, route: str) -> None:
    method, _, path = route.partition(" ")
    path = path.replace("<int:id>", str(house.ada.id)).replace("<name>", house.cloud.name)

    def status(headers: dict[str, str]) -> int:
        return int(browser.open(path, method=method, headers=headers, json={}).status_code)

    assert status({}) == 401
    assert status({"Authorization": "Bearer ply_wrong"}) == 401
    assert status(house.bearer(house.dan, "operator")) == 403
    domain = tokens.issue(house.cloud.id, allow=["io.cozy.files"])[1]
    assert status({"Authorization": f"Bearer {domain}"}) == 403
    if LEVEL_OF[route] == "administrator":
        assert status(house.bearer(house.ada)) == 403
        assert status(house.bearer(house.carol)) == 403
        assert status(house.bearer(house.carol, "administrator")) not in (401, 403)


def test_me_says_who_is_asking_and_what_this_request_may(house: House, browser: Any) -> None:
    directory.remember(house.carol.id, groups=directory.named(["staff"]))
    mine = browser.get("/api/v1/me", headers=house.bearer(house.carol)).json
    assert (mine["uid"], mine["instance"], mine["admin"], mine["may_administer"]) == ("carol", "cloud", True, False)
    assert (mine["via"], mine["scope"], mine["groups"]) == ("token", "user", ["staff"])
    assert browser.get("/api/v1/me", headers=house.bearer(house.carol, "administrator")).json["may_administer"]


def test_a_good_session_does_not_save_a_bad_token(house: House, browser: Any) -> None:
    sign_in(browser)
    assert browser.get("/api/v1/me", headers={"Authorization": "Bearer ply_wrong"}).status_code == 401
    assert browser.get("/api/v1/me", headers={"Authorization": "Basic YTpi"}).status_code == 200


def test_a_token_in_the_address_or_in_a_form_is_worth_nothing(house: House, browser: Any) -> None:
    token = house.token(house.ada)
    assert browser.get(f"/api/v1/me?token={token}").status_code == 400
    assert browser.get("/api/v1/me", headers={"Cookie": f"token={token}"}).status_code == 401
    assert browser.post("/api/v1/tokens", data={"token": token}).status_code == 401


def test_a_person_makes_lists_and_ends_tokens_of_their_own(house: House, browser: Any) -> None:
    sign_in(browser)
    headers = {"X-CSRFToken": csrf_of(browser, "/")}
    made = browser.post("/api/v1/tokens", json={"scope": "user", "days": 3}, headers=headers)
    assert made.status_code == 201
    assert set(made.json) == {"id", "token", "expires_at"}
    listed = browser.get("/api/v1/tokens")
    assert [each["id"] for each in listed.json["tokens"]] == [made.json["id"]]
    assert made.json["token"] not in listed.text
    bearer = {"Authorization": f"Bearer {made.json['token']}"}
    assert browser.get("/api/v1/me", headers=bearer).json["uid"] == "ada"
    assert browser.delete(f"/api/v1/tokens/{made.json['id']}", headers=headers).status_code == 204
    assert browser.get("/api/v1/me", headers=bearer).status_code == 401


def test_a_token_can_not_be_abused_to_make_another_token(house: House, browser: Any) -> None:
    for headers in (house.bearer(house.ada), house.bearer(house.carol, "administrator")):
        assert browser.post("/api/v1/tokens", json={"scope": "user"}, headers=headers).status_code == 403


def test_a_person_can_not_be_abused_to_get_a_scope_above_theirs(house: House, browser: Any) -> None:
    sign_in(browser)
    headers = {"X-CSRFToken": csrf_of(browser, "/")}
    for scope in ("administrator", "operator"):
        assert browser.post("/api/v1/tokens", json={"scope": scope}, headers=headers).status_code == 403


def test_somebody_elses_token_can_not_be_ended(house: House, browser: Any) -> None:
    id, token, _ = tokens.issue(house.other.id, person_id=house.namesake.id, scope="user")
    assert browser.delete(f"/api/v1/tokens/{id}", headers=house.bearer(house.ada)).status_code == 404
    assert tokens.verify(token) is not None


def test_an_administrator_adds_and_changes_people(house: House, browser: Any) -> None:
    headers = house.bearer(house.carol, "administrator")
    wish = {"instance": "cloud", "uid": "eve", "display_name": "Eve", "groups": ["staff"], "teams": ["core"]}
    made = browser.post("/api/v1/people", json=wish, headers=headers)
    assert made.status_code == 201
    assert (made.json["uid"], made.json["groups"], made.json["teams"]) == ("eve", ["staff"], ["core"])
    assert browser.post("/api/v1/people", json=wish, headers=headers).status_code == 409
    path = f"/api/v1/people/{made.json['id']}"
    changed = browser.patch(path, json={"admin": True, "groups": []}, headers=headers).json
    assert (changed["admin"], changed["groups"], changed["teams"]) == (True, [], ["core"])
    assert browser.put(f"{path}/password", json={"password": PASSWORD}, headers=headers).status_code == 204
    shown = browser.get(path, headers=headers)
    assert shown.json["has_password"] is True
    assert "argon2" not in shown.text
    assert PASSWORD not in shown.text


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({}, "instance"),
        ({"instance": "cloud"}, "uid"),
        ({"instance": "nowhere", "uid": "eve"}, "instance"),
        ({"instance": 3, "uid": "eve"}, "instance"),
        ({"instance": "cloud", "uid": 3}, "uid"),
        ({"instance": "cloud", "uid": "a/b"}, "uid"),
        ({"instance": "cloud", "uid": "eve", "admin": "yes"}, "admin"),
        ({"instance": "cloud", "uid": "eve", "admin": 1}, "admin"),
        ({"instance": "cloud", "uid": "eve", "groups": "staff"}, "groups"),
        ({"instance": "cloud", "uid": "eve", "groups": [1]}, "groups"),
        ({"instance": "cloud", "uid": "eve", "groups": ["x" * 191]}, "groups"),
        ({"instance": "cloud", "uid": "eve", "is_admin": True}, "is_admin"),
    ],
)
def test_a_bad_field_is_named_and_nobody_is_made(house: House, browser: Any, wish: Any, field: str) -> None:
    answer = browser.post("/api/v1/people", json=wish, headers=house.bearer(house.carol, "administrator"))
    assert answer.status_code == 400
    assert field in answer.json["fields"]
    assert people.find(house.cloud.id, "eve") is None


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b"null",
        b"3",
        b"{",
        b"\xff\xfe\xfd",
        b'{"uid": NaN}',
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"uid": "' + b"x" * 1_100_000 + b'"}',
    ],
)
def test_a_body_that_is_no_json_object_is_refused(house: House, browser: Any, raw: bytes) -> None:
    answer = browser.post("/api/v1/people", data=raw, headers=house.bearer(house.carol, "administrator"))
    assert answer.status_code == 400
    assert answer.json["code"] == "bad_input"


def test_an_administrator_can_not_be_abused_to_make_operators(house: House, browser: Any) -> None:
    headers = house.bearer(house.carol, "administrator")
    assert browser.patch(f"/api/v1/people/{house.ada.id}", json={"operator": True}, headers=headers).status_code == 403
    found = people.get(house.ada.id)
    assert found is not None
    assert not found.is_operator
    people.grant(house.carol.id, operator=True)
    sign_in(browser, uid="carol")
    token = {"X-CSRFToken": csrf_of(browser, "/")}
    assert browser.patch(f"/api/v1/people/{house.ada.id}", json={"operator": True}, headers=token).status_code == 200


def test_an_administrator_can_not_be_abused_to_take_over_an_operator(house: House, browser: Any) -> None:
    headers = house.bearer(house.carol, "administrator")
    path = f"/api/v1/people/{house.dan.id}/password"
    before = people.get(house.dan.id)
    assert before is not None
    assert before.is_operator
    assert browser.put(path, json={"password": "another-pass-1"}, headers=headers).status_code == 403
    after = people.get(house.dan.id)
    assert after is not None
    assert after.password_hash == before.password_hash
    people.grant(house.carol.id, operator=True)
    sign_in(browser, uid="carol")
    token = {"X-CSRFToken": csrf_of(browser, "/")}
    assert browser.put(path, json={"password": "another-pass-1"}, headers=token).status_code == 204


def test_an_administrator_does_not_give_up_their_own_right_by_accident(house: House, browser: Any) -> None:
    headers = house.bearer(house.carol, "administrator")
    assert browser.patch(f"/api/v1/people/{house.carol.id}", json={"admin": False}, headers=headers).status_code == 400
    assert browser.get("/api/v1/people", headers=headers).status_code == 200


def test_people_are_listed_by_instance_words_and_page(house: House, browser: Any) -> None:
    headers = house.bearer(house.carol, "administrator")
    first = browser.get("/api/v1/people?instance=cloud&limit=2", headers=headers).json
    assert [each["uid"] for each in first["people"]] == ["ada", "bob"]
    second = browser.get(f"/api/v1/people?instance=cloud&limit=2&after={first['next']}", headers=headers).json
    assert [each["uid"] for each in second["people"]] == ["carol", "dan"]
    assert [each["uid"] for each in browser.get("/api/v1/people?q=BOB", headers=headers).json["people"]] == ["bob"]
    for odd in ("limit=x&after=-7", f"after={10**40}", "limit=0", "q=%00", "q=%ff", "limit=" + "9" * 5000):
        assert browser.get(f"/api/v1/people?{odd}", headers=headers).status_code == 200
    assert browser.get("/api/v1/people?instance=nowhere", headers=headers).status_code == 400


def test_instances_are_added_and_their_secrets_never_shown(house: House, browser: Any) -> None:
    headers = house.bearer(house.carol, "administrator")
    wish = {"name": "third", "url": "https://third.example.test/nextcloud/"}
    made = browser.post("/api/v1/instances", json=wish, headers=headers)
    assert (made.status_code, made.json["url"]) == (201, "https://third.example.test/nextcloud")
    assert browser.post("/api/v1/instances", json=wish, headers=headers).status_code == 409
    bad = browser.post("/api/v1/instances", json={"name": "x", "url": "http://169.254.169.254"}, headers=headers)
    assert (bad.status_code, list(bad.json["fields"])) == (400, ["url"])
    with transaction() as session:
        row = session.get(type(house.cloud), house.cloud.id)
        assert row is not None
        row.service_secret = "canary-5eC4e7"
    listed = browser.get("/api/v1/instances", headers=headers)
    assert "canary" not in listed.text
    assert [each["has_service_secret"] for each in listed.json["instances"]] == [True, False, False]


def test_the_forgetting_job_runs(house: House) -> None:
    jobs.tasks["accounts.forget"].run()
    assert json.dumps([row.name for row in instances.all()]) == '["cloud", "other"]'


@pytest.mark.parametrize("id", ["0", str(2**63 - 1), str(2**63), "9" * 400, "-1", "x", "1.5"])
def test_an_id_that_nobody_has_is_not_found(house: House, browser: Any, id: str) -> None:
    headers = house.bearer(house.carol, "administrator")
    assert browser.get(f"/api/v1/people/{id}", headers=headers).status_code == 404
    assert browser.delete(f"/api/v1/tokens/{id}", headers=headers).status_code == 404
