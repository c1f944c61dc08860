from __future__ import annotations

from app.bots.models import Bot
from app.conversations import store
from tests.bots.conftest import bot, cloud
from tests.conversations.conftest import Time, answer, ask, history


def test_it_is_ordered_by_what_was_stored_first_not_by_the_clock(atlas: Bot, time: Time) -> None:
    ask(atlas, "one")
    time.pass_(hours=-1)
    answer(atlas, "two")
    ask(atlas, "three")
    assert history(atlas) == ["one", "two", "three"]


def test_the_newest_are_kept_when_there_are_more_than_wanted(atlas: Bot) -> None:
    for number in range(60):
        ask(atlas, str(number))
    assert history(atlas) == [str(number) for number in range(10, 60)]
    assert history(atlas, limit=2) == ["58", "59"]


def test_bots_servers_rooms_and_threads_do_not_hear_each_other(atlas: Bot) -> None:
    muse, other = bot("muse"), bot(instance=cloud("other"))
    ask(atlas, "mine"), ask(muse, "to muse"), ask(other, "to the other server")
    ask(atlas, "other room", room="room2"), ask(atlas, "thread", thread=5)
    assert history(atlas) == ["mine"]
    assert history(atlas, thread=5) == ["thread"]
    assert store.history(atlas.id, other.instance_id, "room", 0) == []


def test_who_spoke_and_what_was_quoted_is_known(atlas: Bot) -> None:
    ask(atlas, "hi", who="bob")
    [message] = store.history(atlas.id, atlas.instance_id, "room", 0)
    assert (message.actor, message.speaker, message.created_at.tzinfo is not None) == ("users/bob", "Bob", True)


def test_a_message_that_may_not_be_read_is_left_out_with_its_pair(atlas: Bot) -> None:
    ask(atlas, "open question", delivery=1), answer(atlas, "open answer", delivery=1, sources=(("bot:1", "a"),))
    ask(atlas, "secret question", delivery=2)
    ask(atlas, "between", who="bob", delivery=3)
    answer(atlas, "secret answer", delivery=2, sources=(("bot:1", "a"), ("bot:1", "b")))
    answer(atlas, "to bob", delivery=3)
    ask(atlas, "old question"), answer(atlas, "old secret", sources=(("bot:1", "b"),)), ask(atlas, "last")
    shown = history(atlas, may_read=lambda collection, node: (collection, node) == ("bot:1", "a"))
    assert shown == ["open question", "open answer", "between", "to bob", "last"]
    assert len(history(atlas)) == 9


def test_the_message_that_is_answered_is_not_its_own_history(atlas: Bot) -> None:
    ask(atlas, "before", delivery=1), ask(atlas, "now", delivery=2), ask(atlas, "without")
    assert history(atlas, without_delivery=2) == ["before", "without"]


def test_nothing_older_than_the_clearing_of_a_room_is_told(atlas: Bot, time: Time) -> None:
    ask(atlas, "old")
    time.pass_(seconds=5)
    ask(atlas, "new")
    assert history(atlas, since=time.moment) == ["new"]


def test_a_thread_that_no_message_can_have_is_the_room_itself(atlas: Bot) -> None:
    ask(atlas, "hi", thread=2**80), ask(atlas, "ho", thread=-1)
    assert history(atlas) == history(atlas, thread=2**80) == ["hi", "ho"]
