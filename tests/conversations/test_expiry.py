from __future__ import annotations

from app.bots.models import Bot
from app.conversations import expiry, tasks
from tests.conversations.conftest import ROOM, Time, ask, history, row, search


def test_messages_of_a_room_that_expires_are_told_only_as_long_as_it_says(atlas: Bot, time: Time) -> None:
    ask(atlas, "before")
    expiry.set_expiration(atlas.instance_id, ROOM, 3600)
    ask(atlas, "budget"), ask(atlas, "elsewhere", room="other")
    time.pass_(seconds=3599)
    assert (history(atlas), search(atlas, "budget")) == (["before", "budget"], ["budget"])
    time.pass_(seconds=1)
    assert (history(atlas), search(atlas, "budget")) == (["before"], [])
    assert history(atlas, room="other") == ["elsewhere"]


def test_what_has_expired_is_deleted(atlas: Bot, time: Time) -> None:
    expiry.set_expiration(atlas.instance_id, ROOM, 60)
    id = ask(atlas, "gone")
    assert row(id) is not None
    time.pass_(seconds=61)
    tasks.purge()
    assert row(id) is None


def test_another_setting_counts_for_what_is_said_after_it(atlas: Bot, time: Time) -> None:
    expiry.set_expiration(atlas.instance_id, ROOM, 60)
    ask(atlas, "short")
    expiry.set_expiration(atlas.instance_id, ROOM, 10**30)
    ask(atlas, "long")
    expiry.set_expiration(atlas.instance_id, ROOM, 0)
    ask(atlas, "for ever")
    time.pass_(seconds=61)
    assert history(atlas) == ["long", "for ever"]
