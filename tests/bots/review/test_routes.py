from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.bots import store
from app.bots.review import decide, edit
from tests.bots.conftest import cloud
from tests.bots.review.conftest import ANSWERS, again, harbour, made, submitted, who
from tests.bots.test_routes import Caller

SECRET = "A canary that only its owner and a reviewer read."
QUIET = "Between the owner and the reviewers."
NEW = {"name": "Berth master", "mention_name": "@berths", "system_prompt": SECRET, "scope": "global"}
VERBS = ("submit", "approve", "reject", "enable-test")


@pytest.fixture
def call(app: Flask, client: FlaskClient) -> Any:
    instance = harbour()
    callers = {
        uid: Caller(client, instance, uid, "administrator" if uid == "carol" else "user")
        for uid in ("ada", "bob", "carol", "gina", "hugo", "tess")
    }
    return lambda uid, method, path, json=None: callers[uid](method, path, json)


def test_a_bot_goes_from_a_draft_to_everybody(call: Any) -> None:
    bot = call("bob", "POST", "/bots", NEW).json
    assert (bot["state"], bot["scope"]) == ("draft", "global")
    assert call("ada", "GET", "/public-bots").json["total"] == 0
    told = {**ANSWERS, "testing_description": QUIET}
    waiting = call("bob", "POST", f"/bots/{bot['id']}/submit", told)
    assert (waiting.status_code, waiting.json["state"]) == (200, "pending")
    assert waiting.json["questionnaire"]["testing_description"] == QUIET
    entry = call("carol", "GET", "/approvals").json["bots"][0]
    assert (entry["id"], entry["owner"], entry["questionnaire"]["approval_reason"]) == (
        bot["id"], "bob", "The crew asked for it.",
    )  # fmt: skip
    assert (entry["review_target"]["system_prompt"], entry["review_target"]["is_update"]) == (SECRET, False)
    assert call("carol", "POST", f"/bots/{bot['id']}/enable-test").json["tester"] == "carol"
    assert [each["reason"]["type"] for each in call("carol", "GET", "/public-bots").json["bots"]] == ["tester"]
    approved = call("carol", "POST", f"/bots/{bot['id']}/approve", {"revision": entry["revision"]})
    assert (approved.json["state"], approved.json["approved_by"], approved.json["tester"]) == (
        "approved",
        "carol",
        None,
    )
    assert call("ada", "GET", "/public-bots").json["total"] == 1
    assert call("carol", "GET", "/approvals").json == {"bots": [], "total": 0}


def test_changes_of_a_live_bot_are_shown_to_owner_and_reviewer_beside_what_is_live(call: Any) -> None:
    bot = made(by="carol", description="Berths")
    shown = call("bob", "GET", f"/bots/{bot.id}").json
    changed = call("bob", "PUT", f"/bots/{bot.id}", {**shown, "description": None, "name": "New"}).json
    assert (changed["name"], changed["description"], changed["state"]) == ("Atlas", "Berths", "pending")
    assert (changed["has_pending_changes"], changed["pending"]) == (True, {"name": "New", "description": None})
    entry = call("carol", "GET", "/approvals").json["bots"][0]
    assert entry["changes"] == ["name", "description"]
    assert (entry["review_target"]["description"], entry["review_target"]["is_update"]) == (None, True)
    rejected = call("carol", "POST", f"/bots/{bot.id}/reject", {"reason": "Keep it."})
    assert rejected.json["state"] == "approved"
    assert call("bob", "GET", f"/bots/{bot.id}").json["rejection_reason"] == "Keep it."


def test_nobody_who_only_uses_a_bot_reads_its_prompt_or_what_was_told_to_reviewers(call: Any) -> None:
    bot = made(by="carol", system_prompt=SECRET)
    bot = decide.submit(who("bob"), edit.change(who("bob"), bot, {"state": "draft"}), {"approval_reason": QUIET})
    bot = decide.approve(who("carol"), bot)
    edit.change(who("bob"), bot, {"system_prompt": f"New. {SECRET}"})
    paths = (
        f"/bots/{bot.id}",
        f"/public-bots/{bot.id}",
        "/public-bots",
        f"/bots/{bot.id}/tools",
        "/bots",
        "/approvals",
    )
    for uid in ("ada", "gina", "tess"):
        answers = [call(uid, "GET", path) for path in paths]
        answers += [call(uid, "POST", f"/bots/{bot.id}/{verb}", {"reason": "x"}) for verb in VERBS]
        for answer in answers:
            assert SECRET not in answer.text
            assert QUIET not in answer.text
            assert "system_prompt" not in answer.text
            assert "questionnaire" not in answer.text
    for path in ("/admin/bots", f"/bots/{bot.id}"):
        answer = call("carol", "GET", path)
        assert answer.status_code == 200
        assert SECRET not in answer.text
        assert QUIET not in answer.text
    decided = call("carol", "POST", f"/bots/{bot.id}/approve")
    assert decided.status_code == 200
    assert SECRET not in decided.text


def test_what_one_may_not_see_is_not_there_and_what_one_may_not_do_is_told(call: Any) -> None:
    bot = submitted(made())
    for verb in VERBS:
        body = ANSWERS if verb == "submit" else {"reason": "x"} if verb == "reject" else {}
        assert call("ada", "POST", f"/bots/{bot.id}/{verb}", body).status_code == 404
        assert call("bob", "POST", f"/bots/{bot.id}/{verb}", body).status_code == (409 if verb == "submit" else 403)
        assert call("carol", "POST", f"/bots/999999/{verb}", body).status_code == 404
    assert again(bot).state == "pending"
    call("carol", "POST", f"/bots/{bot.id}/approve")
    for verb in ("approve", "reject", "enable-test"):
        answer = call("carol", "POST", f"/bots/{bot.id}/{verb}", {"reason": "x"} if verb == "reject" else {})
        assert (answer.status_code, answer.json["code"]) == (409, "conflict")


@pytest.mark.parametrize("scope", ["groups", "teams"])
def test_approvals_are_for_who_approves_and_list_what_they_may_decide(call: Any, scope: str) -> None:
    names = {"groups": ["crew"], "teams": ["t1"]}[scope]
    submitted(made("one", scope=scope, **{scope: names}))
    submitted(made("two", scope=scope, **{scope: [*names, "elsewhere"]}))
    submitted(made("three"))
    listed = {}
    for uid in ("carol", "gina", "hugo", "tess"):
        answer = call(uid, "GET", "/approvals")
        listed[uid] = [each["mention_name"] for each in answer.json["bots"]]
        assert answer.json["total"] == len(listed[uid])
    if scope == "groups":
        assert listed == {"carol": ["one", "two", "three"], "gina": ["one"], "hugo": ["one"], "tess": []}
    else:
        assert listed == {"carol": ["three"], "gina": [], "hugo": [], "tess": ["one"]}
    refused = call("ada", "GET", "/approvals")
    assert (refused.status_code, refused.json["code"]) == (403, "not_allowed")
    page = call("carol", "GET", "/approvals?limit=1&offset=1").json
    assert (page["total"], [each["mention_name"] for each in page["bots"]]) == (
        len(listed["carol"]),
        listed["carol"][1:2],
    )
    assert call("carol", "GET", "/approvals?limit=0").status_code == 400


def test_permissions_say_what_one_may_approve_and_publish(call: Any) -> None:
    said = call("gina", "GET", "/permissions").json
    assert said["permissions"] == {
        "is_admin": False,
        "is_group_admin": True,
        "is_team_admin": False,
        "has_approval_rights": True,
        "admin_groups": ["crew"],
        "admin_teams": [],
        "confirmed": True,
    }
    needs = {each["value"]: each["requires_approval"] for each in said["visibilities"]}
    assert needs == {"personal": False, "groups": False, "teams": True, "global": True}
    admin = call("carol", "GET", "/permissions").json
    assert not any(each["requires_approval"] for each in admin["visibilities"])
    nobody = call("ada", "GET", "/permissions").json
    assert (nobody["permissions"]["has_approval_rights"], nobody["permissions"]["confirmed"]) == (False, False)


def test_a_bodys_wrong_fields_are_told(call: Any) -> None:
    bot = submitted(made())
    for verb, body, field in (
        ("reject", {}, "reason"), ("reject", {"reason": "x", "state": "approved"}, "state"),
        ("approve", {"revision": "1"}, "revision"), ("approve", {"reason": "x"}, "reason"),
    ):  # fmt: skip
        answer = call("carol", "POST", f"/bots/{bot.id}/{verb}", body)
        assert (answer.status_code, list(answer.json["fields"])) == (400, [field])
    assert call("carol", "POST", f"/bots/{bot.id}/approve", {"revision": bot.revision + 1}).status_code == 409
    assert again(bot).state == "pending"


def test_an_administrators_token_of_scope_user_can_not_be_abused_to_approve(app: Flask, client: FlaskClient) -> None:
    bot = submitted(made())
    carol = Caller(client, cloud(), "carol", "user")
    assert carol("POST", f"/bots/{bot.id}/approve").status_code == 404
    assert carol("GET", "/approvals").status_code == 403


def test_a_removed_bot_leaves_nothing_that_waited(call: Any) -> None:
    bot = edit.change(who("bob"), made(by="carol"), {"name": "New"})
    assert call("bob", "DELETE", f"/bots/{bot.id}").status_code == 204
    assert call("carol", "GET", "/approvals").json["total"] == 0
    assert store.get(bot.id) is None
