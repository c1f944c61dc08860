"""Work of rooms that no message asks for."""

from __future__ import annotations

from app.inbox.gaps import reading, watch
from app.infra import jobs
from app.infra.db import transaction
from app.rooms import parts
from app.rooms.onboarding import rounds, silence
from app.rooms.recovery import catch_up
from app.settings import store


@jobs.periodic("rooms.forget", every=3600)
def forget() -> None:
    """Deletes answers and their parts when their days are over, and what people answered where messages expire."""
    parts.forget(store.get("parts_days"))
    rounds.purge()


# In the queue of turns: indexing may fill the other one for hours, and people wait for these answers.
@jobs.task(watch.RECOVER, queue=jobs.TURNS)
def recover(instance_id: int) -> None:
    """Reads the rooms of an instance after a gap."""
    with transaction() as session:
        jobs.taken(session, watch.recover_key(instance_id))
    catch_up.run(instance_id)


@jobs.periodic("rooms.recover_rest", every=10, queue=jobs.TURNS)
def recover_rest() -> None:
    """Asks for what could not be read before, and what a dead worker left."""
    for instance_id in reading.due():
        jobs.enqueue(watch.RECOVER, instance_id, key=watch.recover_key(instance_id))


# In the queue of turns: indexing may fill the other one for hours.
@jobs.periodic("rooms.answer_unasked", every=15, queue=jobs.TURNS)
def answer_unasked() -> None:
    """Answers what waits for first questions to which nobody replies."""
    silence.go_on()
