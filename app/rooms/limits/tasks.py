"""Periodic work on the line of those that wait."""

from __future__ import annotations

from app.inbox import claim
from app.infra import jobs
from app.rooms.limits import line, slots
from app.rooms.limits.terms import Terms


# In the queue of turns: indexing may fill the other one for hours.
@jobs.periodic("rooms.replan", every=5, queue=jobs.TURNS)
def replan() -> None:
    """Lets those who wait ask anew when a limit was changed, or when somebody before them has left."""
    for instance_id, room in line.replan(Terms.read().mark):
        jobs.enqueue(claim.DRAIN, instance_id, room)


@jobs.periodic("rooms.forget_slots", every=3600)
def forget_slots() -> None:
    """Deletes the places of turns that count no more."""
    slots.forget()
