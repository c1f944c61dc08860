"""The transcript of a room: what everybody says there, kept only while a moderator wants it (product.md K10).

It is erased with the history, obeys the room's expiration and the retention of conversations, and loses what is deleted
in the room. While it is off nothing is stored and nothing of it is searched; what was kept stays until it is forgotten
or too old, so that switching it on again is no loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select

from app.conversations import expiry, words
from app.conversations.history import LARGEST_ID, MayRead, thread_key
from app.conversations.models import Transcript, TranscriptMessage
from app.infra import clock
from app.infra.db import changed, clean_text, insert_once, reading, transaction
from app.infra.jobs import table
from app.settings import store as settings

LONGEST_SPEAKER = 255
MOST_CANDIDATES = 1000
BATCH = 500


def since(instance_id: int, room: str) -> datetime | None:
    """Since when the room's transcript is on; None while it is off."""
    with reading() as session:
        return session.scalar(select(Transcript.since).where(*_of(Transcript, instance_id, room)))


def switch_on(instance_id: int, room: str, *, actor: str) -> bool:
    """Keeps what is said from now on; `actor` is the moderator, as users/ada. False when it was on already."""
    row = {"instance_id": instance_id, "room": room, "actor": actor[:LONGEST_SPEAKER], "since": clock.now()}
    with transaction() as session:
        return insert_once(session, table(Transcript), row) is not None


def switch_off(instance_id: int, room: str) -> bool:
    """Keeps nothing more, and shows nothing of what was kept. False when it was off already."""
    with transaction() as session:
        return changed(session.execute(delete(Transcript).where(*_of(Transcript, instance_id, room)))) > 0


def forget(instance_id: int, room: str) -> int:
    """Erases all that was kept of the room; gives the number of messages. On or off stays as it is."""
    return erase(instance_id, room=room)


def note(
    instance_id: int,
    room: str,
    *,
    delivery_id: int,
    actor: str,
    speaker: str,
    text: str,
    thread: int = 0,
    message_id: int | None = None,
    sources: Iterable[tuple[str, str]] = (),
) -> bool:
    """Keeps a message, once however often its delivery is tried; False where nothing is kept."""
    text = clean_text(text)
    if not text.strip():
        return False
    row = {
        "instance_id": instance_id,
        "room": room,
        "thread": thread_key(thread),
        "actor": clean_text(actor)[:LONGEST_SPEAKER],
        "speaker": clean_text(speaker)[:LONGEST_SPEAKER],
        "text": text,
        "folded": words.fold(text),
        "message_id": message_id if message_id is not None and 0 <= message_id <= LARGEST_ID else None,
        "delivery_id": delivery_id,
        "sources": [list(source) for source in sources],
        "created_at": clock.now(),
    }
    with transaction() as session:
        # Within the transaction: what is switched off while this is written must not be kept.
        on = select(Transcript.id).where(*_of(Transcript, instance_id, room)).with_for_update()
        if session.scalar(on) is None:
            return False
        row["expires_at"] = expiry.ends_at(instance_id, room)
        return insert_once(session, table(TranscriptMessage), row) is not None


def search(
    instance_id: int,
    room: str,
    query: str,
    *,
    limit: int,
    from_name: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    may_read: MayRead | None = None,
    without_delivery: int | None = None,
) -> list[TranscriptMessage]:
    """The messages with most words of the query, then the newest; nothing while the transcript is off.

    `since` and `until` are inclusive; what came from a source that may not be read is left out.
    """
    with reading() as session:
        if session.scalar(select(Transcript.id).where(*_of(Transcript, instance_id, room))) is None:
            return []
        conditions = [*_of(TranscriptMessage, instance_id, room), _alive(), TranscriptMessage.text != ""]
        conditions += [] if since is None else [TranscriptMessage.created_at >= since]
        conditions += [] if until is None else [TranscriptMessage.created_at <= until]
        if without_delivery is not None:
            conditions.append(TranscriptMessage.delivery_id != without_delivery)
        newest = select(TranscriptMessage).where(*conditions).order_by(TranscriptMessage.id.desc())
        rows = session.scalars(newest.limit(MOST_CANDIDATES)).all()
    wanted = words.wanted(query)
    ranked = []
    for row in rows:
        count = words.matches(wanted, row.folded)
        if (count or not wanted) and words.is_of(from_name, row.speaker, row.actor) and _readable(row, may_read):
            ranked.append((-count, -row.id, row))
    return [row for _, _, row in sorted(ranked, key=lambda each: each[:2])[:limit]]


def erase(
    instance_id: int, *, room: str | None = None, actor: str | None = None, before: datetime | None = None
) -> int:
    """Deletes what matches all that is given (a room or an actor at least); gives the number of messages."""
    if room is None and actor is None:
        raise ValueError("erase needs a room or an actor")
    conditions: list[ColumnElement[bool]] = [TranscriptMessage.instance_id == instance_id]
    conditions += [] if room is None else [TranscriptMessage.room == room]
    conditions += [] if actor is None else [TranscriptMessage.actor == actor]
    conditions += [] if before is None else [TranscriptMessage.created_at < before]
    return _delete_all(conditions)


def blank(instance_id: int, room: str, *, actor: str, since: datetime) -> int:
    """Deletes what the actor said in the room since then: one of these is gone there, and nobody tells which."""
    here = (*_of(TranscriptMessage, instance_id, room), TranscriptMessage.created_at >= since)
    return _delete_all([*here, TranscriptMessage.actor == actor])


def blank_gone(instance_id: int, room: str, *, since: datetime, gone: Callable[[int | None], bool]) -> int:
    """Deletes what was said since then whose message is gone from the room; gives the number of messages."""
    here = (*_of(TranscriptMessage, instance_id, room), TranscriptMessage.created_at >= since)
    with reading() as session:
        rows = session.execute(select(TranscriptMessage.id, TranscriptMessage.message_id).where(*here)).all()
    doomed = [id for id, message_id in rows if gone(message_id)]
    return sum(_delete_all([TranscriptMessage.id.in_(doomed[at : at + BATCH])]) for at in range(0, len(doomed), BATCH))


def purge() -> int:
    """Deletes what has expired, and what is older than the setting conversation_days; gives the number of messages."""
    before = clock.now() - timedelta(days=settings.get("conversation_days"))
    gone = (TranscriptMessage.created_at < before) | (TranscriptMessage.expires_at <= clock.now())
    return _delete_all([gone])


def _of(
    model: type[Transcript] | type[TranscriptMessage], instance_id: int, room: str
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return model.instance_id == instance_id, model.room == room


def _alive() -> ColumnElement[bool]:
    return TranscriptMessage.expires_at.is_(None) | (TranscriptMessage.expires_at > clock.now())


def _readable(row: TranscriptMessage, may_read: MayRead | None) -> bool:
    return may_read is None or all(may_read(collection, node) for collection, node in row.sources)


def _delete_all(conditions: Iterable[ColumnElement[bool]]) -> int:
    """Deletes in batches, each its own transaction, so that nobody waits for a long one."""
    query = select(TranscriptMessage.id).where(*conditions).order_by(TranscriptMessage.id).limit(BATCH)
    done = 0
    while True:
        with reading() as session:
            ids = session.scalars(query).all()
        if not ids:
            return done
        with transaction() as session:
            done += changed(session.execute(delete(TranscriptMessage).where(TranscriptMessage.id.in_(ids))))
