"""Answers that take long, from the signed webhook to what stands in the room; no test waits for real."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from flask import Flask
from sqlalchemy import select

from app.conversations.models import RoomMessage
from app.inbox import drain
from app.infra.db import reading
from app.rooms import deliver
from app.rooms.models import Answer, Part
from app.rooms.speaking.speech import THINKING
from app.rooms.thinking.run import CUT, INTERRUPTED
from app.settings import store
from tests.conftest import Sent
from tests.fakes.house import House, built, message
from tests.fakes.model_server import Reply, chunk, sse, tool_call
from tests.fakes.talk_server import Fault
from tests.rooms.conftest import Clock

Slow = Sequence[tuple[float, str] | tuple[float, dict[str, object]]]
PARAGRAPH = "The harbour office opens at nine in the morning on every day but Sunday.\n\n"
LONG = "The harbour office opens at nine in the morning on every day but Sunday, as it says. "


@pytest.fixture
def house(app: Flask, sent: Sent, time_machine: Clock) -> Iterator[House]:
    with built(app, sent) as made:
        made.bot("atlas")
        yield made


@pytest.fixture
def slow(house: House, time_machine: Clock) -> Callable[..., None]:
    """The next answer of the model: each piece comes so many seconds after the one before."""

    def answer(*pieces: tuple[float, object], finish_reason: str = "stop") -> None:
        def body() -> Iterator[bytes]:
            for seconds, piece in pieces:
                # What came before must have been read, before its time goes by.
                time.sleep(0.08)
                time_machine.pass_(seconds)
                delta = {"content": piece} if isinstance(piece, str) else piece
                yield sse([chunk(delta)], done=False)
            time.sleep(0.08)
            yield sse([chunk(finish_reason=finish_reason)])

        house.model.answer(Reply(headers={"Content-Type": "text/event-stream"}, body=body))

    return answer


def asked(house: House, text: str = "@atlas when does it open?", **how: object) -> None:
    assert house.hear(text, **how).status_code == 200
    house.work()


def remembered() -> list[tuple[str, bool]]:
    with reading() as session:
        mine = select(RoomMessage.text, RoomMessage.incomplete).where(RoomMessage.role == "assistant")
        return [(text, incomplete) for text, incomplete in session.execute(mine)]


def test_an_answer_that_is_there_soon_is_one_message(house: House, slow: Callable[..., None]) -> None:
    # Far more than the answer takes, however busy the machine is.
    store.set("stream_after_seconds", 100)
    slow((1, PARAGRAPH), (1, PARAGRAPH), (1, "And that is all."))
    asked(house)
    assert len(house.talk.texts) == 1
    assert house.last().reason == "answered"


def test_an_answer_that_takes_long_is_said_in_paragraphs_and_only_the_first_is_a_reply(
    house: House, slow: Callable[..., None]
) -> None:
    slow((4, PARAGRAPH), (4, PARAGRAPH), (4, PARAGRAPH), (4, "And that is all."))
    asked(house)
    texts = house.talk.texts
    assert len(texts) >= 3
    assert "".join("".join(texts).split()) == "".join((PARAGRAPH * 3 + "And that is all.").split())
    assert [bool(post.reply_to) for post in house.talk.posts] == [True, *[False] * (len(texts) - 1)]
    assert remembered() == [((PARAGRAPH * 3 + "And that is all."), False)]
    assert house.last().state == "done"


def test_two_messages_are_a_second_apart_and_there_are_at_most_eight(house: House, slow: Callable[..., None]) -> None:
    slow((7, PARAGRAPH), *[(2.0, f"Line {number}. {PARAGRAPH}") for number in range(20)])
    asked(house)
    assert 2 < len(house.talk.posts) <= 8
    for number in range(20):
        assert sum(f"Line {number}." in text for text in house.talk.texts) == 1


def test_a_sentence_is_said_when_somebody_has_waited_long_enough(house: House, slow: Callable[..., None]) -> None:
    slow((5, LONG), (2, LONG), (4, LONG + "The"), (1, " end."))
    asked(house)
    assert len(house.talk.texts) >= 2
    assert all(text.rstrip().endswith((".", "end.")) for text in house.talk.texts)


def test_reasoning_is_never_shown_and_somebody_who_waits_is_told_once(house: House, slow: Callable[..., None]) -> None:
    slow((2, "<thi"), (3, "nk>secret one"), (3, " secret two"), (3, "</thin"), (3, "k>It opens "), (1, "at nine."))
    asked(house)
    assert house.talk.texts == [THINKING.text("en"), "It opens at nine."]
    assert [bool(post.reply_to) for post in house.talk.posts] == [True, False]


def test_a_field_of_reasoning_is_thinking_too(house: House, slow: Callable[..., None]) -> None:
    slow(*[(3, {"reasoning_content": "hm"}) for _ in range(4)], (1, "At nine."))
    asked(house)
    assert house.talk.texts == [THINKING.text("en"), "At nine."]


@pytest.mark.parametrize("tail", ["<", "[", "{", "`", "a<b", "```\ncode", "@", "<tool", "**bold"])
def test_what_was_held_back_is_delivered(house: House, slow: Callable[..., None], tail: str) -> None:
    slow((7, PARAGRAPH), (2, PARAGRAPH), (1, tail))
    asked(house)
    whole = "".join("".join(house.talk.texts).replace("\u200b", "").split())
    assert whole.startswith("".join((PARAGRAPH * 2 + tail).split()))


def test_an_answer_that_is_json_stays_whole(house: House, slow: Callable[..., None]) -> None:
    slow((7, '{"a": 1,\n\n'), (4, '"b": "x. y. z."\n\n'), (4, "}"))
    asked(house)
    assert house.talk.texts[-1] == '{"a": 1,\n\n"b": "x. y. z."\n\n}'
    assert len(house.talk.texts) == 1


def test_each_piece_passes_the_filters_of_a_whole_answer(house: House, slow: Callable[..., None]) -> None:
    slow(
        (7, "Hello @"),
        (1, "all, look at https://evil"),
        (1, ".test/x.\n\n"),
        (3, PARAGRAPH),
        (1, "![x](https://evil.test/y)"),
    )
    asked(house)
    whole = "\n".join(house.talk.texts)
    assert len(house.talk.texts) > 1
    assert "@all" not in whole
    assert "`https://evil.test/x`" in whole
    assert "![" not in whole


def test_every_piece_is_a_row_before_it_is_sent(
    house: House, slow: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    post = deliver._post

    def looked(part: Part, *how: object) -> object:
        with reading() as session:
            rows.append(len(session.scalars(select(Part.id).where(Part.reference_id == part.reference_id)).all()))
        return post(part, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(deliver, "_post", looked)
    slow((7, PARAGRAPH), (2, PARAGRAPH), (2, "End."))
    asked(house)
    assert len(rows) >= 2
    assert set(rows) == {1}


def test_text_before_a_call_is_said_only_to_somebody_who_waited_and_once(
    house: House, slow: Callable[..., None]
) -> None:
    call = {"tool_calls": [{"index": 0, **tool_call("current_time", {})}]}
    slow((1, "I look at the clock."), (1, call), finish_reason="tool_calls")
    slow((1, "It is nine."))
    asked(house)
    assert house.talk.texts == ["It is nine."]
    slow((7, PARAGRAPH), (2, "I look at"), (1, " the clock."), (1, call), finish_reason="tool_calls")
    slow((1, "It is nine."))
    asked(house, "@atlas and now?")
    whole = "\n".join(house.talk.texts[1:])
    assert [whole.count(part) for part in ("opens at nine in", "I look at the clock.", "It is nine.")] == [1, 1, 1]


def test_a_server_that_takes_nothing_now_gets_the_rest_later_once(
    house: House, slow: Callable[..., None], time_machine: Clock
) -> None:
    house.talk.fail(replace(Fault.throttled(), of="message"))
    slow((7, PARAGRAPH), (2, PARAGRAPH.replace("nine", "ten")), (2, "End."))
    asked(house)
    assert house.last().state == "queued"
    assert len(house.model.chats) == 1
    time_machine.pass_(4000)
    house.work_later()
    whole = "\n".join(house.talk.texts)
    assert [whole.count(part) for part in ("at nine", "at ten", "End.")] == [1, 1, 1]
    assert (house.last().state, len(house.model.chats)) == ("done", 1)


class Killed(BaseException):
    """Nobody may catch it."""


def test_after_a_piece_stands_the_model_is_not_asked_again(
    house: House, slow: Callable[..., None], monkeypatch: pytest.MonkeyPatch, time_machine: Clock
) -> None:
    settle = deliver._settle

    def dying(*args: object) -> object:
        settle(*args)  # type: ignore[arg-type]
        raise Killed

    monkeypatch.setattr(deliver, "_settle", dying)
    slow((7, PARAGRAPH), (2, PARAGRAPH), (2, "End."))
    with pytest.raises(Killed):
        asked(house)
    monkeypatch.setattr(deliver, "_settle", settle)
    time_machine.pass_(90)
    house.app.test_client().get("/healthz")
    drain.recover()
    time_machine.pass_(5)
    drain.recover()
    house.work()
    assert len(house.model.chats) == 1
    assert house.talk.texts == [PARAGRAPH.strip(), INTERRUPTED.text("en")]
    assert house.last().reason == "told_interrupted"
    assert remembered() == [(PARAGRAPH.strip(), True)]


def test_a_piece_that_was_written_and_never_sent_is_taken_back_and_the_turn_runs_again(
    house: House, slow: Callable[..., None], monkeypatch: pytest.MonkeyPatch, time_machine: Clock
) -> None:
    flush = deliver.flush

    def dying(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(deliver, "flush", dying)
    slow((7, PARAGRAPH), (2, PARAGRAPH), (2, "End."))
    with pytest.raises(Killed):
        asked(house)
    monkeypatch.setattr(deliver, "flush", flush)
    slow((1, "At nine."))
    time_machine.pass_(90)
    drain.recover()
    time_machine.pass_(5)
    drain.recover()
    house.work()
    assert house.talk.texts == ["At nine."]
    assert len(house.model.chats) == 2


def test_it_can_be_switched_off(house: House, slow: Callable[..., None]) -> None:
    store.set("stream_answers", False)
    slow((7, PARAGRAPH), (7, PARAGRAPH), (2, "End."))
    asked(house)
    assert len(house.talk.texts) == 1


def test_in_a_thread_every_piece_stays_there(house: House, slow: Callable[..., None]) -> None:
    slow((7, PARAGRAPH), (2, PARAGRAPH), (2, "End."))
    body = message("@atlas when?")
    body["object"]["threadId"] = 1400
    assert house.post(body).status_code == 200
    house.work()
    assert len(house.talk.posts) >= 2
    assert all(post.reply_to for post in house.talk.posts)


def test_an_answer_that_breaks_off_is_marked_and_what_was_said_stays(house: House, slow: Callable[..., None]) -> None:
    slow((7, PARAGRAPH), (2, "And th"), finish_reason="length")
    asked(house)
    assert "".join(house.talk.texts).startswith(PARAGRAPH.strip())
    assert house.last().reason == "answered_incomplete"
    assert CUT is not None
    with reading() as session:
        assert session.scalars(select(Answer.state)).all() == ["done"]
