"""The one promise of the review: what others meet changes only by somebody who may publish it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from flask import Flask
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.accounts import directory
from app.bots import access, store
from app.bots.models import Bot
from app.bots.review import decide, edit, version
from app.bots.review.rights import Who
from app.infra.errors import ParleyError
from app.platforms.base import Actor
from tests.bots.conftest import person_id
from tests.bots.review.conftest import ANSWERS, PEOPLE, harbour

UIDS = ("ada", "bob", "carol", "gina", "hugo", "tess")
TARGETS: tuple[dict[str, Any], ...] = (
    {"scope": "personal"},
    {"scope": "global"},
    {"scope": "groups", "groups": ["crew"]},
    {"scope": "groups", "groups": ["crew", "deck"]},
    {"scope": "teams", "teams": ["t1"]},
    {"scope": "teams", "teams": ["t1", "t2"]},
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["One", "Two"]),
        "model": st.sampled_from([None, "primary:m"]),
        "tools": st.sampled_from([[], ["a"], ["a", "b"]]),
    },
)
# The owner (None) acts most: who else may depends on the target.
ACTORS = st.one_of(st.none(), st.sampled_from(UIDS))
CHANGES = st.builds(lambda values, target: values | target, VALUES, st.sampled_from(({}, *TARGETS)))
ACTS = st.one_of(
    st.tuples(st.just("change"), st.sampled_from(UIDS), st.sampled_from(TARGETS)),
    st.tuples(
        st.just("change"), ACTORS, st.sampled_from([{"state": "draft"}, {"state": "approved"}, {"is_active": False}])
    ),
    st.tuples(st.just("change"), ACTORS, CHANGES),
    st.tuples(st.sampled_from(["approve", "test", "reject"]), st.sampled_from(UIDS), st.just({})),
    st.tuples(st.just("submit"), st.none(), st.just({})),
)
NUMBERS = count()


@dataclass(frozen=True)
class Live:
    """What others meet: None of it where there is nothing for them."""

    fields: tuple[tuple[str, Any], ...] | None
    target: dict[str, Any]


def live(bot: Bot) -> Live:
    target = {"scope": bot.scope, "groups": bot.groups, "teams": bot.teams}
    if not bot.is_live or bot.scope == "personal":
        return Live(None, target)
    met = version.effective(bot, Actor("users", "nobody", "Nobody"))
    fields = [(name, getattr(met.bot, name)) for name in version.FIELDS if name != "tools"]
    return Live((*((name, repr(value)) for name, value in fields), ("tools", met.tools)), target)


def publishes(uid: str, target: dict[str, Any], *, by_approving: bool) -> bool:
    """Written apart from the code that it checks (talk-bots 3.3, 3.4)."""
    managed = PEOPLE.get(uid, {"groups": [], "teams": []})
    if target["scope"] == "groups":
        return uid == "carol" or set(target["groups"]) <= set(managed["groups"])
    if target["scope"] == "teams":
        return (uid == "carol" and not by_approving) or set(target["teams"]) <= set(managed["teams"])
    return uid == "carol"


def act(verb: str, who: Who, bot: Bot, values: dict[str, Any]) -> None:
    with suppress(ParleyError):
        if verb == "change":
            edit.change(who, bot, values)
        elif verb == "submit":
            decide.submit(who, bot, ANSWERS)
        elif verb == "approve":
            decide.approve(who, bot)
        elif verb == "reject":
            decide.reject(who, bot, "no")
        else:
            decide.test(who, bot)


def everybody() -> dict[str, Who]:
    """Who acts, with what they manage told without a look into the database."""
    instance = harbour()
    found = {}
    for uid in UIDS:
        managed = PEOPLE.get(uid, {"groups": [], "teams": []})
        told = replace(
            directory.UNKNOWN,
            fresh=True,
            teams_fresh=True,
            managed_groups=frozenset(managed["groups"]),
            managed_teams=frozenset(managed["teams"]),
        )
        id = person_id(instance, uid)
        found[uid] = Who(id, instance.id, uid, admin=uid == "carol", ask=lambda _, told=told: told)
    return found


def begun(owner: Who, target: dict[str, Any], state: str, proposed: dict[str, Any] | None) -> Bot:
    """A bot in that state, by the operator's hand: live ones with what is proposed beside them."""
    number = next(NUMBERS)
    values = {"name": "Zero", "mention_name": f"b{number}", "system_prompt": "x", "state": "approved", **target}
    assert owner.person_id is not None
    bot = store.create(owner.instance_id, owner.person_id, values)
    if target["scope"] == "personal" or (state == "approved" and proposed is None):
        return bot
    if state == "approved":
        fields = {"groups": [], "teams": [], "name": "Proposed", **(proposed or {})}
        return store.write(bot, {"state": "pending", "pending": fields})
    return store.write(bot, {"state": state, "approved_at": None})


CREW, BOTH = TARGETS[2], TARGETS[3]


@example(owner="bob", target=CREW, state="approved", proposed=None, acts=[("change", "gina", BOTH)])
@example(owner="gina", target=CREW, state="approved", proposed=None, acts=[("change", None, TARGETS[1])])
@example(owner="bob", target=CREW, state="approved", proposed=BOTH, acts=[("approve", "gina", {})])
@example(owner="bob", target=CREW, state="pending", proposed=None, acts=[("test", "hugo", {}), ("change", None, BOTH)])
@example(owner="bob", target=CREW, state="approved", proposed=BOTH, acts=[("test", "hugo", {}), ("change", None, CREW)])
@example(owner="bob", target=CREW, state="pending", proposed=None, acts=[("test", "gina", {}), ("approve", "hugo", {})])
@given(
    owner=st.sampled_from(UIDS),
    target=st.sampled_from(TARGETS),
    state=st.sampled_from(["approved", "approved", "pending", "draft", "rejected"]),
    proposed=st.one_of(st.none(), st.sampled_from(TARGETS[1:])),
    acts=st.lists(ACTS, min_size=2, max_size=7),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_live_version_changes_only_by_somebody_who_may_publish_it(
    app: Flask,
    owner: str,
    target: dict[str, Any],
    state: str,
    proposed: dict[str, Any] | None,
    acts: list[tuple[str, str | None, dict[str, Any]]],
) -> None:
    people = everybody()
    bot = begun(people[owner], target, state, proposed)
    before = live(bot)
    for verb, actor, values in acts:
        uid = actor or owner
        act(verb, people[uid], bot, values)
        found = store.get(bot.id)
        assert found is not None
        bot, after = found, live(found)
        if after.fields is not None and after.fields != before.fields:
            assert verb in ("change", "approve"), (verb, uid)
            assert publishes(uid, after.target, by_approving=verb == "approve"), (verb, uid, after.target)
        if before.fields is not None and after.fields is None:
            # Taking a bot from others is its owner's right, and that of who publishes it.
            assert uid == owner or publishes(uid, before.target, by_approving=False), (verb, uid)
        if bot.tester is not None and verb == "test":
            assert bot.tester != uid or publishes(uid, waiting(bot), by_approving=True)
        before = after
        consistent(bot)
    usable(bot, owner)


def waiting(bot: Bot) -> dict[str, Any]:
    return {"scope": bot.scope, "groups": bot.groups, "teams": bot.teams} | (bot.pending or {})


def consistent(bot: Bot) -> None:
    """What is true of every bot in every state."""
    assert bot.pending is None or (bot.state == "pending" and bot.scope != "personal")
    assert bot.tester is None or bot.state == "pending"
    assert bot.scope != "personal" or bot.state in ("draft", "approved")
    assert (bot.approved_at is not None) == (bot.is_live and bot.scope != "personal")
    assert (bot.scope == "groups") == bool(bot.groups)
    assert (bot.scope == "teams") == bool(bot.teams)


def usable(bot: Bot, owner: str) -> None:
    """The owner always talks to the bot; to what is not live, nobody else but the tester does."""
    assert access.may_use(bot, Actor("users", owner, ""), bot.instance_id).allowed == bot.is_active
    if not bot.is_live:
        for uid in {*UIDS} - {owner, bot.tester}:
            assert not access.may_use(bot, Actor("users", uid, ""), bot.instance_id).allowed
