"""Posts whose reply was lost, in a room that the service user can read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from app.accounts import instances, serviceuser
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import transaction
from app.platforms import registrations, registry, rooms
from app.rooms import deliver, parts
from app.rooms.models import Answer, Part
from app.rooms.parts import Place
from app.rooms.sending import lookup
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault
from tests.rooms.conftest import SECRET, Clock
from tests.rooms.test_deliver import rows, send, state, written

ROOM = "r00mtok1"
LONG = "A sentence of the log. " * 2000
LOST = Fault(ends="drop", stores=True, of="message")
NOT_STORED = Fault(ends="reset", of="message")


@pytest.fixture
def cloud(time_machine: Clock) -> Iterator[Nextcloud]:
    with Nextcloud(SECRET, clock=lambda: clock.now().timestamp()) as server:
        server.user("parley", "an-app-password")
        server.conversation(ROOM, users=["mira", "parley"])
        server.say(ROOM, "users/mira", "@atlas when does the gate open?", id=1501)
        yield server
        server.check()


@pytest.fixture
def place(app: Flask, cloud: Nextcloud) -> Place:
    instance = instances.add("cloud", cloud.url)
    instance = serviceuser.give(instance.id, "parley", "an-app-password")
    registration = registrations.create(instance.id, "Talk AI", secret=SECRET)
    room = rooms.seen(instance.id, ROOM, "Harbour crew")
    rooms.bind(room.id, registration.id)
    platform = registry.get("nextcloud_talk")
    return Place(platform, registration, instance, room, reply_to=1501, received_at=clock.now())


def sending(answer: Answer, **values: Any) -> None:
    """As a worker leaves its first part that dies between claim and post."""
    values = {"state": "sending", "attempts": 1, "claimed_at": clock.now()} | values
    with transaction() as session:
        session.execute(update(Part).where(Part.answer_id == answer.id, Part.sequence == 0).values(**values))


def test_a_message_that_stands_though_its_reply_was_lost_is_sent_and_the_rest_follows(
    place: Place, cloud: Nextcloud
) -> None:
    answer = written(place, LONG)
    cloud.fail(LOST)
    assert send(answer, place) == deliver.Sent("done", Reason.ANSWERED)
    assert [part.state for part in rows(answer)] == ["sent", "sent"]
    assert " ".join(cloud.texts).split() == LONG.split()
    assert len(cloud.posts) == 2


def test_a_message_that_was_never_stored_is_sent_again_under_its_reference_but_not_before_it_is_sure(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    answer = written(place)
    cloud.fail(NOT_STORED)
    first = send(answer, place)
    assert (first.state, first.reason, first.hold) == ("later", Reason.REPLY_SOUGHT, True)
    assert 0 < first.delay < deliver.SURE_AFTER.total_seconds()
    for _ in range(40):
        assert send(answer, place).state == "later"
        time_machine.pass_(1)
    assert cloud.posts == []
    time_machine.pass_(6)
    assert send(answer, place) == deliver.Sent("done", Reason.ANSWERED)
    references = [post.reference_id for post in cloud.posts]
    assert references == [rows(answer)[0].reference_id]
    assert len([seen for seen in cloud.requests if seen.kind == "message"]) == 2


def test_a_message_that_the_server_held_back_for_25_seconds_is_not_sent_twice(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    answer = written(place)
    cloud.fail(Fault(ends="drop", stores=True, holds=25.0, of="message"))
    waited = 0.0
    while (ended := send(answer, place)).state == "later":
        waited += ended.delay
        time_machine.pass_(ended.delay)
    assert ended.state == "done"
    assert 25 <= waited < deliver.SURE_AFTER.total_seconds()
    assert len(cloud.posts) == 1


def test_a_part_that_was_being_sent_when_the_worker_died_is_looked_for(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    answer = written(place, LONG)
    sending(answer)
    assert send(answer, place).state == "later"
    assert cloud.posts == []
    time_machine.pass_(46)
    assert send(answer, place).state == "done"
    assert " ".join(cloud.texts).split() == LONG.split()
    assert [post.reply_to for post in cloud.posts] == [1501, 0]


def test_a_part_of_an_older_version_without_the_time_of_its_claim_is_looked_for_as_well(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    answer = written(place)
    sending(answer, claimed_at=None)
    assert send(answer, place).state == "later"
    time_machine.pass_(46)
    assert send(answer, place).state == "done"
    assert len(cloud.posts) == 1


@pytest.mark.parametrize(
    ("trouble", "times"),
    [
        (Fault.maintenance(), 12),
        (Fault(502), 12),
        (Fault(ends="drop"), 12),
        (Fault(200, b"<html>a proxy</html>", (("Content-Type", "text/html"),)), 12),
        (Fault(429), 1),
    ],
    ids=["maintenance", "502", "unreachable", "a proxy", "throttled"],
)
def test_while_nobody_can_tell_nothing_is_sent_and_then_it_is_told(
    place: Place, cloud: Nextcloud, time_machine: Clock, trouble: Fault, times: int
) -> None:
    answer = written(place)
    cloud.fail(LOST, *[replace(trouble, of="other")] * times)
    delays = []
    while (ended := send(answer, place)).state == "later":
        assert ended.reason == Reason.REPLY_SOUGHT
        delays.append(ended.delay)
        time_machine.pass_(ended.delay)
    assert ended.state == "done"
    assert len(cloud.posts) == 1
    assert len(delays) >= 5
    assert delays == sorted(delays)
    assert max(delays) <= 300


def test_a_server_that_tells_nothing_for_an_hour_leaves_it_unknown_and_the_rest_is_sent(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    answer = written(place, LONG)
    cloud.fail(LOST, *[Fault(503, of="other")] * 1000)
    began = clock.now()
    while (ended := send(answer, place)).state == "later":
        time_machine.pass_(ended.delay)
    assert ended == deliver.Sent("unknown", Reason.REPLY_LOST)
    assert 60 <= (clock.now() - began).total_seconds() / 60 <= 75
    assert [part.state for part in rows(answer)] == ["unknown", "sent"]
    assert send(answer, place).state == "unknown"
    assert len(cloud.posts) == 2


def test_after_a_night_without_a_worker_it_is_still_asked_for_more_than_once(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    answer = written(place)
    sending(answer)
    time_machine.pass_(8 * 3600)
    cloud.fail(Fault(503, of="other"))
    assert send(answer, place).state == "later"
    assert send(answer, place).state == "done"
    assert len(cloud.posts) == 1


@pytest.mark.parametrize("why", ["no member", "no service user", "a refused password"])
def test_where_nobody_will_ever_tell_it_is_unknown_at_once(place: Place, cloud: Nextcloud, why: str) -> None:
    answer = written(place)
    cloud.fail(LOST)
    if why == "no member":
        cloud.conversation(ROOM, users=["mira"])
    elif why == "no service user":
        place = replace(place, instance=serviceuser.take_away(place.instance.id))
    else:
        cloud.accounts["parley"].password = "another"
    assert send(answer, place) == deliver.Sent("unknown", Reason.REPLY_LOST)
    assert send(answer, place).state == "unknown"
    assert len(cloud.posts) == 1


def test_a_room_that_talked_on_for_thousands_of_messages_is_read_from_the_other_end(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    stands, missing = written(place), written(place, "Never stored.", delivery_id=2)
    cloud.fail(Fault(ends="drop", stores=True, holds=25.0, of="message"))
    assert send(stands, place).state == "later"
    sending(missing)
    time_machine.pass_(26)
    cloud.let_in()
    time_machine.pass_(2 * 3600)
    for number in range(lookup.PAGE * lookup.MOST_PAGES + 1):
        cloud.say(ROOM, "users/mira", f"line {number}")
    assert send(stands, place).state == "done"
    assert send(missing, place).state == "done"
    assert cloud.texts == ["The gate opens at nine.", "Never stored."]


def test_what_nobody_can_find_in_thousands_of_messages_is_never_taken_for_missing(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    answer = written(place)
    sending(answer)
    for number in range(lookup.PAGE * lookup.MOST_PAGES + 1):
        cloud.say(ROOM, "users/mira", f"line {number}")
    time_machine.pass_(600)
    assert send(answer, place).state == "unknown"
    assert cloud.posts == []


def test_a_server_whose_replies_are_always_lost_and_that_stores_nothing_is_given_up(
    place: Place, cloud: Nextcloud, time_machine: Clock
) -> None:
    answer = written(place)
    cloud.fail(*[NOT_STORED] * 10)
    while (ended := send(answer, place)).state == "later":
        time_machine.pass_(ended.delay)
    assert (ended.state, ended.reason) == ("failed", Reason.REFUSED)
    assert len([seen for seen in cloud.requests if seen.kind == "message"]) == deliver.TRIES
    assert (rows(answer)[0].state, state(answer)) == ("refused", "failed")


@pytest.mark.parametrize("held", [0.0, 25.0])
@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_proxy_that_gave_up_on_a_post_that_came_through_makes_no_second_message(
    place: Place, cloud: Nextcloud, time_machine: Clock, status: int, held: float
) -> None:
    answer = written(place)
    cloud.fail(Fault(status, stores=True, holds=held, of="message"))
    assert send(answer, place).reason == Reason.SEND_LATER
    while (ended := send(answer, place)).state == "later":
        time_machine.pass_(ended.delay)
    assert ended.state == "done"
    time_machine.pass_(60)
    cloud.let_in()
    assert len(cloud.posts) == 1


@pytest.mark.parametrize(("fault", "least"), [(Fault(502), 40), (Fault.maintenance(), 1)], ids=["502", "503"])
def test_a_post_that_failed_for_good_is_sent_again_when_that_is_sure(
    place: Place, cloud: Nextcloud, time_machine: Clock, fault: Fault, least: int
) -> None:
    answer = written(place)
    cloud.fail(replace(fault, of="message"))
    began = clock.now()
    while (ended := send(answer, place)).state == "later":
        time_machine.pass_(ended.delay)
    assert ended.state == "done"
    assert least <= (clock.now() - began).total_seconds() < 60
    assert len(cloud.posts) == 1


def test_an_operators_second_try_finds_what_stands_already(place: Place, cloud: Nextcloud) -> None:
    answer = written(place)
    alone = replace(place, instance=serviceuser.take_away(place.instance.id))
    cloud.fail(LOST)
    assert send(answer, alone).state == "unknown"
    place = replace(place, instance=serviceuser.give(place.instance.id, "parley", "an-app-password"))
    parts.reopen(1)
    assert send(answer, place) == deliver.Sent("done", Reason.ANSWERED)
    assert len(cloud.posts) == 1
