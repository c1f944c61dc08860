from __future__ import annotations

import re
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import select, update

from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import reading, transaction
from app.platforms import registrations, rooms
from app.platforms.base import Address, Outcome
from app.platforms.models import Registration
from app.rooms import deliver, members, parts
from app.rooms.models import Answer, Part
from app.rooms.neutral import digest
from app.rooms.parts import Place, Said
from app.rooms.sending import pieces
from tests.fakes.talk_server import Fault, TalkServer
from tests.rooms.conftest import Clock, make_bot


def written(place: Place, text: str = "The gate opens at nine.", *, delivery_id: int = 1) -> Answer:
    [answer] = parts.owe(delivery_id, [make_bot(place, f"atlas{delivery_id}").id])
    parts.write(answer, place, Said(text, Reason.ANSWERED))
    return answer


def send(answer: Answer, place: Place) -> deliver.Sent:
    return deliver.send(answer.id, place, renew=lambda: True)


def rows(answer: Answer) -> list[Part]:
    with reading() as session:
        return list(session.scalars(select(Part).where(Part.answer_id == answer.id).order_by(Part.sequence)))


def state(answer: Answer) -> str:
    with reading() as session:
        return session.get_one(Answer, answer.id).state


def test_an_answer_is_a_row_with_text_and_reference_before_it_is_sent(place: Place, talk: TalkServer) -> None:
    answer = written(place)
    [part] = rows(answer)
    assert part.state == "written"
    assert re.fullmatch(r"[0-9a-f]{64}", part.reference_id)
    assert talk.posts == []
    assert send(answer, place).state == "done"
    [post] = talk.posts
    assert (post.text, post.reply_to, post.reference_id) == (part.text, 1501, part.reference_id)
    assert rows(answer)[0].state == "sent"
    assert rows(answer)[0].sent_at is not None
    assert state(answer) == "done"


def test_sending_again_posts_nothing(place: Place, talk: TalkServer) -> None:
    answer = written(place)
    send(answer, place)
    assert send(answer, place).state == "done"
    assert len(talk.posts) == 1


def test_writing_again_changes_nothing(place: Place) -> None:
    answer = written(place, "first")
    parts.write(answer, place, Said("second", Reason.ANSWERED))
    assert [part.text for part in rows(answer)] == ["first"]


def test_only_the_first_part_is_a_reply_and_a_second_passes_between_parts(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    answer = written(place, "A sentence of the log. " * 4000)
    began = clock.monotonic()
    assert send(answer, place).state == "done"
    assert [post.reply_to for post in talk.posts] == [1501, 0, 0]
    assert len({post.reference_id for post in talk.posts}) == 3
    assert clock.monotonic() - began >= 2.0


def test_an_answer_of_more_than_eight_messages_says_that_the_rest_is_left_out(place: Place) -> None:
    answer = written(place, "A sentence of the log. " * 20_000)
    found = rows(answer)
    assert len(found) == 8
    assert found[-1].text.endswith("the rest was left out.")
    assert all(len(part.text) <= 32_000 for part in found)


def test_an_answer_without_end_is_looked_at_no_further_than_it_is_sent(place: Place) -> None:
    found = rows(written(place, " " * 400_000 + "word " * 200_000))
    assert len(found) == 8
    assert found[0].text.startswith("word")
    assert found[-1].text.endswith("the rest was left out.")


def test_mentions_in_what_is_sent_are_neutralised(place: Place, talk: TalkServer) -> None:
    send(written(place, 'tell @all and @"Åsa Berg"'), place)
    assert talk.texts == ['tell @\u200ball and @\u200b"Åsa Berg"']


def test_nothing_to_say_ends_without_a_message(place: Place, talk: TalkServer) -> None:
    answer = written(place, "")
    assert send(answer, place) == deliver.Sent("done", Reason.ANSWERED)
    assert talk.posts == []


@pytest.mark.parametrize("fault", [Fault.maintenance(), Fault(502), Fault(504)], ids=["503", "502", "504"])
def test_a_busy_server_gets_the_same_message_again_later(place: Place, talk: TalkServer, fault: Fault) -> None:
    answer = written(place)
    talk.fail(fault)
    first = send(answer, place)
    assert (first.state, first.reason) == ("later", Reason.SEND_LATER)
    assert first.delay > 0
    assert rows(answer)[0].state == "written"
    assert send(answer, place).state == "done"
    assert len(talk.posts) == 1
    bodies = [seen.body for seen in talk.requests]
    assert bodies[0] == bodies[1]


def test_a_server_that_stays_busy_is_given_up_after_four_tries(place: Place, talk: TalkServer) -> None:
    answer = written(place)
    with talk.failing(Fault.maintenance()):
        ends = [send(answer, place) for _ in range(4)]
    assert [end.state for end in ends] == ["later", "later", "later", "failed"]
    assert ends[-1].reason == Reason.REFUSED
    assert [end.delay for end in ends[:3]] == sorted(end.delay for end in ends[:3])
    assert (rows(answer)[0].state, state(answer)) == ("refused", "failed")
    assert len(talk.requests) == 4


def test_a_server_that_can_not_be_reached_is_tried_again(place: Place) -> None:
    answer = written(place)
    away = replace(place, instance=place.instance)
    with transaction() as session:
        session.merge(place.instance).url = "http://127.0.0.1:9"
    assert send(answer, away).reason == Reason.SEND_LATER


def test_after_a_throttled_post_nothing_is_sent_for_half_an_hour(place: Place, talk: TalkServer) -> None:
    answer = written(place)
    talk.fail(Fault.throttled())
    assert send(answer, place).delay >= 1800


def test_a_server_that_throttles_is_waited_for_as_long_as_it_says_and_that_is_no_failed_try(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    answer = written(place)
    with talk.failing(Fault.throttled(120)):
        for _ in range(10):
            waiting = send(answer, place)
            assert (waiting.state, waiting.delay) == ("later", 120)
            time_machine.pass_(120)
    assert send(answer, place).state == "done"
    assert len(talk.posts) == 1


def test_while_one_room_is_throttled_another_is_sent_to(place: Place, talk: TalkServer) -> None:
    talk.fail(Fault.throttled())
    assert send(written(place), place).state == "later"
    elsewhere = replace(place, room=rooms.seen(place.instance.id, "an0ther1"))
    assert send(written(elsewhere, delivery_id=2), elsewhere).state == "done"


def test_what_is_too_long_for_the_server_is_divided_further_and_nothing_of_it_is_lost(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    text = "".join(f"Line {number} of the log.\n\n" for number in range(3000))
    answer = written(place, text)
    before = len(rows(answer))
    talk.longest = 5_000
    assert send(answer, place) == deliver.Sent("done", Reason.ANSWERED)
    assert "".join(" ".join(talk.texts).split()) == "".join(text.split())
    found = rows(answer)
    assert before < len(found) == len(talk.posts)
    assert [part.sequence for part in found] == list(range(len(found)))
    assert [part.reference_id for part in found] == [post.reference_id for post in talk.posts]
    assert len({part.reference_id for part in found}) == len(found)
    assert [post.reply_to for post in talk.posts] == [1501, *[0] * (len(found) - 1)]
    assert {part.state for part in found} == {"sent"}
    assert all(part.text_digest == digest(part.text) for part in found)


def test_the_same_words_twice_are_two_messages_also_when_they_are_divided(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    text = ("word " * 6000).strip() + "\n\n" + ("word " * 6000).strip()
    answer = written(place, text)
    assert len({part.text_digest for part in rows(answer)}) == 1
    talk.longest = 20_000
    assert send(answer, place).state == "done"
    assert " ".join(talk.texts).split() == text.split()


def test_a_fence_that_is_divided_further_is_a_fence_in_each_message(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    answer = written(place, "```py\n" + "x = 1\n" * 3000 + "```")
    talk.longest = 6_000
    assert send(answer, place).state == "done"
    assert all(text.startswith("```py\n") and text.endswith("\n```") for text in talk.texts)
    assert "".join(talk.texts).count("x = 1") == 3000


def test_a_server_that_finds_everything_too_long_is_given_up(place: Place, talk: TalkServer) -> None:
    answer = written(place, "A sentence of the log. " * 400)
    talk.longest = 10
    assert send(answer, place).reason == Reason.REFUSED
    assert {part.state for part in rows(answer)} == {"refused"}
    assert len(talk.requests) < 6


def test_an_answer_is_not_divided_into_more_messages_than_anybody_reads(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    answer = written(place, "A sentence of the log. " * 10_000)
    talk.longest = 1_500
    assert send(answer, place).reason == Reason.REFUSED
    assert len(rows(answer)) <= pieces.MOST_ROWS


def test_a_notice_that_is_refused_does_not_end_the_answer(place: Place, talk: TalkServer, time_machine: Clock) -> None:
    [answer] = parts.owe(1, [make_bot(place).id])
    assert parts.notify(answer, place, "thinking", "One moment.")
    talk.fail(Fault(412))
    assert deliver.flush(answer.id, place, renew=lambda: True) is None
    parts.write(answer, place, Said("Nine.", Reason.ANSWERED))
    assert send(answer, place) == deliver.Sent("done", Reason.ANSWERED)
    assert talk.texts == ["Nine."]


def test_a_notice_whose_reply_was_lost_does_not_make_the_answer_unknown(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    [answer] = parts.owe(1, [make_bot(place).id])
    parts.notify(answer, place, "thinking", "One moment.")
    parts.write(answer, place, Said("Nine.", Reason.ANSWERED))
    talk.fail(Fault.lost())
    assert send(answer, place) == deliver.Sent("done", Reason.ANSWERED)
    assert talk.texts == ["One moment.", "Nine."]


def test_several_bots_that_answer_one_message_keep_the_pace_together(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    first, second = parts.owe(1, [make_bot(place, name).id for name in ("atlas", "muse")])
    began = clock.monotonic()
    for answer in (first, second):
        parts.write(answer, place, Said("Nine.", Reason.ANSWERED))
        send(answer, place)
    assert clock.monotonic() - began >= 1.0
    assert len(talk.posts) == 2


def test_a_worker_that_slept_between_its_claim_and_its_post_sends_nothing(
    place: Place, talk: TalkServer, time_machine: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = written(place)
    claim = deliver._claim

    def slowly(part: Part) -> Part | None:
        claimed = claim(part)
        time_machine.pass_(60)
        return claimed

    with monkeypatch.context() as patch:
        patch.setattr(deliver, "_claim", slowly)
        assert send(answer, place).state == "lost"
    assert talk.requests == []
    assert send(answer, place).state == "done"
    assert len(talk.posts) == 1


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("retryable", 503),
        Outcome("permanent", 412),
        Outcome("permanent", 404),
        Outcome("permanent", 413),
        Outcome("permanent", 400),
        Outcome("permanent", 401),
    ],
    ids=lambda outcome: str(outcome.status),
)
def test_what_a_worker_learns_that_was_taken_for_dead_changes_nothing_of_what_another_sends(
    place: Place, time_machine: Clock, outcome: Outcome
) -> None:
    answer = written(place, "A sentence of the log. " * 2000)
    first = deliver._claim(rows(answer)[0])
    assert first is not None
    assert deliver._close(first, "written")
    time_machine.pass_(60)
    second = deliver._claim(first)
    assert second is not None
    before = [(part.state, part.sequence, part.claimed_at, part.text) for part in rows(answer)]
    assert deliver._noted(first, outcome) is None
    assert [(part.state, part.sequence, part.claimed_at, part.text) for part in rows(answer)] == before
    assert state(answer) == "written"


def test_what_fails_before_the_post_leaves_nothing_unsure(
    place: Place, talk: TalkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = written(place)

    def away(registration: Registration) -> Address:
        raise OSError("no key")

    with monkeypatch.context() as patch:
        patch.setattr(registrations, "address", away)
        with pytest.raises(OSError):
            send(answer, place)
    assert send(answer, place).state == "done"
    assert len(talk.posts) == 1


def test_a_lost_reply_ends_as_unknown_and_is_never_sent_again(place: Place, talk: TalkServer) -> None:
    answer = written(place)
    talk.fail(Fault.lost())
    assert send(answer, place) == deliver.Sent("unknown", Reason.REPLY_LOST)
    assert send(answer, place).state == "unknown"
    assert len(talk.posts) == 1
    assert (rows(answer)[0].state, state(answer)) == ("unknown", "unknown")


def test_the_other_parts_follow_one_whose_reply_was_lost(place: Place, talk: TalkServer, time_machine: Clock) -> None:
    answer = written(place, "A sentence of the log. " * 2000)
    talk.fail(Fault.lost())
    assert send(answer, place).state == "unknown"
    assert [part.state for part in rows(answer)] == ["unknown", "sent"]
    assert len(talk.posts) == 2


def test_a_part_that_was_being_sent_when_the_worker_died_is_unknown(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    answer = written(place, "A sentence of the log. " * 2000)
    with transaction() as session:
        session.execute(update(Part).where(Part.sequence == 0).values(state="sending"))
    assert send(answer, place).state == "unknown"
    assert [part.state for part in rows(answer)] == ["unknown", "sent"]
    assert len(talk.posts) == 1


def test_a_refused_signature_opens_the_breaker_and_the_answer_waits(
    place: Place, talk: TalkServer, time_machine: Clock
) -> None:
    answer = written(place)
    talk.fail(Fault(401))
    waiting = send(answer, place)
    assert (waiting.state, waiting.reason) == ("later", Reason.BREAKER_OPEN)
    assert waiting.delay >= 595
    assert send(answer, place).state == "later"
    assert len(talk.requests) == 1
    time_machine.pass_(700)
    assert send(answer, place).state == "done"
    assert len(talk.posts) == 1


def test_a_secret_that_stays_wrong_is_given_up(place: Place, talk: TalkServer, time_machine: Clock) -> None:
    answer = written(place)
    with talk.failing(Fault(401)):
        for _ in range(3):
            assert send(answer, place).state == "later"
            time_machine.pass_(700)
        assert send(answer, place) == deliver.Sent("failed", Reason.UNAUTHORISED, detail="refused")
    assert len(talk.requests) == 4


def test_a_room_that_is_gone_is_unbound(place: Place, talk: TalkServer) -> None:
    answer = written(place)
    talk.gone.add("r00mtok1")
    assert send(answer, place).reason == Reason.ROOM_GONE
    assert rooms.bound(place.room.id) == []
    assert len(talk.requests) == 1


def test_an_answer_to_a_message_that_has_expired_is_no_reply(place: Place, talk: TalkServer) -> None:
    answer = written(replace(place, reply_to=999_999))
    assert send(answer, place).state == "done"
    [post] = talk.posts
    assert post.reply_to == 0


@pytest.mark.parametrize("status", [400, 412, 302, 200])
def test_what_is_refused_for_good_is_not_tried_again(place: Place, talk: TalkServer, status: int) -> None:
    answer = written(replace(place, reply_to=None), "A sentence of the log. " * 2000)
    talk.fail(Fault(status))
    assert send(answer, place).reason == Reason.REFUSED
    assert send(answer, place).state == "failed"
    assert {part.state for part in rows(answer)} == {"refused"}
    assert len(talk.requests) == 1


def test_who_lost_the_lane_sends_nothing(place: Place, talk: TalkServer) -> None:
    answer = written(place)
    assert deliver.send(answer.id, place, renew=lambda: False).state == "lost"
    assert talk.requests == []


def test_two_workers_send_an_answer_once(app: Flask, place: Place, talk: TalkServer) -> None:
    answer = written(place)
    ends: list[str] = []

    def work() -> None:
        with app.app_context():
            ends.append(send(answer, place).state)

    with talk.failing(Fault.late(0.3)):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(talk.posts) == 1
    assert rows(answer)[0].state == "sent"


def test_after_a_day_nothing_is_sent_any_more(place: Place, talk: TalkServer, time_machine: Clock) -> None:
    answer = written(place)
    time_machine.pass_(25 * 3600)
    assert send(answer, place).reason == Reason.WAITED_TOO_LONG
    assert talk.requests == []


def test_an_operator_can_have_sent_again_what_was_lost_or_refused(place: Place, talk: TalkServer) -> None:
    answer = written(place)
    talk.fail(Fault.lost())
    send(answer, place)
    [again] = parts.reopen(1)
    assert again.state == "written"
    assert send(answer, place) == deliver.Sent("done", Reason.ANSWERED)
    assert len({post.reference_id for post in talk.posts}) == 1


def test_an_apology_makes_room_for_an_answer_when_an_operator_asks(place: Place) -> None:
    [answer] = parts.owe(1, [make_bot(place).id])
    parts.write(answer, place, Said("sorry", Reason.APOLOGISED))
    send(answer, place)
    [again] = parts.reopen(1)
    assert again.state == "due"
    assert rows(answer) == []


def test_a_quoted_text_finds_the_bot_that_said_it(place: Place) -> None:
    first, second = written(place, "One @all", delivery_id=1), written(place, "Two\n\nlines", delivery_id=2)
    send(first, place)
    send(second, place)
    assert members.sent_by(place.room, "One @\u200ball") == first.bot_id
    assert members.sent_by(place.room, " Two  lines\n") == second.bot_id
    assert members.sent_by(place.room, "Three") is None
    assert members.last_spoke(place.room, place.registration.id) == second.bot_id
    hour = clock.now() - timedelta(hours=1)
    assert members.others_spoke(place.room, place.registration.id, bot_id=first.bot_id, since=hour)
    assert digest("a b") == digest("a\n b")


def test_old_answers_are_forgotten_with_their_parts(place: Place, time_machine: Clock) -> None:
    send(written(place), place)
    assert parts.forget(30) == 0
    time_machine.pass_(31 * 86_400)
    assert parts.forget(30) == 1
    with reading() as session:
        assert session.scalars(select(Part)).all() == []


def test_a_long_name_or_a_table_keeps_its_form_after_the_bots_name() -> None:
    assert Said("hi", Reason.ANSWERED).after("**A:** ").text == "**A:** hi"
    assert Said("```py\nx\n```", Reason.ANSWERED).after("**A:** ").text == "**A:** \n\n```py\nx\n```"
    assert Said("  ", Reason.ANSWERED).after("**A:** ").text == "  "


def test_the_registration_remembers_the_last_post(place: Place, talk: TalkServer) -> None:
    send(written(place), place)
    assert registrations.get(place.registration.id).last_post_status == "201 posted"
