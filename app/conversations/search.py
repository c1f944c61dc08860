"""Finding what was said in a room: any word that says something, most words first, then the newest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, or_, select

from app.conversations import words
from app.conversations.history import MayRead, not_of, readable, within
from app.conversations.models import RoomMessage
from app.infra.db import reading

DEFAULT_LIMIT = 5
# The newest messages with one of the words; a room that has more of them in its retention is searched no deeper.
MOST_CANDIDATES = 1000
BATCH = 50


def search(
    bot_id: int,
    instance_id: int,
    room: str,
    query: str,
    *,
    limit: int = DEFAULT_LIMIT,
    from_name: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    may_read: MayRead | None = None,
    without_delivery: int | None = None,
) -> list[RoomMessage]:
    """The bot's messages of all threads of a room that have words of `query`; the newest ones when it has no words.

    `from_name` is part of a speaker's name, or an id; `since` and `until` are inclusive. What may not be read is left
    out, and so is what `without_delivery` said. At most MOST_CANDIDATES messages are ranked.
    """
    conditions = [*within(bot_id, instance_id, room, since=since), RoomMessage.text != ""]
    if until is not None:
        conditions.append(RoomMessage.created_at <= until)
    if without_delivery is not None:
        conditions.append(not_of(without_delivery))
    if from_name and from_name.strip():
        conditions.append(_spoken_by(conditions, from_name))
    ids = _ranked(conditions, words.wanted(query))
    found: list[RoomMessage] = []
    for message in _loaded(ids):
        if len(found) >= limit:
            break
        if readable(message, may_read):
            found.append(message)
    return found


def _spoken_by(conditions: Iterable[ColumnElement[bool]], name: str) -> ColumnElement[bool]:
    wanted = words.fold(name).strip().removeprefix("@").strip('"')
    with reading() as session:
        pairs = session.execute(select(RoomMessage.speaker, RoomMessage.actor).where(*conditions).distinct()).all()
    speakers = [speaker for speaker, _ in pairs if wanted in words.fold(speaker)]
    actors = [actor for _, actor in pairs if words.fold(actor) == wanted or words.fold(actor).endswith(f"/{wanted}")]
    return RoomMessage.speaker.in_(speakers) | RoomMessage.actor.in_(actors)


def _ranked(conditions: Iterable[ColumnElement[bool]], wanted: tuple[words.Wanted, ...]) -> Sequence[int]:
    query = select(RoomMessage.id, RoomMessage.folded).where(*conditions)
    if wanted:
        query = query.where(or_(*(RoomMessage.folded.contains(word.text, autoescape=True) for word in wanted)))
    ranked: list[tuple[int, int]] = []
    with reading() as session:
        for id, folded in session.execute(query.order_by(RoomMessage.id.desc()).limit(MOST_CANDIDATES)):
            count = words.matches(wanted, folded)
            if count or not wanted:
                ranked.append((-count, -id))
    return [-id for _, id in sorted(ranked)]


def _loaded(ids: Sequence[int]) -> Iterator[RoomMessage]:
    for at in range(0, len(ids), BATCH):
        batch = ids[at : at + BATCH]
        with reading() as session:
            rows = {row.id: row for row in session.scalars(select(RoomMessage).where(RoomMessage.id.in_(batch)))}
        yield from (rows[id] for id in batch if id in rows)
