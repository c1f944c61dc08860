"""What there is to say of the last gap: to `talk status`, `doctor` and the API, in facts and in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from app.accounts.models import Instance
from app.accounts.serviceuser import SENTENCES
from app.inbox.gaps.models import Gap, RoomReading
from app.inbox.gaps.watch import BACK
from app.infra import clock
from app.infra.db import reading
from app.infra.i18n import Sentence, say
from app.platforms.models import Room
from app.platforms.status import moment

# A shorter one is a restart: nothing to tell of where all was read.
LONG = timedelta(minutes=2)
SHOWN_FOR = timedelta(days=1)
MOST_ROOMS = 10


@dataclass(frozen=True)
class NotedRoom:
    """A room that was not read as a whole; `reason` is "" where only something was left out."""

    token: str
    name: str
    reason: str = ""

    @property
    def label(self) -> str:
        return self.name or self.token


@dataclass(frozen=True)
class Told:
    """The last gap of an instance that is worth a word, and the rooms that it is about."""

    gap: Gap
    unread: tuple[NotedRoom, ...]
    cut: tuple[NotedRoom, ...]


def last(instance_id: int) -> Told | None:
    """The last gap of this day that was long, or after which something was read or could not be read."""
    since = clock.now() - SHOWN_FOR
    gaps = select(Gap).where(Gap.instance_id == instance_id, Gap.ended_at >= since).order_by(Gap.id.desc())
    rooms = select(Room, RoomReading).join(RoomReading, RoomReading.room_id == Room.id)
    with reading() as session:
        gap = next(filter(_counts, session.scalars(gaps)), None)
        noted = session.execute(rooms.where(Room.instance_id == instance_id).order_by(Room.name, Room.id)).all()
    if gap is None:
        return None
    unread = [NotedRoom(room.token, room.name, each.reason) for room, each in noted if _failed(each, gap)]
    cut = [NotedRoom(room.token, room.name) for room, each in noted if (each.left_out_at or since) > since]
    return Told(gap, tuple(unread), tuple(cut))


def with_gap(shown: Mapping[str, Any], instance: Instance) -> dict[str, Any]:
    """A registration as platforms.status shows it, with the last gap of its instance, and what is wrong with that."""
    found = last(instance.id)
    problems = [*shown["problems"], *(str(sentence) for sentence in sentences(found, instance))]
    return {**shown, "last_gap": facts(found), "problems": problems}


def facts(told: Told | None) -> dict[str, Any] | None:
    """The last gap as JSON; None where there is nothing to tell."""
    if told is None:
        return None
    gap = told.gap
    return {
        "began_at": gap.began_at.isoformat(),
        "ended_at": gap.ended_at.isoformat(),
        "finished_at": None if gap.finished_at is None else gap.finished_at.isoformat(),
        "reason": gap.reason,
        "recovered": gap.recovered,
        "unread_rooms": [{"room": each.token, "name": each.name, "reason": each.reason} for each in told.unread],
        "cut_rooms": [{"room": each.token, "name": each.name} for each in told.cut],
    }


def sentences(told: Told | None, instance: Instance) -> list[Sentence]:
    """What an administrator should know of the last gap; empty where all was read."""
    if told is None:
        return []
    gap = told.gap
    found = [sentence for sentence in (_gap(gap, instance), _late(gap)) if sentence is not None]
    if told.unread:
        found.append(say("These rooms could not be read after the last gap: {rooms}.", rooms=listed(told.unread)))
    if told.cut:
        found.append(
            say(
                "After a gap not everything was answered in these rooms, because it was too old or too much: {rooms}.",
                rooms=listed(told.cut),
            )
        )
    return found


def listed(rooms: Iterable[NotedRoom]) -> str:
    """The names of rooms for a sentence, each with why it was not read; long lists are cut."""
    names = [f"{each.label} ({SENTENCES[each.reason]})" if each.reason in SENTENCES else each.label for each in rooms]
    more = len(names) - MOST_ROOMS
    return ", ".join(names[:MOST_ROOMS]) + (f", ... (+{more})" if more > 0 else "")


def _gap(gap: Gap, instance: Instance) -> Sentence | None:
    if gap.asked and gap.finished_at is not None and not gap.reason:
        return None
    began, ended = moment(gap.began_at), moment(gap.ended_at)
    if gap.finished_at is None:
        return say(
            "From {began} to {ended} events may have been lost; the rooms are being read.", began=began, ended=ended
        )
    if gap.reason == "no_service_user":
        return say(
            "From {began} to {ended} Parley took no events, and without a service user nobody can tell what was written "
            "then. Set one: `python manage.py instances service-user {name} --uid UID`.",
            began=began,
            ended=ended,
            name=instance.name,
        )
    if not gap.reason:
        return None
    return say(
        "From {began} to {ended} events may have been lost, and the rooms could not be read afterwards: {why}.",
        began=began,
        ended=ended,
        why=SENTENCES.get(gap.reason, gap.reason),
    )


def _late(gap: Gap) -> Sentence | None:
    if gap.reason or gap.asked or gap.ended_at - gap.began_at <= BACK:
        return None
    return say(
        "Parley took no events from {began} to {ended}. What was written before {moment} was not answered, because it "
        "was more than 15 minutes old.",
        began=moment(gap.began_at),
        ended=moment(gap.ended_at),
        moment=moment(gap.ended_at - BACK),
    )


def _counts(gap: Gap) -> bool:
    long = gap.ended_at - gap.began_at >= LONG
    failed = bool(gap.reason) and gap.reason != "no_service_user"
    return long or failed or gap.recovered > 0 or gap.finished_at is None


def _failed(noted: RoomReading, gap: Gap) -> bool:
    return bool(noted.reason) and noted.read_at >= gap.ended_at
