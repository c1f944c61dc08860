from __future__ import annotations

from flask import Flask

from app.accounts import instances, people
from app.bots import access, guide, store
from app.conversations import store as conversations
from app.platforms.base import Actor
from app.platforms.sandbox import server


def test_the_guide_is_there_for_everybody_in_the_sandbox(any_app: Flask) -> None:
    server.ensure("http://127.0.0.1:8000")
    made = guide.ensure_guide()
    sandbox = instances.by_name(instances.SANDBOX)
    assert sandbox is not None
    admin = people.first_admin(sandbox.id)
    assert admin is not None
    assert (made.mention_name, made.scope, made.instance_id, made.owner_id) == ("guide", "global", sandbox.id, admin.id)
    assert made.onboarding is None
    assert store.tools_of([made.id])[made.id] == ("room_search_messages", "current_time")
    assert access.may_use(made, Actor("users", "ada", "Ada"), sandbox.id).allowed


def test_it_remembers_the_welcome_once(app: Flask) -> None:
    made = guide.ensure_guide()
    assert guide.ensure_guide().id == made.id
    known = conversations.history(made.id, made.instance_id, server.ROOM, 0)
    assert 6 <= len(known) <= 10
    assert [message.speaker for message in known][:2] == ["Ada", "Guide"]
    assert not any(message.text.startswith("@") for message in known)
    found = conversations.search(made.id, made.instance_id, server.ROOM, "What is Parley?")
    assert found
    assert "Parley" in found[0].text


def test_what_was_changed_about_it_stays(app: Flask) -> None:
    made = guide.ensure_guide()
    store.update(made.id, {"name": "My guide", "system_prompt": "Other."})
    assert guide.ensure_guide().name == "My guide"
