from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from app.accounts import people
from app.bots import store as bots
from app.inbox import blank, claim
from app.inbox.accept import accept
from app.inbox.commands import group
from app.inbox.models import Delivery
from app.inbox.reasons import Reason, meaning
from app.infra import clock
from app.infra.db import transaction
from app.rooms.models import Answer, Part
from tests.fakes import events

TEXT = "what the bot said"


@pytest.fixture
def home(app):
    return events.instance("cloud")


@pytest.fixture
def here(home):
    return events.registration(home)


@pytest.fixture
def carol(home):
    return events.bearer(home, "carol", admin=True)


def put(registration, state="queued", reason="", room="room"):
    event = events.message(room)
    delivery_id = accept(registration, random=f"r{next(events.numbers)}", body=b'{"said": "TEXT"}', event=event)
    with transaction() as session:
        session.execute(update(Delivery).where(Delivery.id == delivery_id).values(state=state, reason=reason))
    return delivery_id


def run(*words):
    result = CliRunner().invoke(group, [*words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_the_command_lists_the_newest_events_with_state_and_reason(app, here):
    first, second = put(here, "ignored", "unmentioned"), put(here, "dead", "attempts", "other")
    rows = json.loads(run("list", "--json"))
    assert [row["id"] for row in rows] == [second, first]
    wanted = {"id", "received_at", "kind", "room", "actor", "state", "reason", "attempts", "turn_id", "instance"}
    assert wanted <= set(rows[0])
    assert rows[1]["reason"] == "unmentioned"
    assert rows[1]["meaning"] == "No bot was mentioned."
    assert [row["id"] for row in json.loads(run("list", "--json", "--state", "dead"))] == [second]
    assert [row["id"] for row in json.loads(run("list", "--json", "--room", "room"))] == [first]
    assert [row["id"] for row in json.loads(run("list", "--json", "--limit", "1"))] == [second]
    assert "unmentioned" in run("list")


def test_the_command_shows_an_event_with_the_answers_it_was_owed_and_no_text(app, here):
    delivery_id = put(here, "done", "answered")
    now = clock.now()
    values = {"name": "atlas", "mention_name": "atlas", "system_prompt": "Be brief.", "scope": "global"}
    bot = bots.create(here.instance_id, people.ensure(here.instance_id, "bob").id, values)
    with transaction() as session:
        answer = Answer(delivery_id=delivery_id, bot_id=bot.id, state="done", reason="answered", created_at=now)
        session.add(answer)
        session.flush()
        part = {"registration_id": here.id, "instance_id": here.instance_id, "room": "room", "bot_id": bot.id}
        fixed = {"text_digest": "d", "state": "sent", "status": 201, "created_at": now, "sent_at": now}
        for number in range(2):
            reference = {"sequence": number, "reference_id": f"ref{number}"}
            session.add(Part(answer_id=answer.id, text=TEXT, **part, **fixed, **reference))
    shown = json.loads(run("show", str(delivery_id), "--json"))
    assert [part["reference_id"] for part in shown["answers"][0]["parts"]] == ["ref0", "ref1"]
    assert shown["answers"][0]["parts"][0]["characters"] == len(TEXT)
    assert TEXT not in json.dumps(shown)
    assert "answered" in run("show", str(delivery_id))


def test_a_dead_event_is_tried_again_by_command(app, here, sent):
    delivery_id = put(here, "dead", "attempts")
    sent.clear()
    row = json.loads(run("retry", str(delivery_id), "--json"))
    assert (row["state"], row["reason"]) == ("queued", "asked_again")
    assert sent == [("inbox.drain", [here.instance_id, "room"], 0.0)]


@pytest.mark.parametrize("state", ["queued", "claimed", "running", "waiting", "done", "ignored", "unknown"])
def test_what_is_not_dead_is_not_tried_again_just_so(app, here, state):
    delivery_id = put(here, state)
    with pytest.raises(Exception, match=r"only|Only|force|dead"):
        run("retry", str(delivery_id))


def test_an_event_whose_reply_was_lost_is_tried_again_only_by_force(app, here):
    delivery_id = put(here, "unknown", "reply_lost")
    with pytest.raises(Exception, match="force"):
        run("retry", str(delivery_id))
    assert json.loads(run("retry", str(delivery_id), "--force", "--json"))["state"] == "queued"


def test_an_event_whose_text_is_gone_is_not_tried_again(app, here, time):
    delivery_id = put(here, "dead")
    time.pass_(31 * 86_400)
    blank.old(ignored_hours=24, other_days=30)
    with pytest.raises(Exception, match="removed"):
        run("retry", str(delivery_id))


def test_an_unknown_event_is_told_in_a_sentence(app):
    with pytest.raises(Exception, match="There is no event 7"):
        run("show", "7")


def test_every_reason_has_a_meaning_and_fits_its_column(app):
    told = json.loads(run("reasons", "--json"))
    assert {row["reason"] for row in told} == {reason.value for reason in Reason}
    for reason in Reason:
        assert reason.value == reason.name.lower()
        assert len(reason) <= 64
        assert str(reason.meaning).endswith(".")
        assert meaning(reason.value) is reason.meaning
    assert meaning("of a later version") is None
    assert "No bot was mentioned." in run("reasons")


def test_administrators_see_the_events_of_their_instance_and_name_another(client, here, carol):
    mine = put(here, "ignored", "unmentioned")
    other = put(events.registration(events.instance("other")))
    answer = client.get("/api/v1/inbox", headers=carol)
    assert [row["id"] for row in answer.json["events"]] == [mine]
    assert [row["id"] for row in client.get("/api/v1/inbox?instance=other", headers=carol).json["events"]] == [other]
    assert client.get("/api/v1/inbox?state=queued", headers=carol).json["events"] == []
    shown = client.get(f"/api/v1/inbox/{mine}", headers=carol).json
    assert (shown["meaning"], shown["has_body"]) == ("No bot was mentioned.", True)
    assert "said" not in client.get(f"/api/v1/inbox/{mine}", headers=carol).text


def test_people_can_not_be_abused_to_read_or_retry_the_inbox(client, home, here):
    delivery_id = put(here, "dead")
    ada = events.bearer(home, "ada")
    for headers, status in ((ada, 403), ({}, 401)):
        assert client.get("/api/v1/inbox", headers=headers).status_code == status
        assert client.get(f"/api/v1/inbox/{delivery_id}", headers=headers).status_code == status
        assert client.post(f"/api/v1/inbox/{delivery_id}/retry", json={}, headers=headers).status_code == status


def test_administrators_try_a_dead_event_again(client, here, carol, sent):
    delivery_id = put(here, "unknown", "reply_lost")
    sent.clear()
    path = f"/api/v1/inbox/{delivery_id}/retry"
    assert client.post(path, json={}, headers=carol).status_code == 409
    assert client.post(path, json={"force": "yes"}, headers=carol).status_code == 400
    assert client.post(path, json={"force": True}, headers=carol).json["state"] == "queued"
    assert sent == [("inbox.drain", [here.instance_id, "room"], 0.0)]
    assert client.post("/api/v1/inbox/999/retry", json={}, headers=carol).status_code == 404


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=-5", "limit=²", "state=odd"])
def test_a_bad_question_gets_a_clear_answer(client, carol, query):
    answer = client.get(f"/api/v1/inbox?{query}", headers=carol)
    assert answer.status_code == 400
    assert answer.json["fields"]


def test_a_retried_event_is_claimed_by_the_next_worker(app, here):
    delivery_id = put(here, "dead")
    run("retry", str(delivery_id))
    assert claim.next_delivery(claim.take_lane(here.instance_id, "room", "one")).id == delivery_id
