"""Forgetting what events said: the row stays, so that nothing is taken twice; its body goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, and_, select, update

from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import changed, reading, transaction

BATCH = 500
ENDED = ("done", "dead", "unknown")
# A row without its body is never due; so the index of (state, due_at) holds only those that are still to be blanked.
NEVER = datetime(9999, 12, 31, tzinfo=UTC)


def old(*, ignored_hours: int, other_days: int) -> int:
    """Blanks what nobody had to answer after hours, and everything else that ended after days; gives their number."""
    now = clock.now()
    ignored = and_(Delivery.state == "ignored", Delivery.due_at < now - timedelta(hours=ignored_hours))
    others = and_(Delivery.state.in_(ENDED), Delivery.due_at < now - timedelta(days=other_days))
    return _all(ignored) + _all(others)


def room(instance_id: int, room: str, *, before_id: int, before: datetime | None = None) -> int:
    """Blanks every event of a room that came before the row `before_id`, and by that moment: its history was cleared."""
    in_room = and_(Delivery.instance_id == instance_id, Delivery.room == room, Delivery.id < before_id)
    if before is not None:
        in_room = and_(in_room, Delivery.received_at <= before)
    with transaction() as session:
        bodies = update(Delivery).where(in_room, Delivery.body.is_not(None))
        return changed(session.execute(bodies.values(body=None).execution_options(synchronize_session=False)))


def _all(where: ColumnElement[bool]) -> int:
    total = 0
    while ids := _some(where):
        with transaction() as session:
            # Checked again: an operator may have asked for another try meanwhile.
            rows = update(Delivery).where(Delivery.id.in_(ids), where)
            blanked = rows.values(body=None, due_at=NEVER).execution_options(synchronize_session=False)
            total += changed(session.execute(blanked))
    return total


def _some(where: ColumnElement[bool]) -> list[int]:
    with reading() as session:
        return list(session.scalars(select(Delivery.id).where(where).limit(BATCH)))
