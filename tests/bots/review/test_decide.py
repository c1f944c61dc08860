from __future__ import annotations

import threading
from typing import Any

import pytest
from flask import Flask

from app.bots import access, store
from app.bots.review import decide, edit, rights
from app.infra.errors import BadInput, Conflict, NotAllowed, NotFound, ParleyError
from tests.bots.conftest import person_id
from tests.bots.review.conftest import ANSWERS, actor, again, harbour, made, manages, submitted, who


def test_a_draft_is_submitted_with_what_reviewers_should_know(any_app: Flask) -> None:
    told = {"approval_reason": " Asked for. ", "bot_capabilities": "Berths", "testing_description": None}
    bot = decide.submit(who("bob"), made(), told)
    assert bot.state == "pending"
    assert bot.questionnaire == {
        "approval_reason": "Asked for.",
        "bot_capabilities": "Berths",
        "rag_source_description": "",
        "testing_description": "",
    }
    assert again(bot).submitted_at is not None


@pytest.mark.parametrize(
    ("answers", "field"),
    [
        ({}, "approval_reason"),
        ({"approval_reason": "  "}, "approval_reason"),
        ({**ANSWERS, "bot_capabilities": "x" * 4001}, "bot_capabilities"),
        ({**ANSWERS, "testing_description": 7}, "testing_description"),
        ({**ANSWERS, "state": "approved"}, "state"),
    ],
)
def test_a_wrong_answer_is_told_at_its_field(app: Flask, answers: dict[str, Any], field: str) -> None:
    bot = made()
    with pytest.raises(BadInput) as error:
        decide.submit(who("bob"), bot, answers)
    assert set(error.value.fields) == {field}
    assert again(bot).state == "draft"


def test_only_its_owner_submits_a_bot_and_only_a_draft_or_what_was_rejected(app: Flask) -> None:
    bot = made()
    with pytest.raises(NotAllowed):
        decide.submit(who("carol"), bot, ANSWERS)
    with pytest.raises(NotFound):
        decide.submit(who("ada"), bot, ANSWERS)
    with pytest.raises(Conflict):
        decide.submit(who("bob"), made("muse", scope="personal"), ANSWERS)
    bot = submitted(bot)
    with pytest.raises(Conflict):
        decide.submit(who("bob"), bot, ANSWERS)
    rejected = decide.reject(who("carol"), bot, "Too vague.")
    assert (rejected.state, rejected.rejection_reason, rejected.submitted_at) == ("rejected", "Too vague.", None)
    rejected = edit.change(who("bob"), rejected, {"system_prompt": "Clear."})
    assert (rejected.state, rejected.rejection_reason) == ("rejected", "Too vague.")
    assert decide.approve(who("carol"), submitted(rejected)).rejection_reason is None


def test_who_may_approve_follows_the_scope(app: Flask) -> None:
    everybody = ("ada", "bob", "carol", "gina", "hugo", "tess")
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"scope": "global"}, {"carol"}),
        ({"scope": "groups", "groups": ["crew"]}, {"carol", "gina", "hugo"}),
        ({"scope": "groups", "groups": ["crew", "deck"]}, {"carol", "hugo"}),
        ({"scope": "teams", "teams": ["t1"]}, {"tess"}),
        ({"scope": "teams", "teams": ["t1", "t2"]}, set()),
        ({"scope": "teams", "teams": ["crew"]}, set()),
    ]
    for number, (target, may) in enumerate(cases):
        for uid in everybody:
            bot = submitted(made(f"b{number}-{uid}", **target))
            if uid in may:
                assert decide.approve(who(uid), bot).approved_by == uid
                continue
            with pytest.raises((NotAllowed, NotFound)):
                decide.approve(who(uid), bot)
            with pytest.raises((NotAllowed, NotFound)):
                decide.reject(who(uid), bot, "no")
            with pytest.raises((NotAllowed, NotFound)):
                decide.test(who(uid), bot)
            assert again(bot).state == "pending"


def test_an_administrator_approves_no_teams_bot_but_publishes_one(app: Flask) -> None:
    waiting = submitted(made(scope="teams", teams=["t1"]))
    with pytest.raises(NotAllowed) as error:
        decide.approve(who("carol"), waiting)
    assert "moderate all of its teams" in str(error.value)
    assert made("muse", owner="carol", scope="teams", teams=["t1"]).state == "approved"
    manages(person_id(harbour(), "carol"), groups=[], teams=["t1"])
    assert decide.approve(who("carol"), waiting).state == "approved"


def test_an_owner_approves_their_own_bot_with_the_right_only(app: Flask) -> None:
    with pytest.raises(NotAllowed):
        decide.approve(who("bob"), submitted(made()))
    hers = submitted(made("muse", owner="gina", scope="groups", groups=["crew"], state="draft"))
    assert decide.approve(who("gina"), hers).approved_by == "gina"


def test_a_reviewer_of_a_group_loses_the_right_when_the_proposal_moves_away(app: Flask) -> None:
    bot = made(by="gina", scope="groups", groups=["crew"])
    bot = edit.change(who("bob"), bot, {"scope": "teams", "teams": ["t1"]})
    for uid in ("gina", "carol"):
        with pytest.raises(NotAllowed):
            decide.approve(who(uid), bot)
    approved = decide.approve(who("tess"), bot)
    assert (approved.scope, approved.groups, approved.teams, approved.approved_by) == ("teams", [], ["t1"], "tess")


def test_an_approval_applies_what_was_cleared(any_app: Flask) -> None:
    values = {"description": "Berths", "model": "primary:m", "temperature": 0.5, "limits": {"seconds": 60}}
    bot = made(by="carol", tools=["a"], **values)
    cleared = {"description": None, "model": None, "temperature": None, "limits": None, "tools": []}
    bot = decide.approve(who("carol"), edit.change(who("bob"), bot, cleared))
    assert (bot.description, bot.model, bot.temperature, bot.limits, bot.pending) == (None, None, None, {}, None)
    assert store.tools_of([bot.id])[bot.id] == ()


def test_a_rejected_proposal_leaves_the_live_version_and_its_approval(app: Flask) -> None:
    live = made(by="carol")
    bot = decide.reject(who("carol"), edit.change(who("bob"), live, {"name": "New"}), "Keep the name.")
    assert (bot.state, bot.name, bot.pending, bot.rejection_reason) == ("approved", "Atlas", None, "Keep the name.")
    assert (bot.approved_by, bot.approved_at) == (live.approved_by, live.approved_at)
    assert edit.change(who("bob"), bot, {"name": "Newer"}).rejection_reason is None


@pytest.mark.parametrize("reason", [None, "", "  ", 7, "x" * 4001])
def test_a_rejection_has_a_reason(app: Flask, reason: object) -> None:
    bot = submitted(made())
    with pytest.raises(BadInput) as error:
        decide.reject(who("carol"), bot, reason)
    assert set(error.value.fields) == {"reason"}


def test_only_the_tester_uses_what_was_never_approved_and_a_second_one_takes_the_place(app: Flask) -> None:
    bot = submitted(made(scope="groups", groups=["crew"]))

    def users() -> set[str]:
        everybody = ("ada", "bob", "carol", "gina", "hugo", "tess")
        return {uid for uid in everybody if access.may_use(again(bot), actor(uid), bot.instance_id).allowed}

    assert users() == {"bob"}
    decide.test(who("gina"), again(bot))
    assert users() == {"bob", "gina"}
    decide.test(who("hugo"), again(bot))
    assert users() == {"bob", "hugo"}
    decide.reject(who("gina"), again(bot), "no")
    assert users() == {"bob"}


def test_what_was_looked_at_is_what_is_approved(app: Flask) -> None:
    bot = submitted(made())
    seen = bot.revision
    edit.change(who("bob"), bot, {"system_prompt": "Something else."})
    for act in (
        lambda: decide.approve(who("carol"), again(bot), revision=seen),
        lambda: decide.reject(who("carol"), again(bot), "no", revision=seen),
        lambda: decide.approve(who("carol"), bot),
    ):
        with pytest.raises(Conflict):
            act()
    assert again(bot).state == "pending"
    assert decide.approve(who("carol"), again(bot), revision=again(bot).revision).system_prompt == "Something else."


def test_a_test_does_not_stand_in_the_way_of_another_reviewers_decision(app: Flask) -> None:
    bot = submitted(made(scope="groups", groups=["crew"]))
    decide.test(who("gina"), bot)
    assert decide.approve(who("hugo"), bot, revision=bot.revision).approved_by == "hugo"


def test_of_two_who_decide_at_once_one_decides(any_app: Flask) -> None:
    bot = submitted(made())
    harbour()
    carol, ends, start = who("carol"), [], threading.Barrier(4)

    def decided(number: int) -> None:
        with any_app.app_context():
            start.wait(10)
            try:
                ends.append((decide.approve(carol, bot) if number % 2 else decide.reject(carol, bot, "no")).state)
            except ParleyError as error:
                ends.append(error.code)

    threads = [threading.Thread(target=decided, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(ends)[:1] in (["approved"], ["conflict"])
    assert ends.count("conflict") == 3
    assert again(bot).state in set(ends) - {"conflict"}


def test_what_a_server_does_not_confirm_now_is_no_right_and_is_told(app: Flask) -> None:
    bot = submitted(made(scope="groups", groups=["crew"]))
    unsure = rights.Who(person_id(harbour(), "gina"), bot.instance_id, "gina", ask=lambda _: rights.UNKNOWN)
    with pytest.raises(NotFound):
        decide.approve(unsure, bot)
    owner = rights.Who(bot.owner_id, bot.instance_id, "bob", ask=lambda _: rights.UNKNOWN)
    with pytest.raises(NotAllowed) as error:
        decide.approve(owner, bot)
    assert "can't be confirmed" in str(error.value)


def test_the_command_line_decides_everything_of_its_instance_only(app: Flask) -> None:
    bot = submitted(made(scope="teams", teams=["t9"]))
    operator = rights.at_the_command_line(harbour())
    approved = decide.approve(operator, bot)
    assert (approved.state, approved.approved_by) == ("approved", None)
    with pytest.raises(NotFound):
        edit.remove(rights.Who(None, bot.instance_id + 1, None, admin=True, operator=True), approved)
