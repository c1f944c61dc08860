"""The inbox at work: a room is worked off when something came, and swept where a wake-up was lost."""

from __future__ import annotations

from app.inbox import blank, claim, drain
from app.infra import jobs
from app.infra.db import transaction
from app.rooms import answer
from app.rooms.orders import stop
from app.settings import store


@jobs.task(claim.DRAIN, queue=jobs.TURNS)
def work_off(instance_id: int, room: str) -> None:
    """Works the due deliveries of one room."""
    drain.run(instance_id, room, handle=answer.handle, apologise=answer.apologise, overtake=stop.overtake)


@jobs.task(claim.WAKE, queue=jobs.TURNS)
def wake(instance_id: int, room: str) -> None:
    """The same, asked for by the sweep, which asks once a room."""
    with transaction() as session:
        jobs.taken(session, drain.wake_key(instance_id, room))
    work_off(instance_id, room)


# In the queue of turns: indexing may fill the other one for hours.
@jobs.periodic("inbox.sweep", every=5, queue=jobs.TURNS)
def sweep() -> None:
    """Puts back what dead workers left, and wakes rooms with due rows."""
    drain.recover()


@jobs.periodic("inbox.blank", every=3600)
def blank_bodies() -> None:
    """Blanks the bodies whose time is over."""
    times = store.several("inbox_body_hours", "conversation_days")
    blank.old(ignored_hours=times["inbox_body_hours"], other_days=times["conversation_days"])
