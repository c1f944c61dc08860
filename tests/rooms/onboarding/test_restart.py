from __future__ import annotations

import pytest

from app.inbox.reasons import Reason
from app.rooms import answer
from app.rooms.onboarding import asking
from app.rooms.parts import Said
from app.rooms.thinking.question import Question
from tests.fakes.house import House
from tests.rooms.conftest import Clock
from tests.rooms.onboarding.conftest import BOB, CAROL, answers, ends, look_after, round_of, told
from tests.rooms.onboarding.test_asking import FIRST, SECOND

ANEW = FIRST.replace("Before I answer, please tell me:", "Please tell me:")
THANKS = "Thank you, I will keep that in mind."


@pytest.fixture(autouse=True)
def setup_is_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def carried_out(question: Question) -> Said | None:
        if question.text != "setup":
            return None
        return asking.restart(question) or Said("I ask nothing.", Reason.COMMAND)

    monkeypatch.setattr(answer.orders, "carried_out", carried_out)


def test_setup_asks_anew_and_says_thank_you_at_the_end(house: House) -> None:
    for text in ("@atlas which berth is free?", "B"):
        told(house, text)
    assert told(house, "@atlas setup", id=1888).reason == "onboarding"
    assert (house.talk.posts[-1].text, house.talk.posts[-1].reply_to) == (ANEW, 1888)
    assert (answers(house), round_of(house).delivery_id) == ([], None)
    told(house, "A")
    told(house, "the Mermaid")
    assert house.talk.texts[2:] == [ANEW, SECOND, THANKS]
    assert answers(house) == ["Oslo", "the Mermaid"]
    assert len(house.model.chats) == 1
    assert told(house, "@atlas hello").reason == "answered"


def test_setup_may_come_before_anything_else(house: House) -> None:
    told(house, "@atlas setup")
    told(house, "skip")
    assert house.talk.texts == [ANEW, THANKS]
    assert round_of(house).state == "skipped"


def test_setup_while_it_asks_lets_go_on_what_waited_which_is_no_answer(house: House) -> None:
    told(house, "@atlas A")
    told(house, "@atlas setup")
    assert house.talk.texts == [FIRST, ANEW, "ok"]
    assert ends(house) == [("done", "answered"), ("done", "onboarding")]
    assert (round_of(house).state, answers(house)) == ("asking", [])
    told(house, "B")
    assert answers(house) == ["Bergen"]


def test_setup_of_somebody_else_asks_them(house: House) -> None:
    told(house, "@atlas which berth is free?")
    told(house, "@atlas setup", **BOB)
    assert told(house, "A").reason == "unmentioned"
    assert told(house, "A", **BOB).reason == "onboarding"
    assert told(house, "skip", **CAROL).reason == "onboarding"
    assert [each["actor"] for each in round_of(house).answers] == ["users/bob"]


def test_nobody_answers_setup(house: House, time_machine: Clock) -> None:
    told(house, "@atlas setup")
    time_machine.pass_(601)
    look_after(house)
    assert round_of(house).state == "expired"
    assert house.talk.texts == [ANEW]
    assert told(house, "@atlas hello").reason == "answered"


def test_a_bot_without_questions_has_none_to_ask(house: House) -> None:
    house.bot("muse")
    told(house, "@muse setup")
    assert house.talk.texts == ["I ask nothing."]


def test_setup_in_a_thread_is_for_that_thread(house: House) -> None:
    told(house, "@atlas setup", thread=1200)
    assert told(house, "B").reason == "unmentioned"
    told(house, "B", thread=1200)
    assert answers(house, thread=1200) == ["Bergen"]
