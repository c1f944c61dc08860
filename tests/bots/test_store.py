from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select

from app.bots import notices, store
from app.bots.models import Bot, BotTool
from app.conversations import store as conversations
from app.infra import changes, clock
from app.infra.db import Base, reading, transaction
from app.infra.errors import BadInput, Conflict, NotFound
from app.rooms.models import Answer, Part, RoomBot
from app.rooms.onboarding import rounds
from app.rooms.onboarding.rounds import Spot
from app.settings import endpoints
from app.settings import store as settings
from app.traces.models import TurnTrace
from app.usage.models import UsageCall, UsageDay
from tests.bots.conftest import bot, cloud, person_id
from tests.bots.test_resolve import register


def test_a_bot_is_found_by_every_spelling_of_its_name(any_app: Flask) -> None:
    made = bot("Åtlas")
    for spelling in ("Åtlas", "@åtlas", "A\u030aTLAS", "Åｔlas"):
        found = store.by_mention(cloud().id, spelling)
        assert found is not None
        assert found.id == made.id
    assert store.by_mention(cloud().id, "Atlas") is None
    assert store.by_mention(cloud("other").id, "Åtlas") is None


def test_two_bots_of_a_server_can_not_have_one_name(any_app: Flask) -> None:
    bot()
    for spelling in ("atlas", "ATLAS", "ａtlas"):
        with pytest.raises(Conflict) as error:
            bot(spelling)
        assert set(error.value.fields) == {"mention_name"}
    assert bot(instance=cloud("other")).mention_name == "atlas"
    assert bot("muse").mention_name == "muse"


def test_the_mention_name_never_changes(app: Flask) -> None:
    made = bot()
    assert store.update(made.id, {"mention_name": "@atlas", "name": "New"}).name == "New"
    with pytest.raises(BadInput):
        store.update(made.id, {"mention_name": "muse"})


def test_what_is_left_out_of_a_change_stays(app: Flask) -> None:
    made = bot(description="Berths", temperature=0.5, tools=["b", "a"], limits={"seconds": 60})
    changed = store.update(made.id, {"name": "New"})
    assert (changed.description, changed.temperature, changed.limits) == ("Berths", 0.5, {"seconds": 60})
    assert store.tools_of([made.id]) == {made.id: ("b", "a")}
    cleared = store.update(made.id, {"description": None, "temperature": None, "tools": ["c"], "model": ""})
    assert (cleared.description, cleared.temperature, cleared.model) == (None, None, None)
    assert store.tools_of([made.id, 999]) == {made.id: ("c",), 999: ()}


def test_a_model_that_bots_may_not_use_is_refused(app: Flask) -> None:
    endpoints.save("primary", url="http://127.0.0.1:9/v1", model="main")
    made = bot(model="primary:big")
    settings.set("allowed_models", ["primary:small"])
    for attempt in (lambda: bot("muse", model="primary:big"), lambda: store.update(made.id, {"model": "primary:x"})):
        with pytest.raises(BadInput) as error:
            attempt()
        assert set(error.value.fields) == {"model"}
    # What it has already stands in the way of no other change.
    assert store.update(made.id, {"model": "primary:big", "name": "New"}).name == "New"
    assert store.update(made.id, {"model": "primary:small"}).model == "primary:small"
    settings.set("allow_multiple_models", False)
    with pytest.raises(BadInput, match="default model"):
        bot("muse", model="primary:small")
    assert bot("muse", model="primary:main").model == "primary:main"
    assert store.update(made.id, {"model": None}).model is None


def test_a_wrong_field_changes_nothing(app: Flask) -> None:
    made = bot(tools=["a"])
    with pytest.raises(BadInput):
        store.update(made.id, {"name": "New", "tools": [], "temperature": 9})
    kept = store.get(made.id)
    assert kept is not None
    assert (kept.name, store.tools_of([made.id])[made.id]) == ("Atlas", ("a",))


def test_tools_are_checked_where_the_known_ones_are_given(app: Flask) -> None:
    values = {"name": "A", "mention_name": "a", "system_prompt": "x", "tools": ["current_time", "nothing"]}
    with pytest.raises(BadInput) as error:
        store.create(cloud().id, person_id(cloud(), "bob"), values, tools={"current_time": 1})
    assert "nothing" in error.value.fields["tools"]
    assert "current_time" in error.value.fields["tools"]


def test_groups_belong_to_the_scope_groups(app: Flask) -> None:
    made = bot(scope="groups", groups=["crew"], teams=["t"])
    assert (made.groups, made.teams) == (["crew"], [])
    assert store.update(made.id, {"scope": "global"}).groups == []
    with pytest.raises(BadInput) as error:
        store.update(made.id, {"scope": "teams"})
    assert set(error.value.fields) == {"teams"}


def test_a_bot_belongs_to_a_person_and_a_registration_of_its_server(app: Flask) -> None:
    elsewhere = cloud("other")
    values = {"name": "A", "mention_name": "a", "system_prompt": "x"}
    for owner in (person_id(elsewhere, "bob"), 999_999):
        with pytest.raises(NotFound):
            store.create(cloud().id, owner, values)
    with pytest.raises(BadInput):
        bot(registration_id=register(instance=elsewhere).id)
    with pytest.raises(BadInput):
        bot(registration_id=999_999)
    assert bot(registration_id=register().id).registration_id


def test_bots_are_listed_in_pages_and_by_words(any_app: Flask) -> None:
    for name in ("cc", "aa", "bb"):
        bot(name, description="100% sure" if name == "bb" else None)
    bot("dd", owner="ada")
    bot("aa", instance=cloud("other"))
    page = store.listed(cloud().id, limit=2)
    assert ([each.mention_name for each in page.bots], page.total) == (["aa", "bb"], 4)
    assert [each.mention_name for each in store.listed(cloud().id, offset=2).bots] == ["cc", "dd"]
    assert store.listed(cloud().id, owner_id=person_id(cloud(), "ada")).total == 1
    assert [each.mention_name for each in store.listed(cloud().id, words="0%").bots] == ["bb"]
    assert store.listed(cloud().id, words="AA").total == 1
    assert store.listed(cloud().id, words="_").total == 0
    assert store.listed(cloud().id, words="a\x00'; --").total == 0


def test_what_changed_is_told_without_the_prompt(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[changes.Change] = []
    monkeypatch.setattr(changes, "_subscribers", [told.append])
    made = bot(system_prompt="a secret plan")
    store.update(made.id, {"name": "New"})
    store.remove(made.id)
    assert [(each.kind, each.doctype, each.id) for each in told] == [
        (kind, "bot", str(made.id)) for kind in ("created", "updated", "deleted")
    ]
    assert "secret plan" not in repr(told)


def test_a_removed_bot_leaves_nothing_in_any_table(any_app: Flask) -> None:
    gone, stays = bot(tools=["a"]), bot("muse", tools=["a"])
    for each in (gone, stays):
        use(each)
    store.remove(gone.id)
    for table in Base.metadata.sorted_tables:
        column = table.columns.get("bot_id")
        if column is not None and table.name not in store.SUMS:
            with reading() as session:
                assert session.scalar(select(func.count()).select_from(table).where(column == gone.id)) == 0, table.name
                assert session.scalar(select(func.count()).select_from(table).where(column == stays.id)), table.name
    assert store.get(gone.id) is None
    with pytest.raises(NotFound):
        store.remove(gone.id)


def test_a_trace_and_the_sums_of_a_removed_bot_stay_without_it(app: Flask) -> None:
    made = bot()
    use(made)
    store.remove(made.id)
    with reading() as session:
        assert session.scalars(select(TurnTrace.bot_id)).one() is None
        assert session.scalars(select(UsageCall.bot_id)).one() is None
        assert session.scalars(select(UsageDay.prompt_tokens)).one() == 5


def test_the_number_of_a_removed_bot_is_never_given_again(any_app: Flask) -> None:
    first = bot()
    store.remove(first.id)
    assert bot().id > first.id


def test_nothing_is_said_by_a_bot_that_is_gone(any_app: Flask) -> None:
    made = bot()
    store.remove(made.id)
    with pytest.raises(NotFound):
        conversations.say_bot(made.id, made.instance_id, "room", 0, mention_name="atlas", speaker="Atlas", text="Hi")


def test_tools_of_a_removed_bot_are_gone_and_a_tool_without_a_provider_stays(app: Flask) -> None:
    made = bot(tools=["gone_tool"])
    assert store.tools_of([made.id])[made.id] == ("gone_tool",)
    store.remove(made.id)
    with reading() as session:
        assert session.scalars(select(BotTool)).all() == []
        assert session.scalars(select(Bot)).all() == []


def use(made: Bot) -> None:
    """Rows of every package that remembers a bot."""
    where: dict[str, Any] = {"instance_id": made.instance_id, "room": "room"}
    now = clock.now()
    conversations.say_user(made.id, made.instance_id, "room", 0, actor="users/ada", speaker="Ada", text="Hi")
    notices.first_today(made.id, "users/ada")
    rounds.begin(Spot(made.instance_id, "room", 0, made.id), "q", actor="users/ada", delivery_id=made.id)
    with transaction() as session:
        answer = Answer(delivery_id=made.id, bot_id=made.id, created_at=now)
        session.add(answer)
        session.flush()
        part = {"answer_id": answer.id, "sequence": 0, "registration_id": 1, "text": "x", "text_digest": "x"}
        session.add(Part(**where, **part, bot_id=made.id, reference_id=str(made.id), created_at=now))
        session.add(RoomBot(**where, bot_id=made.id, updated_at=now))
        session.add(TurnTrace(**where, bot_id=made.id, bot_name=made.name, started_at=now))
        spent = {"instance_id": made.instance_id, "bot_id": made.id, "endpoint": "e", "model": "m", "prompt_tokens": 5}
        session.add(UsageCall(**spent, at=now))
        session.add(UsageDay(**spent, day=now.date()))
