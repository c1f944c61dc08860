from __future__ import annotations

from sqlalchemy import select, update

from app.inbox import blank, claim
from app.inbox.models import Delivery
from app.infra.db import reading, transaction
from app.infra.jobs import jobs
from app.settings import store

DAY = 86_400


def ended(accepted, state, room="room"):
    delivery_id = accepted(room)
    with transaction() as session:
        session.execute(update(Delivery).where(Delivery.id == delivery_id).values(state=state))
    return delivery_id


def with_body():
    with reading() as session:
        return set(session.scalars(select(Delivery.id).where(Delivery.body.is_not(None))))


def test_what_nobody_had_to_answer_is_blanked_after_a_day_and_the_rest_after_the_retention(app, accepted, time):
    ids = {state: ended(accepted, state) for state in ("ignored", "done", "dead", "unknown")}
    time.pass_(DAY - 1)
    assert blank.old(ignored_hours=24, other_days=30) == 0
    time.pass_(2)
    assert blank.old(ignored_hours=24, other_days=30) == 1
    assert with_body() == {ids["done"], ids["dead"], ids["unknown"]}
    time.pass_(29 * DAY)
    assert blank.old(ignored_hours=24, other_days=30) == 3
    assert blank.old(ignored_hours=24, other_days=30) == 0
    assert with_body() == set()


def test_what_is_still_to_be_answered_keeps_its_body(app, accepted, time):
    ids = {ended(accepted, state) for state in ("queued", "claimed", "running", "waiting")}
    time.pass_(400 * DAY)
    assert blank.old(ignored_hours=24, other_days=30) == 0
    assert with_body() == ids


def test_a_blanked_row_still_keeps_its_event_from_being_taken_twice(app, registration, accepted, time):
    delivery_id = ended(accepted, "ignored")
    time.pass_(2 * DAY)
    blank.old(ignored_hours=24, other_days=30)
    with reading() as session:
        row = session.get(Delivery, delivery_id)
    assert (row.body, row.dedupe is not None, row.random_digest != "") == (None, True, True)


def test_more_rows_than_a_batch_are_all_blanked(app, accepted, time, monkeypatch):
    monkeypatch.setattr(blank, "BATCH", 2)
    for _ in range(5):
        ended(accepted, "ignored")
    time.pass_(2 * DAY)
    assert blank.old(ignored_hours=24, other_days=30) == 5


def test_a_row_that_an_operator_tries_again_keeps_its_body(app, accepted, time, monkeypatch):
    delivery_id = ended(accepted, "dead")
    time.pass_(31 * DAY)
    some = blank._some

    def meanwhile(where):
        ids = some(where)
        claim.retry(delivery_id)
        return ids

    monkeypatch.setattr(blank, "_some", meanwhile)
    assert blank.old(ignored_hours=24, other_days=30) == 0
    assert with_body() == {delivery_id}


def test_a_cleared_room_keeps_nothing_of_what_came_before(app, registration, accepted):
    before, other = accepted("room"), accepted("other")
    clearing = accepted("room")
    after = accepted("room")
    assert blank.room(registration.instance_id, "room", before_id=clearing) == 1
    assert with_body() == {other, clearing, after}
    assert before not in with_body()


def test_the_job_takes_its_times_from_the_settings(app, accepted, time, sent):
    ended(accepted, "ignored")
    time.pass_(3 * 3600)
    jobs.tasks["inbox.blank"].run()
    assert len(with_body()) == 1
    store.set("inbox_body_hours", 2)
    jobs.tasks["inbox.blank"].run()
    assert with_body() == set()
