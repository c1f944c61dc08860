from __future__ import annotations

import pytest
from flask import Flask

from app.bots import store
from app.bots.review import decide, edit, version
from app.infra.errors import BadInput, Conflict, NotAllowed, NotFound
from tests.bots.review.conftest import ANSWERS, actor, again, made, submitted, who


def test_who_may_publish_a_scope_makes_a_live_bot_and_anybody_else_a_draft(app: Flask) -> None:
    cases = [
        ("carol", "global", {}, "approved"),
        ("bob", "global", {}, "draft"),
        ("bob", "personal", {}, "approved"),
        ("gina", "groups", {"groups": ["crew"]}, "approved"),
        ("gina", "groups", {"groups": ["crew", "deck"]}, "draft"),
        ("hugo", "groups", {"groups": ["crew", "deck"]}, "approved"),
        ("hugo", "global", {}, "draft"),
        ("tess", "teams", {"teams": ["t1"]}, "approved"),
        ("tess", "teams", {"teams": ["t1", "t2"]}, "draft"),
        ("tess", "groups", {"groups": ["t1"]}, "draft"),
        ("carol", "teams", {"teams": ["t2"]}, "approved"),
    ]
    for number, (owner, scope, names, state) in enumerate(cases):
        bot = made(f"b{number}", owner=owner, scope=scope, **names)
        assert bot.state == state, (owner, scope, names)
        published = state == "approved" and scope != "personal"
        assert (bot.approved_by, bot.approved_at is not None) == (owner if published else None, published)


def test_a_draft_can_be_asked_for_and_an_approval_that_is_not_ones_own_can_not(app: Flask) -> None:
    assert made(owner="carol", state="draft").state == "draft"
    with pytest.raises(NotAllowed) as error:
        made("muse", state="approved")
    assert "and submit it" in str(error.value)
    assert store.by_mention(who("bob").instance_id, "muse") is None


def test_an_owners_edit_of_a_live_bot_waits_and_leaves_name_and_approval(app: Flask) -> None:
    bot = made(by="carol", tools=["a"])
    changed = edit.change(who("bob"), bot, {"name": "New", "tools": ["b"]})
    assert (changed.name, changed.state, changed.pending) == ("Atlas", "pending", {"name": "New", "tools": ["b"]})
    assert (changed.approved_by, changed.approved_at) == (bot.approved_by, bot.approved_at)
    assert store.tools_of([bot.id])[bot.id] == ("a",)
    assert changed.submitted_at is not None


def test_a_second_edit_replaces_what_waits_and_keeps_what_it_leaves_out(app: Flask) -> None:
    bot = made(by="carol")
    bot = edit.change(who("bob"), bot, {"name": "One", "description": "Berths"})
    bot = decide.test(who("carol"), bot)
    bot = edit.change(who("bob"), bot, {"name": "Two"})
    assert bot.pending == {"name": "Two", "description": "Berths"}
    assert bot.tester is None


def test_an_edit_that_says_what_is_live_takes_the_proposal_back(app: Flask) -> None:
    bot = made(by="carol")
    bot = edit.change(who("bob"), bot, {"name": "One"})
    bot = edit.change(who("bob"), bot, {"name": "Atlas"})
    assert (bot.state, bot.pending, bot.submitted_at) == ("approved", None, None)


def test_what_changes_nothing_leaves_everything_as_it_is(app: Flask) -> None:
    for bot in (made(by="carol"), made("muse"), made("kelp", scope="personal")):
        same = edit.change(who("bob"), bot, {"name": bot.name, "scope": bot.scope, "state": bot.state})
        assert (same.revision, same.updated_at, same.state) == (bot.revision, bot.updated_at, bot.state)


def test_an_approvers_own_edit_is_live_at_once(app: Flask) -> None:
    for owner, scope, names in (
        ("carol", "global", {}), ("gina", "groups", {"groups": ["crew"]}), ("tess", "teams", {"teams": ["t1"]}),
        ("carol", "teams", {"teams": ["t2"]}),
    ):  # fmt: skip
        bot = made(f"by-{owner}-{scope}", owner=owner, scope=scope, **names)
        bot = edit.change(who(owner), bot, {"system_prompt": "Be brief.", "model": "primary:m"})
        assert (bot.state, bot.system_prompt, bot.pending, bot.approved_by) == ("approved", "Be brief.", None, owner)


def test_a_manager_edits_the_live_version_and_what_waits_goes_on_waiting(app: Flask) -> None:
    bot = made(by="hugo", scope="groups", groups=["crew"])
    bot = edit.change(who("bob"), bot, {"name": "One", "description": "Berths"})
    bot = edit.change(who("gina"), bot, {"description": "Moorings", "system_prompt": "Be brief."})
    assert (bot.description, bot.system_prompt, bot.approved_by) == ("Moorings", "Be brief.", "gina")
    assert (bot.state, bot.pending) == ("pending", {"name": "One"})
    bot = edit.change(who("gina"), bot, {"name": "One"})
    assert (bot.state, bot.pending, bot.name) == ("approved", None, "One")


def test_a_manager_who_sends_the_live_fields_back_drops_no_proposal(app: Flask) -> None:
    bot = edit.change(who("bob"), made(by="carol"), {"name": "One"})
    bot = edit.change(who("carol"), bot, {"name": "Atlas", "description": "New"})
    assert (bot.description, bot.pending) == ("New", {"name": "One"})


def test_a_manager_can_not_be_abused_to_publish_beyond_what_they_manage(app: Flask) -> None:
    bot = made(by="gina", scope="groups", groups=["crew"])
    for target in ({"groups": ["crew", "deck"]}, {"scope": "global"}, {"scope": "teams", "teams": ["t1"]}):
        proposed = edit.change(who("gina"), again(bot), target)
        assert (proposed.scope, proposed.groups, proposed.state) == ("groups", ["crew"], "pending")
    with pytest.raises(BadInput) as error:
        edit.change(who("gina"), again(bot), {"scope": "personal"})
    assert set(error.value.fields) == {"scope"}


def test_a_personal_bot_becomes_a_draft_or_approved_when_it_is_shared(app: Flask) -> None:
    mine, hers = made(scope="personal"), made("muse", owner="gina", scope="personal")
    assert edit.change(who("bob"), mine, {"scope": "groups", "groups": ["crew"]}).state == "draft"
    shared = edit.change(who("gina"), hers, {"scope": "groups", "groups": ["crew"]})
    assert (shared.state, shared.approved_by) == ("approved", "gina")


def test_a_shared_bot_that_becomes_personal_has_no_approval_to_come_back_to(app: Flask) -> None:
    bot = edit.change(who("bob"), made(by="carol"), {"name": "One"})
    bot = edit.change(who("bob"), bot, {"scope": "personal"})
    assert (bot.state, bot.scope, bot.name, bot.pending) == ("approved", "personal", "One", None)
    assert (bot.approved_by, bot.approved_at, bot.questionnaire, bot.submitted_at) == (None, None, None, None)
    assert edit.change(who("bob"), bot, {"scope": "global"}).state == "draft"


def test_a_personal_bot_is_its_owners_only(app: Flask) -> None:
    bot = made(scope="personal")
    with pytest.raises(NotAllowed):
        edit.change(who("carol"), bot, {"name": "Mine"})
    with pytest.raises(NotFound):
        edit.change(who("gina"), bot, {"name": "Mine"})
    assert not edit.switch(who("carol"), bot, False).is_active


def test_a_draft_is_its_owners_and_an_administrator_may_remove_it(app: Flask) -> None:
    bot = made(scope="groups", groups=["crew"])
    with pytest.raises(NotFound):
        edit.change(who("gina"), bot, {"name": "Mine"})
    with pytest.raises(Conflict):
        edit.change(who("carol"), bot, {"name": "Mine"})
    edit.remove(who("carol"), bot)
    assert store.get(bot.id) is None


def test_a_bot_is_switched_off_and_on_by_its_owner_and_its_manager_without_a_review(app: Flask) -> None:
    bot = made(by="gina", scope="groups", groups=["crew"])
    for uid in ("bob", "gina", "carol"):
        bot = edit.switch(who(uid), bot, False)
        assert (bot.is_active, bot.state, bot.revision) == (False, "approved", again(bot).revision)
        bot = edit.switch(who(uid), bot, True)
        assert bot.is_active
    for stranger in ("ada", "tess"):
        with pytest.raises(NotFound):
            edit.switch(who(stranger), bot, False)


def test_what_is_submitted_is_changed_where_it_waits_and_nobody_goes_on_testing_it(app: Flask) -> None:
    bot = decide.test(who("carol"), submitted(made()))
    changed = edit.change(who("bob"), bot, {"name": "New"})
    assert (changed.state, changed.name, changed.pending, changed.tester) == ("pending", "New", None, None)
    assert changed.questionnaire == bot.questionnaire
    assert edit.change(who("bob"), changed, {"state": "draft"}).state == "draft"


def test_a_live_bot_can_be_withdrawn_with_what_waits(app: Flask) -> None:
    bot = edit.change(who("bob"), made(by="carol"), {"name": "One"})
    with pytest.raises(Conflict):
        edit.change(who("carol"), bot, {"state": "approved"})
    bot = edit.change(who("bob"), bot, {"state": "draft"})
    assert (bot.state, bot.name, bot.approved_at, bot.is_live) == ("draft", "One", None, False)
    with pytest.raises(NotAllowed):
        edit.change(who("bob"), bot, {"state": "approved"})


def test_two_who_change_a_bot_at_once_do_not_overwrite_each_other(app: Flask) -> None:
    bot = made(by="carol")
    edit.change(who("carol"), bot, {"name": "One"})
    with pytest.raises(Conflict):
        edit.change(who("bob"), bot, {"description": "Two"})
    store.remove(bot.id)
    with pytest.raises(NotFound):
        edit.change(who("bob"), bot, {"name": "Three"})


def test_a_proposal_is_checked_as_a_whole_before_anything_is_kept(app: Flask) -> None:
    bot = made(by="carol")
    for wrong, field in (
        ({"scope": "groups"}, "groups"), ({"tools": ["nothing"]}, "tools"), ({"temperature": 7}, "temperature"),
        ({"mention_name": "muse"}, "mention_name"), ({"state": "pending"}, "state"),
    ):  # fmt: skip
        with pytest.raises(BadInput) as error:
            edit.change(who("bob"), bot, {"name": "New", **wrong}, tools={"current_time"})
        assert set(error.value.fields) == {field}
    assert again(bot).pending is None


def test_a_tool_that_is_gone_stays_assigned_when_others_fields_change(app: Flask) -> None:
    bot = made(by="carol", tools=["gone"])
    assert edit.change(who("bob"), bot, {"name": "New"}, tools={"current_time"}).pending == {"name": "New"}


def test_a_bot_of_another_server_is_not_there(app: Flask) -> None:
    bot = made(by="carol")
    stranger = who("carol", instance=None)
    elsewhere = type(stranger)(stranger.person_id, stranger.instance_id + 1, "carol", admin=True)
    for act in (lambda: edit.change(elsewhere, bot, {"name": "x"}), lambda: edit.remove(elsewhere, bot)):
        with pytest.raises(NotFound):
            act()


def test_everybody_but_owner_and_tester_meets_the_live_version(any_app: Flask) -> None:
    bot = made(by="carol", tools=["a"], description="Berths", model="primary:m")
    bot = edit.change(who("bob"), bot, {"system_prompt": "New.", "tools": ["b"], "description": None, "model": None})
    assert version.effective(bot, actor("carol")).pending is False
    bot = decide.test(who("carol"), bot)
    for uid in ("bob", "carol"):
        met = version.effective(again(bot), actor(uid))
        assert (met.bot.system_prompt, met.tools, met.bot.model, met.pending) == ("New.", ("b",), None, True)
        assert (met.bot.id, met.bot.mention_name) == (bot.id, "atlas")
    for other in (actor("ada"), actor("nobody"), type(actor("x"))("guests", "bob", "Bob")):
        met = version.effective(again(bot), other)
        assert (met.bot.system_prompt, met.tools, met.bot.model, met.pending) == (
            "Be kind.",
            ("a",),
            "primary:m",
            False,
        )
    assert again(bot).system_prompt == "Be kind."


def test_the_questionnaire_of_an_earlier_review_is_gone_with_the_approval(app: Flask) -> None:
    bot = made(by="carol")
    assert bot.questionnaire is not None
    assert bot.questionnaire["approval_reason"] == ANSWERS["approval_reason"]
    assert edit.change(who("bob"), bot, {"state": "draft"}).questionnaire is None
