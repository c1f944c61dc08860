from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.accounts import people, tokens
from app.accounts.models import Instance
from app.bots import routes, store
from app.conversations import store as conversations
from app.settings import endpoints
from app.settings import store as settings
from tests.bots.conftest import bot, cloud, person_id

SECRET = "A canary that only its owner reads."
NEW = {"name": "Berth master", "mention_name": "@berths", "system_prompt": SECRET}


class Caller:
    """A client with the token of a person."""

    def __init__(self, client: FlaskClient, instance: Instance, uid: str, scope: str = "user") -> None:
        token = tokens.issue(instance.id, person_id=person_id(instance, uid), scope=scope)[1]
        self.client, self.headers = client, {"Authorization": f"Bearer {token}"}

    def __call__(self, method: str, path: str, json: Any = None, **options: Any) -> Any:
        return self.client.open(f"/api/v1{path}", method=method, headers=self.headers, json=json, **options)


@pytest.fixture
def bob(app: Flask, client: FlaskClient) -> Caller:
    return Caller(client, cloud(), "bob")


@pytest.fixture
def ada(app: Flask, client: FlaskClient) -> Caller:
    return Caller(client, cloud(), "ada")


@pytest.fixture
def carol(app: Flask, client: FlaskClient) -> Caller:
    return Caller(client, cloud(), "carol", "administrator")


def test_nobody_without_a_token_learns_anything(app: Flask, client: FlaskClient) -> None:
    made = bot()
    for method, path in (
        ("GET", "/bots"), ("POST", "/bots"), ("GET", f"/bots/{made.id}"), ("PUT", f"/bots/{made.id}"),
        ("DELETE", f"/bots/{made.id}"), ("GET", "/admin/bots"), ("PUT", f"/admin/bots/{made.id}"), ("GET", f"/bots/{made.id}/tools"), ("GET", "/public-bots"), ("GET", f"/public-bots/{made.id}"),
    ):  # fmt: skip
        assert client.open(f"/api/v1{path}", method=method, json={}).status_code == 401


def test_a_person_makes_changes_and_removes_a_personal_bot(bob: Caller) -> None:
    made = bob("POST", "/bots", {**NEW, "temperature": 0.5, "limits": {"seconds": 60}})
    assert made.status_code == 201
    shown = made.json
    assert (shown["mention_name"], shown["scope"], shown["state"], shown["owner"]) == (
        "berths",
        "personal",
        "approved",
        "bob",
    )
    assert bob("GET", f"/bots/{shown['id']}").json == shown
    changed = bob("PUT", f"/bots/{shown['id']}", {**shown, "name": "New"}).json
    assert (changed["name"], changed["system_prompt"], changed["limits"]) == ("New", SECRET, {"seconds": 60})
    assert bob("GET", "/bots").json["total"] == 1
    conversations.say_user(shown["id"], cloud().id, "room", 0, actor="users/bob", speaker="Bob", text="Hi")
    assert bob("DELETE", f"/bots/{shown['id']}").status_code == 204
    assert bob("GET", f"/bots/{shown['id']}").status_code == 404
    assert bob("DELETE", f"/bots/{shown['id']}").status_code == 404
    assert bob("GET", "/bots").json == {"bots": [], "total": 0}


def test_the_server_can_not_be_abused_to_keep_a_model_that_bots_may_not_use(bob: Caller, carol: Caller) -> None:
    endpoints.save("primary", url="http://127.0.0.1:9/v1", model="small")
    settings.set("allowed_models", ["primary:small"])
    for caller in (bob, carol):
        refused = caller("POST", "/bots", {**NEW, "model": "primary:big"})
        assert (refused.status_code, list(refused.json["fields"])) == (400, ["model"])
    made = bob("POST", "/bots", {**NEW, "model": "primary:small"}).json
    assert bob("PUT", f"/bots/{made['id']}", {"model": "primary:big"}).status_code == 400
    settings.set("allow_multiple_models", False)
    assert bob("PUT", f"/bots/{made['id']}", {**made, "name": "New"}).json["name"] == "New"
    assert bob("POST", "/bots", {**NEW, "mention_name": "muse", "model": "primary:big"}).status_code == 400


def test_first_questions_are_given_kept_left_alone_and_taken_away(bob: Caller) -> None:
    asked = {"start": "q", "questions": [{"id": "q", "text": "Where?", "answers": [{"id": "a", "text": "Here"}]}]}
    made = bob("POST", "/bots", {**NEW, "onboarding": asked}).json
    asked["questions"][0]["answers"][0]["next"] = None  # type: ignore[index]
    assert made["onboarding"] == asked
    path = f"/bots/{made['id']}"
    assert bob("PUT", path, {"name": "New"}).json["onboarding"] == asked
    asked["questions"][0]["answers"][0]["next"] = "q"  # type: ignore[index]
    refused = bob("PUT", path, {"onboarding": asked})
    assert refused.status_code == 400
    assert refused.json["fields"] == {"onboarding": 'The question "q" leads back to itself.'}
    assert bob("PUT", path, {"onboarding": None}).json["onboarding"] is None
    assert "onboarding" not in bob("GET", "/public-bots").json["bots"][0]


def test_a_person_can_not_be_given_a_bot_for_others_without_a_review(bob: Caller, carol: Caller) -> None:
    for number, scope in enumerate(("global", "groups", "teams")):
        new = {**NEW, "mention_name": f"b{number}", "scope": scope, **({} if scope == "global" else {scope: ["x"]})}
        assert bob("POST", "/bots", {**new, "state": "approved"}).status_code == 403
        assert bob("POST", "/bots", new).json["state"] == "draft"
    mine = bob("POST", "/bots", NEW).json
    assert bob("PUT", f"/bots/{mine['id']}", {"scope": "global"}).json["state"] == "draft"
    assert bob("PUT", f"/bots/{mine['id']}", {"state": "approved"}).status_code == 403
    assert carol("POST", "/bots", {**NEW, "mention_name": "all-hands", "scope": "global"}).json["state"] == "approved"


def test_an_administrators_token_of_scope_user_can_not_be_abused_to_administer(app: Flask, client: FlaskClient) -> None:
    carol = Caller(client, cloud(), "carol", "user")
    assert carol("POST", "/bots", {**NEW, "scope": "global"}).json["state"] == "draft"
    assert carol("GET", "/admin/bots").status_code == 403


def test_a_bot_of_somebody_else_is_not_there(bob: Caller, ada: Caller, app: Flask) -> None:
    for made in (bot("atlas"), bot("muse", scope="personal")):
        for method, json in (("GET", None), ("PUT", {"name": "x"}), ("DELETE", None)):
            assert ada(method, f"/bots/{made.id}", json).status_code == 404
    assert ada("GET", "/bots").json["total"] == 0


def test_a_bot_of_another_server_is_not_there_for_anybody(client: FlaskClient, carol: Caller) -> None:
    other = cloud("other")
    made = bot(instance=other)
    for caller in (carol, Caller(client, cloud(), "bob")):
        for method, path in (("GET", "bots"), ("PUT", "bots"), ("DELETE", "bots"), ("GET", "public-bots")):
            answer = caller(method, f"/{path}/{made.id}", {"name": "x"} if method == "PUT" else None)
            assert answer.status_code == 404
    assert carol("GET", "/admin/bots").json["total"] == 0
    assert carol("GET", "/public-bots").json["total"] == 0
    assert store.get(made.id) is not None


def test_nobody_but_the_owner_ever_reads_a_prompt(bob: Caller, ada: Caller, carol: Caller) -> None:
    made = bot(system_prompt=SECRET, description="Berths")
    answers = [
        carol("GET", "/admin/bots"), carol("GET", f"/bots/{made.id}"), carol("PUT", f"/bots/{made.id}", {"name": "New"}),
        ada("GET", "/public-bots"), ada("GET", f"/public-bots/{made.id}"), carol("GET", "/public-bots"),
        bob("GET", "/public-bots"),
    ]  # fmt: skip
    for answer in answers:
        assert answer.status_code == 200
        assert SECRET not in answer.text
        assert "system_prompt" not in answer.text
    assert SECRET in bob("GET", f"/bots/{made.id}").text


def test_public_bots_tell_the_name_the_mention_the_description_and_the_reason_only(bob: Caller, ada: Caller) -> None:
    made = bot(description="Berths")
    bot("muse", scope="personal"), bot("kelp", state="draft"), bot("quill", scope="groups", groups=["crew"])
    off = bot("off")
    store.update(off.id, {"is_active": False})
    entry = {"name": "Atlas", "mention_name": "atlas", "description": "Berths"}
    everyone = {**entry, "reason": {"type": "global", "names": []}}
    assert ada("GET", "/public-bots").json == {"bots": [everyone], "total": 1}
    assert ada("GET", f"/public-bots/{made.id}").json == everyone
    assert ada("GET", f"/public-bots/{off.id}").status_code == 404
    mine = bob("GET", "/public-bots").json
    assert [(each["mention_name"], each["reason"]["type"]) for each in mine["bots"]] == [
        (name, "owner") for name in ("atlas", "kelp", "muse", "quill")
    ]


def test_lists_come_in_pages(bob: Caller) -> None:
    for number in range(5):
        bot(f"b{number}", scope="personal")
    for path in ("/bots", "/public-bots"):
        page = bob("GET", f"{path}?limit=2&offset=3").json
        assert ([each["mention_name"] for each in page["bots"]], page["total"]) == (["b3", "b4"], 5)
        assert bob("GET", f"{path}?q=B4").json["total"] == 1
        for wrong in (
            "limit=0",
            "limit=101",
            "limit=x",
            "offset=-1",
            "limit=",
            "offset=99999999999999999999",
            "limit=²",
        ):
            assert bob("GET", f"{path}?{wrong}").status_code == 400


def test_an_administrator_changes_bots_for_others_and_only_switches_personal_ones(bob: Caller, carol: Caller) -> None:
    shared, personal = bot(), bot("muse", scope="personal")
    assert carol("PUT", f"/bots/{shared.id}", {"name": "New", "system_prompt": "Changed."}).json["name"] == "New"
    assert bob("PUT", f"/bots/{shared.id}", {"name": "Mine"}).json["name"] == "New"
    assert carol("PUT", f"/bots/{personal.id}", {"name": "New"}).status_code == 403
    assert carol("DELETE", f"/bots/{personal.id}").status_code == 403
    assert carol("PUT", f"/bots/{personal.id}", {"is_active": False}).json["is_active"] is False
    assert carol("PUT", f"/admin/bots/{shared.id}", {"tools": []}).json["tools"] == []
    assert bob("PUT", f"/admin/bots/{shared.id}", {"tools": []}).status_code == 403
    assert carol("GET", f"/bots/{personal.id}/tools").json == {"tools": []}
    assert carol("DELETE", f"/bots/{shared.id}").status_code == 204


def test_a_draft_becomes_approved_by_its_owner(bob: Caller, ada: Caller) -> None:
    made = bob("POST", "/bots", {**NEW, "state": "draft"}).json
    assert made["state"] == "draft"
    assert bob("PUT", f"/bots/{made['id']}", {"state": "approved"}).json["state"] == "approved"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({**NEW, "temperature": 7}, "temperature"),
        ({**NEW, "mention_name": "all"}, "mention_name"),
        ({**NEW, "registration_id": "x", "owner_id": 1}, "owner_id"),
        ({**NEW, "unknown": 1}, "unknown"),
        ({**NEW, "state": "pending"}, "state"),
        ({**NEW, "system_prompt": "x" * 100_001}, "system_prompt"),
        ({**NEW, "name": ["x"]}, "name"),
        ({**NEW, "onboarding": {"start": "q", "questions": []}}, "onboarding"),
    ],
)
def test_wrong_fields_are_told_and_change_nothing(bob: Caller, body: dict[str, Any], field: str) -> None:
    answer = bob("POST", "/bots", body)
    assert answer.status_code == 400
    assert answer.json["code"] == "bad_input"
    assert field in answer.json["fields"]
    assert bob("GET", "/bots").json["total"] == 0


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"name": NaN}', b"[" * 100_000, b"x" * 2_000_000]
)
def test_a_body_that_is_no_object_gets_a_clear_answer(bob: Caller, body: bytes) -> None:
    answer = bob.client.post("/api/v1/bots", headers=bob.headers, data=body)
    assert 400 <= answer.status_code < 500
    assert answer.json["error"]


def test_a_name_that_is_taken_is_a_conflict(bob: Caller) -> None:
    bot("berths", owner="ada", scope="personal")
    answer = bob("POST", "/bots", NEW)
    assert (answer.status_code, list(answer.json["fields"])) == (409, ["mention_name"])


def test_a_person_can_not_be_abused_to_fill_a_server_with_names(bob: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MOST_OWN", 2)
    answers = [bob("POST", "/bots", {**NEW, "mention_name": f"b{number}"}).status_code for number in range(4)]
    assert answers == [201, 201, 409, 409]


def test_tools_that_do_not_exist_are_refused(bob: Caller) -> None:
    answer = bob("POST", "/bots", {**NEW, "tools": ["current_time", "launch_rockets"]})
    assert answer.status_code == 400
    assert "launch_rockets" in answer.json["fields"]["tools"]
    assert bob("POST", "/bots", {**NEW, "tools": ["current_time"]}).json["tools"] == ["current_time"]


def test_who_is_no_administrator_any_more_may_no_longer_administer(app: Flask, carol: Caller) -> None:
    made = bot()
    people.grant(person_id(cloud(), "carol"), admin=False)
    assert carol("DELETE", f"/bots/{made.id}").status_code in (401, 403, 404)
    assert store.get(made.id) is not None
