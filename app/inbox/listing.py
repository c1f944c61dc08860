"""The rows of the inbox as people and programs see them: where each event stands, and why. Never what it said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, select

from app.accounts.models import Instance
from app.conversations import cancel
from app.inbox import claim
from app.inbox.models import Delivery
from app.inbox.reasons import meaning
from app.infra.db import reading
from app.infra.errors import BadInput, Conflict, NotFound
from app.infra.i18n import Sentence, say

STATES = ("queued", "claimed", "running", "waiting", "done", "ignored", "dead", "unknown")
LIMIT = 50
MOST = 1000


@dataclass(frozen=True)
class Listed:
    """One event. `meaning` is the sentence of its reason; `detail` is for operators; `waits_until` of a queued row."""

    id: int
    received_at: datetime
    instance_id: int
    instance: str
    kind: str
    name: str
    room: str
    actor: str
    state: str
    reason: str
    meaning: str
    attempts: int
    turn_id: int | None
    detail: str | None
    waits_until: datetime | None
    finished_at: datetime | None
    has_body: bool


def listed(
    instance_id: int | None = None, *, state: str | None = None, room: str | None = None, limit: int = LIMIT
) -> list[Listed]:
    """The newest events first; of every instance where none is given. Raises BadInput for an unknown state or limit."""
    if state is not None and state not in STATES:
        known = ", ".join(STATES)
        raise _bad("state", say("There is no state {state}; the states are {known}.", state=state, known=known))
    if not 1 <= limit <= MOST:
        raise _bad("limit", say("The limit must be from 1 to {most}.", most=MOST))
    rows = _rows(instance_id).order_by(Delivery.id.desc()).limit(limit)
    if state is not None:
        rows = rows.where(Delivery.state == state)
    if room is not None:
        rows = rows.where(Delivery.room == room)
    with reading() as session:
        return [_listed(row) for row in session.execute(rows)]


def found(delivery_id: int, instance_id: int | None = None) -> Listed:
    """One event. Raises NotFound."""
    with reading() as session:
        row = session.execute(_rows(instance_id).where(Delivery.id == delivery_id)).first()
    if row is None:
        raise NotFound(say("There is no event {id} in the inbox.", id=delivery_id))
    return _listed(row)


def retry(delivery_id: int, instance_id: int | None = None, *, force: bool = False) -> Listed:
    """Queues a dead event again, or with `force` one whose reply was lost. Raises NotFound, Conflict with the reason.

    The caller wakes a worker.
    """
    row = found(delivery_id, instance_id)
    if row.state not in ("dead", "unknown"):
        raise Conflict(say("Only a dead or unknown event can be tried again; this one is {state}.", state=row.state))
    if row.state == "unknown" and not force:
        raise Conflict(say("Its answer may stand in the room already. Only with force it is answered again."))
    if not row.has_body:
        raise Conflict(say("What it said was removed when its time was over; it can't be answered any more."))
    cancel.withdraw(delivery_id)
    if not claim.retry(delivery_id):
        raise Conflict(say("Somebody else changed this event in this moment; look at it again."))
    return found(delivery_id, instance_id)


def _rows(instance_id: int | None) -> Select[*tuple[Any, ...]]:
    columns = select(
        Delivery.id,
        Delivery.received_at,
        Delivery.instance_id,
        Instance.name.label("instance"),
        Delivery.kind,
        Delivery.name,
        Delivery.room,
        Delivery.actor,
        Delivery.state,
        Delivery.reason,
        Delivery.attempts,
        Delivery.turn_id,
        Delivery.detail,
        Delivery.due_at,
        Delivery.finished_at,
        Delivery.body.is_not(None).label("has_body"),
    ).outerjoin(Instance, Instance.id == Delivery.instance_id)
    return columns if instance_id is None else columns.where(Delivery.instance_id == instance_id)


def _listed(row: Row[Any]) -> Listed:
    told = meaning(row.reason)
    return Listed(
        id=row.id,
        received_at=row.received_at,
        instance_id=row.instance_id,
        instance=row.instance or "",
        kind=row.kind,
        name=row.name,
        room=row.room,
        actor=row.actor,
        state=row.state,
        reason=row.reason,
        meaning="" if told is None else str(told),
        attempts=row.attempts,
        turn_id=row.turn_id,
        detail=row.detail,
        waits_until=row.due_at if row.state == "queued" else None,
        finished_at=row.finished_at,
        has_body=bool(row.has_body),
    )


def _bad(field: str, sentence: Sentence) -> BadInput:
    return BadInput(sentence, fields={field: str(sentence)})
