"""The sign of life of whoever takes events, and the gaps that it shows: a start, a silence, an event that was lost.

Every server that takes events gives it every few seconds. One row, moved on by a conditional UPDATE, so that of several
servers one notices a gap; and only what stands in the database counts, so that a database that was away is a gap, too.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.accounts import serviceuser
from app.accounts.models import Instance
from app.inbox.gaps.models import Gap, SignOfLife
from app.inbox.models import Delivery
from app.infra import clock, jobs, metrics
from app.infra.db import changed, insert_once, transaction

log = logging.getLogger(__name__)

SECONDS = 10.0
SILENCE = timedelta(seconds=60)
BACK = timedelta(minutes=15)
"""How old a message may be that is still answered after a gap."""
NAME = "events"
RECOVER = "rooms.recover"
NEXTCLOUD = "nextcloud"


@dataclass
class Watcher:
    """Gives the sign of life of one process. `unsure`: an event may have been lost since the last one, as before a start."""

    unsure: bool = True
    lost: float = 0.0
    last: datetime | None = None

    def look(self) -> None:
        """One sign of life; a database that does not take it now is a gap when it does again. Never raises."""
        now, lost = clock.now(), metrics.events_lost()
        self.unsure = self.unsure or lost > self.lost
        self.lost = lost
        try:
            beat(unsure=self.unsure, since=self.last)
        except Exception:
            if not self.unsure:
                log.exception("the database did not take the sign of life")
            self.unsure = True
            return
        self.unsure, self.last = False, now


def beat(*, unsure: bool, since: datetime | None = None) -> bool:
    """Says that events are taken now. True where some may have been lost since the last sign, which is noted then.

    `since` is the last sign that this process gave itself: what it lost, others did not take meanwhile. Of several
    processes that start at one moment the first speaks for all.
    """
    now = clock.now()
    with transaction() as session:
        last = session.scalar(select(SignOfLife.seen_at).where(SignOfLife.name == NAME))
        if last is None:
            return _first(session, now)
        mine = update(SignOfLife).where(SignOfLife.name == NAME, SignOfLife.seen_at == last)
        first = changed(session.execute(mine.values(seen_at=now))) == 1
        silent = first and now - last > SILENCE
        lost = unsure and (first or since is not None)
        return (silent or lost) and _note(session, min(last, since or last), now)


def _first(session: Session, now: datetime) -> bool:
    """The first sign of all: events were taken before where an older version left some."""
    made = insert_once(session, jobs.table(SignOfLife), {"name": NAME, "seen_at": now})
    newest = session.scalar(select(Delivery.received_at).order_by(Delivery.id.desc()).limit(1))
    return made is not None and newest is not None and _note(session, newest, now)


def ask(instance_id: int, *, back: timedelta = BACK) -> None:
    """Somebody knows of a gap that shows no sign here: the rooms of an instance are read as if events were lost."""
    now = clock.now()
    with transaction() as session:
        _add(session, instance_id, now - back, now, asked=True)


def recover_key(instance_id: int) -> str:
    """The key under which the reading of an instance's rooms is queued, at most once."""
    return f"{RECOVER}:{instance_id}"


def _note(session: Session, began: datetime, ended: datetime) -> bool:
    """One gap for each Nextcloud; its rooms are read where somebody can read them."""
    found = session.scalars(select(Instance).where(Instance.kind == NEXTCLOUD).order_by(Instance.id)).all()
    for instance in found:
        reason = "" if serviceuser.exists(instance) else "no_service_user"
        _add(session, instance.id, began, ended, reason=reason)
    return bool(found)


def _add(
    session: Session, instance_id: int, began: datetime, ended: datetime, *, reason: str = "", asked: bool = False
) -> None:
    session.add(
        Gap(
            instance_id=instance_id,
            began_at=began,
            ended_at=ended,
            due_at=ended,
            finished_at=ended if reason else None,
            reason=reason,
            asked=asked,
        )
    )
    if not reason:
        jobs.enqueue(RECOVER, instance_id, key=recover_key(instance_id))
