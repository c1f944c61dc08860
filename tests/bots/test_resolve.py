from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask

from app.accounts.models import Instance
from app.bots import resolve, store
from app.bots.access import Why
from app.bots.resolve import Addressed
from app.infra import clock
from app.infra.db import transaction
from app.platforms.base import Actor, IncomingEvent, QuotedParent
from app.platforms.models import Registration
from tests.bots.conftest import bot, cloud

ADA = Actor("users", "ada", "Ada")
BOB = Actor("users", "bob", "Bob")


def register(name: str = "AI", *, instance: Instance | None = None, shared: bool = True) -> Registration:
    where = instance or cloud()
    url = f"https://parley.example.test/webhook/talk/{where.name}-{name}"
    with transaction() as session:
        made = Registration(
            instance_id=where.id,
            name=name,
            key=f"{where.name}-{name}",
            secret="sealed",
            webhook_url=url,
            actor_hash=hashlib.sha1(url.encode()).hexdigest(),
            shared=shared,
            created_at=clock.now(),
        )
        session.add(made)
    return made


def said(text: str, *, actor: Actor = ADA, parent: QuotedParent | None = None) -> IncomingEvent:
    return IncomingEvent("message", "room", "Room", actor, name="message", object_id="7", text=text, parent=parent)


def reply(registration: Registration, text: str, quoted: str = "The gate opens at nine.") -> IncomingEvent:
    author = Actor("bots", f"bot-{registration.actor_hash}", "AI (Bot)")
    return said(text, parent=QuotedParent(3, author, quoted))


def ask(
    event: IncomingEvent,
    registration: Registration,
    *,
    sent: dict[str, int] | None = None,
    spoke: int | None = None,
    always: int | None = None,
) -> Addressed:
    return resolve.addressed(
        event, registration, sent_by=(sent or {}).get, last_spoke=lambda: spoke, always=lambda: always
    )


def names(found: Addressed) -> list[str]:
    return [each.mention_name for each in found.bots]


def test_every_mentioned_bot_is_addressed_once_in_order(any_app: Flask) -> None:
    for mention in ("atlas", "atlas-dev", "muse"):
        bot(mention)
    found = ask(said("@muse and @atlas, or @MUSE? @nobody"), register())
    assert (names(found), found.how, found.unknown) == (["muse", "atlas"], "mention", ("nobody",))
    assert found.text_for(found.bots[0]) == "and @atlas, or? @nobody"


def test_without_a_mention_nobody_is_addressed(app: Flask) -> None:
    made = bot()
    found = ask(said("atlas, hello"), register(), spoke=made.id, sent={"atlas, hello": made.id})
    assert (found.bots, found.how, found.denied, found.unknown) == ((), "nobody", (), ())


def test_a_reply_goes_to_the_bot_that_said_the_quoted_text(app: Flask) -> None:
    atlas, muse = bot(), bot("muse")
    registration = register()
    found = ask(reply(registration, "thanks"), registration, sent={"The gate opens at nine.": muse.id}, spoke=atlas.id)
    assert (names(found), found.how, found.text_for(muse)) == (["muse"], "reply", "thanks")


def test_a_reply_to_an_unknown_text_goes_to_the_bot_that_spoke_last(app: Flask) -> None:
    atlas, _ = bot(), bot("muse")
    registration = register()
    assert names(ask(reply(registration, "thanks"), registration, spoke=atlas.id)) == ["atlas"]
    assert names(ask(reply(registration, "thanks"), registration)) == []


def test_a_reply_goes_to_the_only_bot_there_is(app: Flask) -> None:
    bot()
    registration = register()
    assert names(ask(reply(registration, "thanks"), registration)) == ["atlas"]


def test_a_reply_and_a_mention_of_the_same_bot_are_one(app: Flask) -> None:
    atlas, _ = bot(), bot("muse")
    registration = register()
    found = ask(reply(registration, "@atlas and on Sunday?"), registration, spoke=atlas.id)
    assert (names(found), found.text_for(atlas)) == (["atlas"], "and on Sunday?")


def test_the_bot_that_was_replied_to_comes_before_those_mentioned(app: Flask) -> None:
    atlas, _ = bot(), bot("muse")
    registration = register()
    found = ask(reply(registration, "@muse do you agree?"), registration, spoke=atlas.id)
    assert names(found) == ["atlas", "muse"]
    assert found.text_for(atlas) == "@muse do you agree?"


def test_names_in_the_quoted_text_address_nobody(app: Flask) -> None:
    bot()
    human = QuotedParent(3, BOB, "ask @atlas")
    assert names(ask(said("thanks", parent=human), register())) == []


@pytest.mark.parametrize("actor", ["users", "guests"])
def test_a_reply_can_not_be_abused_to_reach_a_bot_by_an_author_who_only_looks_like_it(app: Flask, actor: str) -> None:
    atlas, registration = bot(), register()
    author = Actor(actor, f"bot-{registration.actor_hash}", "AI (Bot)")
    event = said("hi", parent=QuotedParent(3, author, "x"))
    assert names(ask(event, registration, spoke=atlas.id, sent={"x": atlas.id})) == []


def test_a_reply_to_the_bot_of_another_registration_is_for_that_one(app: Flask) -> None:
    atlas, mine, other = bot(), register(), register("Other")
    assert names(ask(reply(other, "hi"), mine, spoke=atlas.id)) == []
    assert names(ask(reply(other, "hi"), other, spoke=atlas.id)) == ["atlas"]


def test_a_registration_of_its_own_carries_one_bot_and_the_shared_one_all_others(app: Flask) -> None:
    own = register("Muse", shared=False)
    bot(), bot("muse", registration_id=own.id)
    shared = register()
    both = said("@atlas @muse hi")
    assert (names(ask(both, shared)), ask(both, shared).elsewhere) == (["atlas"], ("muse",))
    assert (names(ask(both, own)), ask(both, own).elsewhere) == (["muse"], ("atlas",))
    assert ask(said("@muse hi"), shared).bots == ()
    assert ask(said("@muse hi"), shared).unknown == ()


def test_bots_of_another_server_are_unknown_names(app: Flask) -> None:
    bot(instance=cloud("other"))
    bot("muse")
    found = ask(said("@atlas hi"), register())
    assert (found.bots, found.unknown) == ((), ("atlas",))


def test_where_a_bot_responds_always_it_needs_no_mention(app: Flask) -> None:
    atlas, muse = bot(), bot("muse")
    found = ask(said("hello there"), register(), always=atlas.id)
    assert (names(found), found.how, found.text_for(atlas)) == (["atlas"], "always", "hello there")
    assert names(ask(said("@muse hi"), register("B"), always=atlas.id)) == ["muse"]
    assert names(ask(said("hello @nobody"), register("C"), always=muse.id)) == ["muse"]


def test_a_bot_that_responds_always_is_quiet_when_another_registration_is_called(app: Flask) -> None:
    own = register("Muse", shared=False)
    atlas, _ = bot(), bot("muse", registration_id=own.id)
    assert names(ask(said("@muse hi"), register(), always=atlas.id)) == []


def test_who_may_not_use_a_mentioned_bot_gets_the_reason(app: Flask) -> None:
    bot(scope="personal"), bot("muse")
    found = ask(said("@atlas @muse hi"), register())
    assert names(found) == ["muse"]
    assert [(each.mention_name, decision.reason) for each, decision in found.denied] == [("atlas", Why.PERSONAL)]
    assert names(ask(said("@atlas hi", actor=BOB), register("B"))) == ["atlas"]


def test_who_may_not_use_the_bot_that_responds_always_is_not_told_so(app: Flask) -> None:
    atlas = bot(scope="personal")
    found = ask(said("hello"), register(), always=atlas.id)
    assert (found.bots, found.denied, found.how) == ((), (), "always")
    assert [decision.reason for _, decision in found.withheld] == [Why.PERSONAL]


def test_guests_are_denied(app: Flask) -> None:
    bot()
    found = ask(said("@atlas hi", actor=Actor("guests", "7d0c", "")), register())
    assert (found.bots, found.denied[0][1].reason) == ((), Why.NOT_OPENED)


def test_the_rooms_are_asked_only_when_it_matters(app: Flask) -> None:
    bot(), bot("muse")

    def fail(*_: Any) -> int | None:
        raise AssertionError("asked without need")

    found = resolve.addressed(said("@atlas hi"), register(), sent_by=fail, last_spoke=fail, always=fail)
    assert names(found) == ["atlas"]


def test_a_bot_that_is_gone_is_addressed_by_nothing(app: Flask) -> None:
    atlas, _, _, registration = bot(), bot("muse"), bot("kelp"), register()
    store.remove(atlas.id)
    event = reply(registration, "@atlas thanks")
    found = ask(event, registration, sent={"The gate opens at nine.": atlas.id}, always=atlas.id)
    assert (found.bots, found.unknown) == ((), ("atlas",))
    assert ask(replace(event, parent=None, text="hi"), registration, always=atlas.id).bots == ()
