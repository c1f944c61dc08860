"""Messages that wait for answers which nobody gives: after a while they go on without them."""

from __future__ import annotations

from sqlalchemy import and_, select

from app.inbox import claim
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra import clock, jobs
from app.infra.db import reading, transaction
from app.rooms.models import Answer
from app.rooms.onboarding import rounds
from app.rooms.onboarding.models import Round
from app.rooms.onboarding.rounds import Overtaken

BATCH = 500
OPEN = ("due", "running", "written")


def go_on() -> None:
    """Lets go on what waits for an answer that nobody gave, and what waits for a round that is not there any more."""
    before = clock.now() - rounds.SILENCE
    silent = select(Round, Delivery.state).outerjoin(Delivery, Delivery.id == Round.delivery_id)
    silent = silent.where(Round.state == "asking", Round.asked_at <= before)
    theirs = and_(Round.delivery_id == Delivery.id, Round.state == "asking")
    lost = select(Delivery).outerjoin(Round, theirs).where(Round.id.is_(None))
    lost = lost.where(Delivery.state == "waiting", Delivery.reason == Reason.ONBOARDING.value)
    with reading() as session:
        unanswered = session.execute(silent.order_by(Round.id).limit(BATCH)).all()
        left = session.scalars(lost.order_by(Delivery.id).limit(BATCH)).all()
    for round, state in unanswered:
        _expire(round, state)
    for delivery in left:
        _let_go(delivery)


def _expire(round: Round, state: str | None) -> None:
    """What waits ends its round itself, in its turn in the room, so that no answer crosses it."""
    if state == "waiting":
        with transaction():
            rounds.wake(round)
    elif state not in rounds.WORKED:
        try:
            rounds.end(round, "expired")
        except Overtaken:
            return


def _let_go(delivery: Delivery) -> None:
    """Of what a removed bot owed nothing is left, and so nobody may be there to answer."""
    owed = select(Answer.state).where(Answer.delivery_id == delivery.id)
    with transaction() as session:
        states = set(session.scalars(owed))
        if not states.intersection(OPEN) and states != {"done"}:
            claim.drop(delivery.id, Reason.BOT_GONE)
        elif claim.wake(delivery.id, Reason.ONBOARDING):
            jobs.enqueue(claim.DRAIN, delivery.instance_id, delivery.room)
