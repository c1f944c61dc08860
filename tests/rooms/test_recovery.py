"""What was written while Parley was away is answered once, like everything else (product.md K21)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask
from sqlalchemy import select, update

from app.accounts import instances, serviceuser
from app.conversations import expiry, transcript
from app.conversations.models import RoomExpiration, RoomMessage
from app.inbox.gaps import told, watch
from app.inbox.gaps.models import Gap, RoomReading
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import reading, transaction
from app.infra.errors import Conflict
from app.infra.jobs import jobs
from app.platforms import registrations, rooms
from app.platforms.models import RoomBinding
from app.platforms.nextcloud_talk import commands as talk_commands
from app.rooms import members, modes
from app.rooms.recovery import catch_up, commands
from app.settings import store
from tests.conftest import Sent
from tests.fakes import events
from tests.fakes.house import ROOM, House, built, message
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault

HELLO = "@atlas which berth is free?"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("app.rooms.deliver.PACE", timedelta())


def furnished(house: House) -> House:
    """A house whose service user sees the room, in which the bot has spoken, and whose events were taken until now."""
    cloud = server(house)
    cloud.user("parley", "app-password")
    cloud.user("mira")
    cloud.conversation(ROOM, users=["mira", "parley"])
    cloud.conversations[ROOM].name = "Harbour crew"
    serviceuser.give(house.instance.id, "parley", "app-password")
    house.bot("atlas")
    store.set("turns_per_person_minute", 10_000)
    store.set("turns_per_room_minute", 10_000)
    watch.beat(unsure=True)
    speak(house, "@atlas hello")
    watch.beat(unsure=False)
    return house


@pytest.fixture
def house(app: Flask, sent: Sent) -> Iterator[House]:
    with built(app, sent, server=Nextcloud) as made:
        yield furnished(made)


@pytest.fixture
def any_house(any_app: Flask, sent: Sent) -> Iterator[House]:
    with built(any_app, sent, server=Nextcloud) as made:
        yield furnished(made)


def server(house: House) -> Nextcloud:
    assert isinstance(house.talk, Nextcloud)
    return house.talk


def written(house: House, text: str, *, actor: str = "users/mira", room: str = ROOM, **more: Any) -> int:
    """What somebody wrote into the room while no webhook reached us; gives the message's number."""
    return server(house).say(room, actor, text, **more)


def told_by_webhook(house: House, id: int, text: str, **how: Any) -> None:
    assert house.hear(text, id=id, **how).status_code == 200


def speak(house: House, text: str, **how: Any) -> int:
    """What somebody writes while all is well."""
    id = written(house, text)
    told_by_webhook(house, id, text, **how)
    house.work()
    return id


def back_again(house: House) -> None:
    """The start after a downtime, and what it sets off."""
    assert watch.beat(unsure=True)
    house.work()


def recovered(house: House) -> list[Delivery]:
    return [row for row in house.deliveries() if row.kind == "recovered"]


def replies(house: House) -> list[int]:
    """The numbers of the messages that were answered, in order, without the greeting."""
    return [post.reply_to for post in house.talk.posts[1:]]


def gap() -> Gap:
    with reading() as session:
        return session.scalars(select(Gap).order_by(Gap.id.desc())).first()  # type: ignore[return-value]


def noted(house: House) -> dict[str, tuple[str, bool]]:
    with reading() as session:
        rows = session.execute(
            select(RoomReading, RoomBinding).join(RoomBinding, RoomBinding.room_id == RoomReading.room_id)
        )
        return {str(binding.room_id): (row.reason, row.left_out_at is not None) for row, binding in rows}


def test_what_was_missed_is_answered_once_and_in_order(any_house: House) -> None:
    house = any_house
    first = written(house, HELLO)
    second = written(house, "nobody is meant here")
    third = written(house, "@atlas and tomorrow?")
    house.model.say("Berth 4.")
    house.model.say("Berth 5.")
    back_again(house)
    assert [(row.object_id, row.state, row.reason) for row in recovered(house)] == [
        (str(first), "done", "answered"),
        (str(second), "ignored", "unmentioned"),
        (str(third), "done", "answered"),
    ]
    assert replies(house) == [first, third]
    assert house.talk.texts[1:] == ["Berth 4.", "Berth 5."]
    back_again(house)
    assert (len(recovered(house)), replies(house)) == (3, [first, third])
    assert (gap().recovered, gap().reason, gap().finished_at is not None) == (0, "", True)


def test_a_webhook_that_comes_for_a_recovered_message_is_a_duplicate(any_house: House) -> None:
    house = any_house
    id = written(house, HELLO)
    back_again(house)
    told_by_webhook(house, id, HELLO)
    house.work()
    assert (replies(house), [row.kind for row in house.deliveries()]) == ([id], ["message", "recovered"])


def test_a_message_that_a_webhook_told_is_not_recovered(any_house: House) -> None:
    house = any_house
    id = written(house, HELLO)
    watch.beat(unsure=True)
    told_by_webhook(house, id, HELLO)
    house.work()
    assert (replies(house), [row.kind for row in house.deliveries()]) == ([id], ["message", "message"])


def test_webhook_and_reading_at_one_moment_make_one_answer(any_house: House) -> None:
    house = any_house
    ids = [written(house, f"@atlas {number}") for number in range(8)]
    watch.beat(unsure=True)
    barrier = threading.Barrier(3)
    failures: list[BaseException] = []

    def together(work: Any) -> None:
        try:
            with house.app.app_context():
                barrier.wait(10)
                work()
        except BaseException as error:
            failures.append(error)

    def tell() -> None:
        for id in ids:
            told_by_webhook(house, id, f"@atlas {id - ids[0]}")

    works = [tell, lambda: jobs.tasks["rooms.recover"].run(house.instance.id), lambda: watch.beat(unsure=True)]
    threads = [threading.Thread(target=together, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    house.work()
    told_ids = [row.object_id for row in house.deliveries()[1:]]
    assert sorted(told_ids) == [str(id) for id in ids]
    assert sorted(replies(house)) == ids


def test_a_message_that_came_right_after_the_gap_hides_none_that_was_missed_before(house: House) -> None:
    missed = written(house, HELLO)
    later = written(house, "@atlas and now?")
    watch.beat(unsure=True)
    told_by_webhook(house, later, "@atlas and now?")
    house.work()
    assert sorted(replies(house)) == [missed, later]


def test_messages_of_bots_and_of_the_service_user_are_never_recovered(house: House) -> None:
    written(house, "@atlas I am a bot", actor="bots/bot-1")
    written(house, "@atlas I am you", actor="users/parley")
    server(house).delete(ROOM, written(house, "@atlas regretted"))
    back_again(house)
    assert recovered(house) == []


def test_every_registration_of_the_room_gets_what_its_own_bots_were_asked(house: House) -> None:
    own = registrations.create(house.instance.id, "Muse", shared=False, secret="m" * 64)
    server(house).secrets.append("m" * 64)
    muse = house.bot("muse", registration_id=own.id)
    house.post(message("@muse hello", id=written(house, "@muse hello")), registration=own)
    house.work()
    watch.beat(unsure=False)
    id = written(house, "@muse and @atlas, which berth?")
    house.model.say("A")
    house.model.say("B")
    back_again(house)
    rows = {row.registration_id: row for row in recovered(house)}
    assert set(rows) == {house.registration.id, own.id}
    assert {row.object_id for row in rows.values()} == {str(id)}
    assert {row.reason for row in rows.values()} == {"answered"}
    assert replies(house)[-2:] == [id, id]
    assert {post.secret for post in house.talk.posts[-2:]} == {"m" * 64, house.talk.secrets[0]}
    assert muse.registration_id == own.id


def test_a_reply_to_what_a_bot_said_is_for_that_bot(house: House) -> None:
    said = server(house).conversations[ROOM].messages[-1]
    parent = said | {"actorId": f"bot-{house.registration.actor_hash}"}
    id = written(house, "and tomorrow?", parent=parent)
    back_again(house)
    assert replies(house) == [id]


def test_a_bot_that_responds_always_answers_what_mentions_nobody(house: House) -> None:
    modes.choose(house.instance.id, ROOM, bot_id=house.bots["atlas"].id, mode="always")
    id = written(house, "which berth is free?")
    back_again(house)
    assert replies(house) == [id]


def test_a_shared_file_is_recovered_like_a_file(house: House) -> None:
    file = {"type": "file", "id": 4711, "name": "plan.pdf", "mimetype": "application/pdf", "size": 20480}
    id = written(house, "@atlas what stands in it?", messageParameters={"file": file})
    back_again(house)
    assert replies(house) == [id]
    assert "plan.pdf" in str(house.asked()["messages"])


def test_nothing_older_than_a_quarter_of_an_hour_is_answered_and_it_is_said_where(house: House) -> None:
    start_long_ago(house, minutes=120)
    written(house, "@atlas too old", at=time.time() - 20 * 60)
    id = written(house, HELLO, at=time.time() - 10 * 60)
    back_again(house)
    assert replies(house) == [id]
    problems = [str(sentence) for sentence in told.sentences(told.last(house.instance.id), house.instance)]
    assert any("more than 15 minutes old" in problem for problem in problems)
    assert any("too old or too much: Harbour crew" in problem for problem in problems)


def start_long_ago(house: House, *, minutes: float) -> None:
    """Makes all that happened so far happen earlier."""
    with transaction() as session:
        back = clock.now() - timedelta(minutes=minutes)
        session.execute(update(watch.SignOfLife).values(seen_at=back))
        session.execute(update(Delivery).values(received_at=back))
        session.execute(update(RoomBinding).values(joined_at=back))
        session.execute(update(RoomMessage).values(created_at=back))
    for said in server(house).conversations[ROOM].messages:
        said["timestamp"] = int(back.timestamp())


def test_of_very_many_messages_the_newest_fifty_are_recovered(house: House) -> None:
    ids = [written(house, f"line {number}") for number in range(catch_up.MESSAGES + 5)]
    back_again(house)
    assert [row.object_id for row in recovered(house)] == [str(id) for id in ids[5:]]
    assert [cut for _, cut in noted(house).values()] == [True]


def test_what_was_said_before_the_bot_came_is_not_for_it(house: House) -> None:
    server(house).conversation("r00m2", users=["mira", "parley"])
    written(house, HELLO, room="r00m2", at=time.time() - 60)
    room = rooms.seen(house.instance.id, "r00m2", "Second")
    rooms.bind(room.id, house.registration.id)
    id = written(house, HELLO, room="r00m2")
    back_again(house)
    assert [row.object_id for row in recovered(house)] == [str(id)]


def test_a_registration_that_came_later_is_not_told_what_was_said_before(house: House) -> None:
    start_long_ago(house, minutes=5)
    before = written(house, HELLO, at=time.time() - 60)
    own = registrations.create(house.instance.id, "Muse", shared=False)
    rooms.bind(rooms.seen(house.instance.id, ROOM).id, own.id)
    after = written(house, "nobody is meant here")
    back_again(house)
    told_to = [(row.registration_id, row.object_id) for row in recovered(house)]
    assert told_to == [(house.registration.id, str(before)), (house.registration.id, str(after)), (own.id, str(after))]


def test_a_room_that_the_bot_has_left_is_not_read(house: House) -> None:
    room = rooms.get(house.instance.id, ROOM)
    assert room is not None
    rooms.unbind(room.id)
    written(house, HELLO)
    server(house).asked.clear()
    back_again(house)
    assert recovered(house) == []
    assert not any("/chat/" in path for path in server(house).asked)


def test_only_rooms_with_news_are_read(house: House) -> None:
    for number in range(5):
        token = f"quiet{number}"
        server(house).conversation(token, users=["mira", "parley"])
        told_by_webhook(house, written(house, "@atlas hello", room=token), "@atlas hello", room=token)
    house.work()
    back_again(house)
    written(house, HELLO)
    server(house).asked.clear()
    back_again(house)
    asked = [path for path in server(house).asked if "/spreed/" in path]
    assert [path.rpartition("/")[2] for path in asked if "/participants" not in path] == ["room", ROOM]


def test_a_room_that_can_not_be_read_is_noted_and_holds_up_no_other(house: House) -> None:
    room = rooms.seen(house.instance.id, "private1", "Board")
    rooms.bind(room.id, house.registration.id)
    id = written(house, HELLO)
    back_again(house)
    assert replies(house) == [id]
    assert ("missing", False) in noted(house).values()
    problems = [str(sentence) for sentence in told.sentences(told.last(house.instance.id), house.instance)]
    assert any("Board (the service user is no member there" in problem for problem in problems)


def test_a_server_that_is_still_starting_is_asked_again_until_it_answers(house: House) -> None:
    id = written(house, HELLO)
    server(house).maintenance = True
    back_again(house)
    assert (recovered(house), gap().reason, gap().finished_at) == ([], "maintenance", None)
    server(house).maintenance = False
    be_due()
    jobs.tasks["rooms.recover_rest"].run()
    house.work()
    assert (replies(house), gap().reason) == ([id], "")


def be_due() -> None:
    with transaction() as session:
        session.execute(update(Gap).values(due_at=clock.now()))


def test_a_room_whose_reading_fails_is_read_again_and_the_others_at_once(house: House) -> None:
    server(house).conversation("r00m2", users=["mira", "parley"])
    told_by_webhook(house, written(house, "@atlas hello", room="r00m2"), "@atlas hello", room="r00m2")
    house.work()
    watch.beat(unsure=False)
    other = written(house, HELLO)
    failing = written(house, HELLO, room="r00m2")
    watch.beat(unsure=True)
    # The list of the rooms, then the room with the newest message, twice because nothing was sent.
    room_r00m2 = "/ocs/v2.php/apps/spreed/api/v1/chat/r00m2"
    server(house).broken.add(room_r00m2)
    house.work()
    assert replies(house)[-1] == other
    assert gap().finished_at is None
    server(house).broken.clear()
    be_due()
    jobs.tasks["rooms.recover_rest"].run()
    house.work()
    assert replies(house)[-1] == failing
    assert gap().finished_at is not None


def test_a_server_that_stays_away_is_given_up_when_nothing_would_be_answered_any_more(house: House) -> None:
    written(house, HELLO)
    server(house).maintenance = True
    watch.beat(unsure=True)
    with transaction() as session:
        session.execute(update(Gap).values(ended_at=clock.now() - watch.BACK))
    house.work()
    assert (gap().reason, gap().finished_at is None) == ("maintenance", False)


def test_a_refused_password_is_shown_to_the_server_once(house: House) -> None:
    serviceuser.give(house.instance.id, "parley", "wrong")
    written(house, HELLO)
    back_again(house)
    back_again(house)
    assert (recovered(house), gap().reason, server(house).bad_logins) == ([], "refused", 1)


def test_without_a_service_user_nothing_is_asked(house: House) -> None:
    serviceuser.take_away(house.instance.id)
    written(house, HELLO)
    server(house).asked.clear()
    back_again(house)
    assert (recovered(house), gap().reason, server(house).asked) == ([], "no_service_user", [])


def test_a_history_that_was_cleared_meanwhile_is_forgotten_and_what_came_since_stays(house: House) -> None:
    start_long_ago(house, minutes=60)
    cleared = {"systemMessage": "history_cleared", "messageType": "system", "at": time.time() - 30 * 60}
    server(house).conversations[ROOM].messages.clear()
    written(house, "You cleared the history", **cleared)
    after = written(house, HELLO, at=time.time() - 60)
    now = written(house, "@atlas and now?")
    watch.beat(unsure=True)
    later = list(house.sent)
    house.sent.clear()
    told_by_webhook(house, now, "@atlas and now?")
    house.work()
    # The reading comes last: what it finds happened before what is known already.
    house.sent.extend(later)
    house.work()
    assert replies(house) == [now, after]
    with reading() as session:
        texts = session.scalars(
            select(RoomMessage.text).where(RoomMessage.role == "user").order_by(RoomMessage.id)
        ).all()
    assert sorted(texts) == ["and now?", "which berth is free?"]
    [event] = [row for row in recovered(house) if row.name == "history_cleared"]
    assert (event.state, event.reason) == ("done", "recorded")


def test_a_message_that_waits_behind_a_cleared_history_is_still_answered(house: House) -> None:
    house.post(message("cleared", kind="Activity", object_name="history_cleared", id=written(house, "x")))
    later = written(house, HELLO)
    told_by_webhook(house, later, HELLO)
    house.work()
    assert replies(house) == [later]


def test_a_deletion_that_was_missed_is_obeyed(house: House) -> None:
    transcript.switch_on(house.instance.id, ROOM, actor="users/mira")
    secret = speak(house, "@atlas my secret is 1234")
    watch.beat(unsure=False)
    server(house).delete(ROOM, secret)
    written(house, "You deleted a message", systemMessage="message_deleted", messageType="system")
    written(house, "You deleted a message", systemMessage="message_deleted", messageType="system")
    back_again(house)
    assert [row.name for row in recovered(house)] == ["message_deleted"]
    with reading() as session:
        assert not any("1234" in text for text in session.scalars(select(RoomMessage.text)))


def test_an_expiration_that_was_set_meanwhile_is_known_in_any_language(house: House) -> None:
    server(house).conversations[ROOM].expiration = 7200
    written(house, "Sie ließen Nachrichten ablaufen", systemMessage="message_expiration_enabled", messageType="system")
    back_again(house)
    with reading() as session:
        assert session.scalars(select(RoomExpiration.seconds)).all() == [7200]
    server(house).conversations[ROOM].expiration = 0
    written(house, HELLO)
    back_again(house)
    assert expiry.ends_at(house.instance.id, ROOM) is None


def test_people_who_came_meanwhile_make_the_members_stale(house: House) -> None:
    written(house, "You added Bob", systemMessage="user_added", messageType="system")
    back_again(house)
    room = rooms.get(house.instance.id, ROOM)
    assert room is not None
    assert room.members_changed_at is not None
    assert [row.name for row in recovered(house)] == ["user_added"]


def test_a_recovered_message_can_not_be_abused_to_pass_for_a_moderators(house: House) -> None:
    room = rooms.get(house.instance.id, ROOM)
    assert room is not None
    written(house, "@atlas hello", actor="users/eve", talkParticipantType="1")
    speak(house, "@atlas once more", role="1")
    back_again(house)
    assert not members.moderates(room, "users/eve")
    assert members.moderates(room, "users/mira")


def test_a_worker_that_dies_while_it_reads_leaves_the_rest_to_the_next(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [written(house, f"@atlas {number}") for number in range(4)]
    watch.beat(unsure=True)
    take, taken = catch_up.accept, []

    def dying(*args: Any, **more: Any) -> Any:
        taken.append(1)
        if len(taken) == 3:
            raise SystemExit
        return take(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(catch_up, "accept", dying)
        with pytest.raises(SystemExit):
            house.work()
    house.work()
    assert replies(house) == ids[:2]
    be_due()
    jobs.tasks["rooms.recover_rest"].run()
    house.work()
    assert replies(house) == ids


def test_an_installation_that_reads_for_too_long_goes_on_in_another_run(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "RUN_SECONDS", -1.0)
    id = written(house, HELLO)
    back_again(house)
    assert (recovered(house), gap().finished_at) == ([], None)
    monkeypatch.undo()
    be_due()
    jobs.tasks["rooms.recover_rest"].run()
    house.work()
    assert replies(house)[-1:] == [id]


def test_a_list_of_rooms_that_is_too_long_to_be_read_costs_one_question_a_room(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = written(house, HELLO)
    watch.beat(unsure=True)
    server(house).fail(Fault(200, b'{"x":"' + b"x" * (9 * 1024 * 1024) + b'"}'))
    house.work()
    assert replies(house) == [id]


def test_the_sandbox_is_never_read(house: House) -> None:
    instances.ensure_sandbox("http://127.0.0.1:8000")
    back_again(house)
    with reading() as session:
        assert set(session.scalars(select(Gap.instance_id))) == {house.instance.id}


def command(*words: str) -> Any:
    result = CliRunner().invoke(commands.group, [*words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_an_operator_has_the_rooms_read_where_no_gap_could_be_noticed(house: House) -> None:
    start_long_ago(house, minutes=30)
    id = written(house, HELLO, at=time.time() - 5 * 60)
    assert command("recover", "--instance", "cloud") == {"instance": "cloud", "queued": True}
    house.work()
    assert replies(house) == [id]
    assert (gap().asked, gap().recovered) == (True, 1)
    assert told.sentences(told.last(house.instance.id), house.instance) == []


def test_rooms_that_nobody_can_read_are_refused_with_what_is_missing(house: House) -> None:
    serviceuser.take_away(house.instance.id)
    result = CliRunner().invoke(commands.group, ["recover"])
    assert isinstance(result.exception, Conflict)
    assert "instances service-user cloud" in str(result.exception.sentence)


def test_the_status_of_a_registration_tells_of_the_last_gap(house: House, client: Any) -> None:
    start_long_ago(house, minutes=120)
    id = written(house, HELLO)
    back_again(house)
    assert replies(house) == [id]
    result = CliRunner().invoke(talk_commands.talk, ["status", "--json"])
    [shown] = json.loads(result.stdout)
    assert (shown["last_gap"]["recovered"], shown["last_gap"]["unread_rooms"]) == (1, [])
    assert any("more than 15 minutes old" in problem for problem in shown["problems"])
    carol = events.bearer(house.instance.id, "carol", admin=True)
    [told_by_api] = client.get("/api/v1/registrations?instance=cloud", headers=carol).json["registrations"]
    assert told_by_api == shown
