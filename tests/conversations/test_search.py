from __future__ import annotations

from datetime import timedelta

import pytest
from flask import Flask

from app.bots.models import Bot
from app.conversations import search as searching
from tests.bots.conftest import bot, cloud
from tests.conversations.conftest import Time, answer, ask, search


def test_more_words_come_first_then_the_newest(atlas: Bot) -> None:
    ask(atlas, "budget one"), ask(atlas, "the crane and the budget"), ask(atlas, "budget two"), ask(atlas, "hello")
    assert search(atlas, "What about the crane's budget?") == ["the crane and the budget", "budget two", "budget one"]
    assert search(atlas, "crane budget", limit=1) == ["the crane and the budget"]


def test_letters_of_every_script_are_folded(atlas: Bot) -> None:
    for text in ("Ärger am Kai", "ЯКОРЬ поднят", "ΛΙΜΆΝΙ", "空いている係留場所", "ÉLÈVES", "Straße"):
        ask(atlas, text)
    for query, text in (("ärger", "Ärger am Kai"), ("якорь", "ЯКОРЬ поднят"), ("λιμάνι", "ΛΙΜΆΝΙ"),
                        ("係留場所", "空いている係留場所"), ("eleves", "ÉLÈVES"), ("STRASSE", "Straße")):  # fmt: skip
        assert search(atlas, query) == [text]


@pytest.mark.parametrize(
    "query", ["%", "_", "%%%", "100%", "a_b", "\\", "/", "'; DROP TABLE parley_bots; --", '"', "\x00", "\ud800"]
)
def test_a_query_can_not_be_abused_to_match_everything(atlas: Bot, query: str) -> None:
    ask(atlas, "plain"), ask(atlas, "100 percent"), ask(atlas, "a_b")
    found = search(atlas, query)
    if query in ("100%", "a_b"):
        assert found == ["100 percent" if query == "100%" else "a_b"]
    elif any(character.isalnum() or character == "_" for character in query):
        assert found == []
    else:
        assert found == ["a_b", "100 percent", "plain"]


def test_a_query_without_words_gives_the_newest(atlas: Bot) -> None:
    ask(atlas, "one"), ask(atlas, "two")
    assert search(atlas, "", limit=1) == ["two"]
    assert search(atlas, "?") == ["two", "one"]


def test_speakers_are_found_by_part_of_their_name_or_their_id(atlas: Bot) -> None:
    ask(atlas, "budget by ada"), ask(atlas, "budget by asa", who="åsa berg"), answer(atlas, "budget by bot")
    for name, text in (("ADA", "budget by ada"), ("@ada", "budget by ada"), ("asa", "budget by asa"),
                       ('@"Åsa Berg"', "budget by asa"), ("Atlas", "budget by bot")):  # fmt: skip
        assert search(atlas, "budget", from_name=name) == [text]
    assert search(atlas, "budget", from_name="carol") == []
    assert len(search(atlas, "budget", from_name=" ")) == 3
    assert search(atlas, "budget", from_name="%") == []


def test_a_span_of_time_is_searched_with_both_its_ends(atlas: Bot, time: Time) -> None:
    begun = time.moment
    for number in range(3):
        ask(atlas, f"budget {number}")
        time.pass_(days=1)
    assert search(atlas, "budget", since=begun + timedelta(days=1)) == ["budget 2", "budget 1"]
    assert search(atlas, "budget", until=begun + timedelta(days=1)) == ["budget 1", "budget 0"]


def test_all_threads_of_the_room_and_nothing_else_is_searched(atlas: Bot) -> None:
    ask(atlas, "budget here"), ask(atlas, "budget in a thread", thread=7)
    ask(atlas, "budget elsewhere", room="other"), ask(bot("muse"), "budget of muse")
    ask(bot(instance=cloud("other")), "budget of another server")
    assert search(atlas, "budget") == ["budget in a thread", "budget here"]


def test_what_may_not_be_read_is_not_found_and_takes_no_place(atlas: Bot) -> None:
    ask(atlas, "budget question")
    for number in range(3):
        answer(atlas, f"budget {number}", sources=(("bot:1", str(number)),))
    assert search(atlas, "budget", limit=2, may_read=lambda _, node: node == "0") == ["budget 0", "budget question"]


def test_the_question_does_not_find_itself(atlas: Bot) -> None:
    ask(atlas, "budget before", delivery=1), ask(atlas, "what about the budget?", delivery=2)
    assert search(atlas, "budget", without_delivery=2) == ["budget before"]


def test_a_room_with_very_many_hits_is_searched_from_its_newest(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_CANDIDATES", 3)
    monkeypatch.setattr(searching, "BATCH", 2)
    atlas = bot()
    for number in range(6):
        ask(atlas, f"budget {number}")
    assert search(atlas, "budget") == ["budget 5", "budget 4", "budget 3"]
