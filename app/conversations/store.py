"""Writing into conversations and erasing from them. `history` and `search` read; they are offered here, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, or_, select, update
from sqlalchemy.exc import IntegrityError

from app.conversations import expiry, transcript, words
from app.conversations.history import LARGEST_ID, history, thread_key
from app.conversations.models import RoomMessage
from app.conversations.search import search
from app.infra import clock
from app.infra.db import changed, clean_text, insert_once, reading, transaction
from app.infra.errors import NotFound
from app.infra.i18n import say
from app.infra.jobs import table
from app.settings import store as settings

__all__ = ["blank", "erase", "history", "purge", "say_bot", "say_user", "search"]

LONGEST_SPEAKER = 255
BATCH = 500


def say_user(
    bot_id: int,
    instance_id: int,
    room: str,
    thread: int,
    *,
    actor: str,
    speaker: str,
    text: str,
    quoted: str | None = None,
    message_id: int | None = None,
    delivery_id: int | None = None,
) -> int:
    """Stores what a person ("users/ada") said to a bot; gives the row's id, that of the first time when repeated.

    Raises NotFound when the bot is gone.
    """
    return _say(
        bot_id,
        instance_id,
        room=room,
        thread=thread,
        role="user",
        actor=actor,
        speaker=speaker,
        text=text,
        quoted=None if quoted is None else clean_text(quoted),
        message_id=message_id if message_id is not None and 0 <= message_id <= LARGEST_ID else None,
        delivery_id=delivery_id,
    )


def say_bot(
    bot_id: int,
    instance_id: int,
    room: str,
    thread: int,
    *,
    mention_name: str,
    speaker: str,
    text: str,
    sources: Iterable[tuple[str, str]] = (),
    incomplete: bool = False,
    delivery_id: int | None = None,
) -> int:
    """Stores what a bot answered, with the (collection, node) pairs it came from; gives the row's id as say_user does."""
    return _say(
        bot_id,
        instance_id,
        room=room,
        thread=thread,
        role="assistant",
        actor=f"bots/{mention_name}",
        speaker=speaker,
        text=text,
        sources=[list(source) for source in sources],
        incomplete=incomplete,
        delivery_id=delivery_id,
    )


def erase(
    instance_id: int,
    *,
    room: str | None = None,
    thread: int | None = None,
    bot_id: int | None = None,
    actor: str | None = None,
    before: datetime | None = None,
) -> int:
    """Deletes what matches all that is given (a room or an actor at least); gives the number of messages.

    With `actor`, the answers to what it said go along; `before` leaves what was said at that moment or later.
    """
    if room is None and actor is None:
        raise ValueError("erase needs a room or an actor")
    wanted = {"room": room, "thread": thread, "bot_id": bot_id, "actor": actor}
    conditions = [RoomMessage.instance_id == instance_id]
    conditions += [getattr(RoomMessage, name) == value for name, value in wanted.items() if value is not None]
    if before is not None:
        conditions.append(RoomMessage.created_at < before)
    query = select(RoomMessage.id, RoomMessage.bot_id, RoomMessage.delivery_id).where(*conditions)
    return _delete_all(query, answers=actor is not None)


def blank(instance_id: int, room: str, *, actor: str, since: datetime) -> int:
    """Empties what the actor said in the room since then, and what others quoted of it; gives the number of messages."""
    here = (RoomMessage.instance_id == instance_id, RoomMessage.room == room, RoomMessage.created_at >= since)
    with transaction() as session:
        names = session.scalars(select(RoomMessage.speaker).where(*here, RoomMessage.actor == actor).distinct()).all()
        quoting = [RoomMessage.quoted.startswith(f"{name}:", autoescape=True) for name in names]
        if quoting:
            session.execute(update(RoomMessage).where(*here, or_(*quoting)).values(quoted=None))
        mine = update(RoomMessage).where(*here, RoomMessage.actor == actor, RoomMessage.text != "")
        return changed(session.execute(mine.values(text="", folded="", quoted=None)))


def blank_gone(instance_id: int, room: str, *, since: datetime, gone: Callable[[int | None], bool]) -> int:
    """Empties what people said since then whose message is gone from the room, and quotes of it; gives the number."""
    here = (RoomMessage.instance_id == instance_id, RoomMessage.room == room, RoomMessage.created_at >= since)
    with reading() as session:
        rows = session.scalars(select(RoomMessage).where(*here, RoomMessage.text != "")).all()
    doomed = [row for row in rows if gone(row.message_id)]
    with transaction() as session:
        for row in doomed:
            quoting = update(RoomMessage).where(*here, RoomMessage.quoted == f"{row.speaker}: {row.text}")
            session.execute(quoting.values(quoted=None))
            mine = update(RoomMessage).where(RoomMessage.id == row.id)
            session.execute(mine.values(text="", folded="", quoted=None))
    return len(doomed)


def purge() -> int:
    """Deletes what is older than the setting conversation_days, and what has expired; gives the number of messages."""
    before = clock.now() - timedelta(days=settings.get("conversation_days"))
    old = select(RoomMessage.id, RoomMessage.bot_id, RoomMessage.delivery_id).where(RoomMessage.created_at < before)
    return _delete_all(old) + expiry.purge() + transcript.purge()


def _say(bot_id: int, instance_id: int, **values: Any) -> int:
    text = clean_text(values["text"])
    row = {"quoted": None, "message_id": None, "sources": [], "incomplete": False} | values
    row |= {
        "bot_id": bot_id,
        "instance_id": instance_id,
        "thread": thread_key(values["thread"]),
        "text": text,
        "folded": words.fold(text),
        "speaker": clean_text(values["speaker"])[:LONGEST_SPEAKER],
        "actor": clean_text(values["actor"])[:LONGEST_SPEAKER],
        "created_at": clock.now(),
    }
    with transaction() as session:
        row["expires_at"] = expiry.ends_at(instance_id, values["room"])
        try:
            with session.begin_nested():
                made = insert_once(session, table(RoomMessage), row)
        except IntegrityError:
            raise NotFound(say("This bot was removed.")) from None
        return made if made is not None else session.scalars(_first_time(row)).one()


def _first_time(row: dict[str, Any]) -> Select[int]:
    return select(RoomMessage.id).where(
        RoomMessage.bot_id == row["bot_id"],
        RoomMessage.delivery_id == row["delivery_id"],
        RoomMessage.role == row["role"],
    )


def _delete_all(query: Select[int, int, int | None], *, answers: bool = False) -> int:
    """Deletes in batches, each its own transaction, so that nobody waits for a long one."""
    done = 0
    while True:
        with reading() as session:
            rows = session.execute(query.order_by(RoomMessage.id).limit(BATCH)).all()
        if not rows:
            return done
        doomed: list[ColumnElement[bool]] = [RoomMessage.id.in_([id for id, _, _ in rows])]
        if answers:
            doomed += _exchanges([(bot_id, delivery_id) for _, bot_id, delivery_id in rows])
        with transaction() as session:
            done += changed(session.execute(delete(RoomMessage).where(or_(*doomed))))


def _exchanges(pairs: Sequence[tuple[int, int | None]]) -> list[ColumnElement[bool]]:
    by_bot: dict[int, list[int]] = {}
    for bot_id, delivery_id in pairs:
        if delivery_id is not None:
            by_bot.setdefault(bot_id, []).append(delivery_id)
    return [(RoomMessage.bot_id == bot) & RoomMessage.delivery_id.in_(ids) for bot, ids in by_bot.items()]
