"""What is kept of rounds, on each of the three databases, and what happens to it when several work at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import func, select, update

from app.agent.prompt import Told
from app.inbox import claim
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import reading, transaction
from app.rooms.onboarding import asking, rounds, silence
from app.rooms.onboarding.models import Round
from app.rooms.onboarding.rounds import Overtaken, Spot
from tests.conftest import Sent
from tests.fakes.house import ROOM, House, built
from tests.rooms.onboarding.conftest import BOB, QUESTIONS, answers, ends, look_after, round_of, told

OSLO = {"question": "Where?", "answer": "Oslo", "own_words": False, "actor": "users/mira", "message_id": 7}


@pytest.fixture
def harbour(any_app: Flask, sent: Sent) -> Iterator[House]:
    with built(any_app, sent) as made:
        made.bot("atlas", onboarding=QUESTIONS)
        yield made


def spot(house: House, *, thread: int = 0, room: str = ROOM) -> Spot:
    return Spot(house.instance.id, room, thread, house.bots["atlas"].id)


def begun(house: House, *, delivery_id: int = 1, **where: object) -> Round:
    rounds.begin(spot(house, **where), "where", actor="users/mira", delivery_id=delivery_id)  # type: ignore[arg-type]
    found = rounds.find(spot(house, **where))  # type: ignore[arg-type]
    assert found is not None
    return found


def waiting(house: House) -> Delivery:
    return told(house, "@atlas which berth is free?")


def test_a_whole_round_on_each_database(harbour: House) -> None:
    waiting(harbour)
    for text in ("hm", "A", "Mermaid Åse 😀"):
        told(harbour, text)
    assert ends(harbour) == [("done", "answered"), *[("done", "onboarding")] * 3]
    assert answers(harbour) == ["Oslo", "Mermaid Åse 😀"]
    assert 'Which boat is yours? -> "Mermaid Åse 😀"' in harbour.asked()["messages"][0]["content"]
    [state] = rounds.states(harbour.instance.id, ROOM)
    assert (state.bot_id, state.thread, state.state, state.actor) == (spot(harbour).bot_id, 0, "done", "users/mira")
    assert (state.asked, state.answered) == ("boat", 2)
    assert "Mermaid" not in repr(state)
    assert rounds.states(harbour.instance.id, "an0ther1") == []


def test_of_many_who_begin_at_once_one_does(harbour: House) -> None:
    start, failures = threading.Barrier(6), []

    def begin(number: int) -> None:
        try:
            with harbour.app.app_context():
                start.wait(20)
                rounds.begin(spot(harbour), "where", actor=f"users/p{number}", delivery_id=number + 1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    with reading() as session:
        assert session.scalar(select(func.count()).select_from(Round)) == 1
    row = round_of(harbour)
    assert row.actor == f"users/p{(row.delivery_id or 0) - 1}"


def test_a_step_that_was_overtaken_changes_nothing(harbour: House) -> None:
    seen = begun(harbour)
    rounds.ask(seen, "boat", answer=OSLO)
    for step in (
        lambda: rounds.ask(seen, "where"),
        lambda: rounds.ask(seen, "boat", answer=OSLO),
        lambda: rounds.end(seen, "done", answer=OSLO),
    ):
        with pytest.raises(Overtaken):
            step()
    now = round_of(harbour)
    assert (now.state, now.question_id, now.steps, answers(harbour)) == ("asking", "boat", 1, ["Oslo"])
    rounds.end(now, "done")
    with pytest.raises(Overtaken):
        rounds.end(now, "expired")
    assert round_of(harbour).state == "done"


def test_of_an_answer_and_the_end_of_the_time_that_cross_one_holds(harbour: House) -> None:
    seen = begun(harbour, delivery_id=0)
    start, won = threading.Barrier(2), []

    def step(name: str, run: object) -> None:
        with harbour.app.app_context():
            start.wait(20)
            try:
                run()  # type: ignore[operator]
                won.append(name)
            except Overtaken:
                pass

    threads = [
        threading.Thread(target=step, args=("answer", lambda: rounds.ask(seen, "boat", answer=OSLO))),
        threading.Thread(target=step, args=("time", lambda: rounds.end(seen, "expired"))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(won) == 1
    assert round_of(harbour).state == ("asking" if won == ["answer"] else "expired")


def test_a_question_asked_again_keeps_what_was_answered(harbour: House) -> None:
    rounds.ask(begun(harbour), "boat", answer=OSLO)
    rounds.ask(round_of(harbour), "boat")
    assert (round_of(harbour).misses, answers(harbour)) == (1, ["Oslo"])
    assert rounds.told(spot(harbour)) == (Told("Where?", "Oslo", own_words=False),)


def test_beginning_anew_takes_the_place_and_lets_go_on_what_waited(harbour: House) -> None:
    first = waiting(harbour)
    rounds.ask(round_of(harbour), "boat", answer=OSLO)
    rounds.begin_anew(spot(harbour), "where", actor="users/bob")
    row = round_of(harbour)
    assert (row.actor, row.delivery_id, row.question_id, row.answers, row.steps) == ("users/bob", None, "where", [], 2)
    assert harbour.last().state == "queued"
    harbour.work()
    assert ends(harbour) == [("done", "answered")]
    assert (round_of(harbour).state, first.id) == ("asking", harbour.last().id)
    rounds.begin_anew(spot(harbour, thread=9), "where", actor="users/bob")
    assert round_of(harbour, thread=9).actor == "users/bob"


def test_forgetting_is_for_one_bot_in_every_thread_of_one_room(harbour: House) -> None:
    muse = harbour.bot("muse", onboarding=QUESTIONS)
    waiting(harbour)
    begun(harbour, thread=9)
    begun(harbour, room="an0ther1")
    rounds.begin(Spot(harbour.instance.id, ROOM, 0, muse.id), "where", actor="users/bob", delivery_id=99)
    assert asking.forget(harbour.instance.id, ROOM, harbour.bots["atlas"].id) == 2
    assert [state.bot_id for state in rounds.states(harbour.instance.id, ROOM)] == [muse.id]
    assert len(rounds.states(harbour.instance.id, "an0ther1")) == 1
    harbour.work()
    assert ends(harbour) == [("done", "answered")]
    assert len(harbour.talk.posts) == 2
    # It asks again, but not about what was answered without it.
    told(harbour, "@atlas hello", **BOB)
    assert "Where is your berth?" in harbour.talk.texts[2]


def test_what_waits_without_a_round_is_found_and_answered(harbour: House) -> None:
    waiting(harbour)
    with transaction() as session:
        session.execute(Round.__table__.delete())  # type: ignore[attr-defined]
    look_after(harbour)
    assert ends(harbour) == [("done", "answered")]


def test_a_round_whose_message_ended_without_it_ends_in_time(harbour: House) -> None:
    first = waiting(harbour)
    with transaction() as session:
        session.execute(update(Delivery).where(Delivery.id == first.id).values(state="dead"))
        session.execute(update(Round).values(asked_at=clock.now() - timedelta(minutes=9)))
    silence.go_on()
    assert round_of(harbour).state == "asking"
    told(harbour, "A")
    told(harbour, "none")
    assert harbour.talk.texts[-1] == "Thank you, I will keep that in mind."
    begun(harbour, thread=9, delivery_id=4711)
    with transaction() as session:
        session.execute(update(Round).where(Round.thread == 9).values(asked_at=clock.now() - timedelta(minutes=11)))
    silence.go_on()
    assert round_of(harbour, thread=9).state == "expired"


def test_what_is_being_worked_on_ends_its_round_itself(harbour: House) -> None:
    waiting(harbour)
    with transaction() as session:
        session.execute(update(Delivery).values(state="claimed"))
        session.execute(update(Round).values(asked_at=clock.now() - timedelta(minutes=11)))
    silence.go_on()
    assert (round_of(harbour).state, harbour.last().state) == ("asking", "claimed")


def test_what_does_not_wait_is_neither_woken_nor_dropped(harbour: House) -> None:
    told(harbour, "@atlas skip me", **BOB)
    told(harbour, "skip", **BOB)
    done = harbour.deliveries()[0]
    assert not claim.wake(done.id, rounds.Reason.ONBOARDING)
    assert not claim.drop(done.id, rounds.Reason.BOT_GONE)
    assert harbour.deliveries()[0].state == "done"


def test_answers_whose_time_is_over_are_neither_told_nor_kept(harbour: House) -> None:
    rounds.end(begun(harbour), "done", answer=OSLO)
    with transaction() as session:
        session.execute(update(Round).values(expires_at=clock.now() - timedelta(seconds=1)))
    assert rounds.told(spot(harbour)) == ()
    rounds.purge()
    row = round_of(harbour)
    assert (row.state, row.answers, row.expires_at) == ("done", [], None)


def test_only_answers_whose_message_is_gone_are_unsaid(harbour: House) -> None:
    rounds.ask(begun(harbour), "boat", answer=OSLO)
    rounds.end(round_of(harbour), "done", answer={**OSLO, "answer": "Mermaid", "message_id": 8})
    lately, later = clock.now() - timedelta(hours=1), clock.now() + timedelta(seconds=5)
    rounds.unsay(harbour.instance.id, ROOM, since=later, gone=lambda *_: True)
    rounds.unsay(harbour.instance.id, "an0ther1", since=lately, gone=lambda *_: True)
    assert answers(harbour) == ["Oslo", "Mermaid"]
    rounds.unsay(harbour.instance.id, ROOM, since=lately, gone=lambda _, id: id == 7)
    assert answers(harbour) == ["Mermaid"]
