"""The one promise of the review: what others meet changes only by somebody who may publish it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bots import access, store
from app.bots.models import Bot
from app.bots.review import decide, edit, version
from app.infra.errors import ParleyError
from app.platforms.base import Actor
from tests.bots.review.conftest import ANSWERS, PEOPLE, harbour, made, who

UIDS = ("ada", "bob", "carol", "gina", "hugo", "tess")
TARGETS: tuple[dict[str, Any], ...] = (
    {"scope": "personal"},
    {"scope": "global"},
    {"scope": "groups", "groups": ["crew"]},
    {"scope": "groups", "groups": ["deck"]},
    {"scope": "groups", "groups": ["crew", "deck"]},
    {"scope": "teams", "teams": ["t1"]},
    {"scope": "teams", "teams": ["t1", "t2"]},
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["One", "Two"]),
        "system_prompt": st.sampled_from(["Be kind.", "Be brief."]),
        "model": st.sampled_from([None, "primary:m"]),
        "description": st.sampled_from([None, "Berths"]),
        "tools": st.sampled_from([[], ["a"], ["a", "b"]]),
        "state": st.sampled_from(["draft", "approved"]),
        "is_active": st.booleans(),
    },
)
ACTS = st.one_of(
    st.tuples(
        st.just("change"), st.sampled_from(UIDS), st.builds(lambda a, b: a | b, VALUES, st.sampled_from(TARGETS))
    ),
    st.tuples(st.just("change"), st.sampled_from(UIDS), VALUES),
    *(st.tuples(st.just(verb), st.sampled_from(UIDS), st.just({})) for verb in ("submit", "approve", "reject", "test")),
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


def act(verb: str, uid: str, bot: Bot, values: dict[str, Any]) -> None:
    with suppress(ParleyError):
        if verb == "change":
            edit.change(who(uid), bot, values)
        elif verb == "submit":
            decide.submit(who(uid), bot, ANSWERS)
        elif verb == "approve":
            decide.approve(who(uid), bot)
        elif verb == "reject":
            decide.reject(who(uid), bot, "no")
        else:
            decide.test(who(uid), bot)


@given(
    owner=st.sampled_from(UIDS),
    target=st.sampled_from(TARGETS),
    acts=st.lists(ACTS, min_size=3, max_size=14),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_live_version_changes_only_by_somebody_who_may_publish_it(
    app: Flask, owner: str, target: dict[str, Any], acts: list[tuple[str, str, dict[str, Any]]]
) -> None:
    harbour()
    bot = made(f"b{next(NUMBERS)}", owner=owner, **target)
    assert live(bot).fields is None or publishes(owner, target, by_approving=False)
    for verb, uid, values in acts:
        before = live(bot)
        act(verb, uid, bot, values)
        found = store.get(bot.id)
        assert found is not None
        bot, after = found, live(found)
        if after.fields is not None and after.fields != before.fields:
            assert verb in ("change", "approve"), (verb, uid)
            assert publishes(uid, after.target, by_approving=verb == "approve"), (verb, uid, after.target)
        if before.fields is not None and after.fields is None:
            # Taking a bot from others is its owner's right, and that of who publishes it.
            assert uid == owner or publishes(uid, before.target, by_approving=False), (verb, uid)
        holds(bot, owner)


def holds(bot: Bot, owner: str) -> None:
    """What is true of every bot in every state."""
    assert bot.pending is None or (bot.state == "pending" and bot.scope != "personal")
    assert bot.tester is None or bot.state == "pending"
    assert bot.scope != "personal" or bot.state in ("draft", "approved")
    assert (bot.approved_at is not None) == (bot.is_live and bot.scope != "personal")
    assert (bot.scope == "groups") == bool(bot.groups)
    assert (bot.scope == "teams") == bool(bot.teams)
    assert access.may_use(bot, Actor("users", owner, ""), bot.instance_id).allowed == bot.is_active
    if not bot.is_live:
        for uid in {*UIDS} - {owner, bot.tester}:
            assert not access.may_use(bot, Actor("users", uid, ""), bot.instance_id).allowed
