"""What bots owe a delivery and what they say to it: answers, and their parts, written before anything is sent.

An answer goes due -> running -> written -> done, failed or unknown. Once its parts stand the model is never asked again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Select, delete, select, update

from app.accounts.models import Instance
from app.bots.models import Bot
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import changed, clean_text, insert_once, reading, transaction
from app.infra.i18n import say
from app.infra.jobs import table
from app.platforms.base import Platform
from app.platforms.models import Registration, Room
from app.rooms.models import Answer, Part
from app.rooms.neutral import digest, neutralised
from app.rooms.split import split

MOST_PARTS = 8
BATCH = 500
TOO_LONG = say("The answer was longer than this; the rest was left out.")
BEGINS_LINE = re.compile(r"\s*(?:```|~~~|[-*+] |\d+[.)] |#{1,6} |>|\||\s{4})")


@dataclass(frozen=True)
class Place:
    """Where answers to one delivery go; only the first part of an answer is a reply to `reply_to`."""

    platform: Platform
    registration: Registration
    instance: Instance
    room: Room
    reply_to: int | None
    received_at: datetime

    @property
    def language(self) -> str:
        """In which language a bot's own sentences are said here."""
        return self.room.language or self.instance.language


@dataclass(frozen=True)
class Said:
    """What a bot says and how the delivery ends then; an empty text is not sent. `also` is stored together with it."""

    text: str
    reason: Reason
    also: Callable[[], None] = lambda: None

    def after(self, prefix: str) -> Said:
        """The same with a name in front; what must begin a line, such as a table, begins one."""
        if not prefix or not self.text.strip():
            return self
        gap = "\n\n" if BEGINS_LINE.match(self.text) else ""
        return replace(self, text=prefix + gap + self.text.lstrip("\n"))


Notice = Literal["thinking", "waits", "asks"]
NOTICES: Mapping[Notice, int] = {"thinking": -1, "waits": -2, "asks": -3}
"""What may be said besides the answer, once each for an answer, and the sequence of its part."""
KINDS: Mapping[int, Notice] = {sequence: kind for kind, sequence in NOTICES.items()}


@dataclass(frozen=True)
class Pause:
    """That a bot can't answer now: in `delay` seconds (`later`), or when something has happened (`waiting`).

    `notice` is said meanwhile, once for an answer. Without `hold` the room's later messages don't wait for this one.
    """

    state: Literal["later", "waiting"]
    reason: Reason
    delay: float = 0.0
    notice: tuple[Notice, str] | None = None
    hold: bool = True
    detail: str = ""


def owe(delivery_id: int, bot_ids: Sequence[int]) -> Sequence[Answer]:
    """The answers that a delivery is due, in order: made for `bot_ids` unless they stand already from an earlier try.

    None for a bot that was removed in this moment.
    """
    now = clock.now()
    with transaction() as session:
        # Held for as long as this takes: whoever removes one removes what is written here as well.
        standing = set(session.scalars(select(Bot.id).where(Bot.id.in_(bot_ids)).with_for_update(read=True)))
        for position, bot_id in enumerate(each for each in bot_ids if each in standing):
            row = {"delivery_id": delivery_id, "bot_id": bot_id, "position": position, "state": "due"}
            insert_once(session, table(Answer), {**row, "reason": "", "attempts": 0, "created_at": now})
        return session.scalars(_owed(delivery_id)).all()


def owed(delivery_id: int) -> Sequence[Answer]:
    """The answers of a delivery as they stand."""
    with reading() as session:
        return session.scalars(_owed(delivery_id)).all()


def turn_of(delivery_id: int) -> int | None:
    """The last turn that was run for a delivery."""
    query = select(Answer.turn_id).where(Answer.delivery_id == delivery_id, Answer.turn_id.is_not(None))
    with reading() as session:
        return session.scalar(query.order_by(Answer.position.desc()).limit(1))


def reopen(delivery_id: int) -> Sequence[Answer]:
    """For another try that an operator asked for: sends again what was refused or lost, and answers instead of an apology."""
    with transaction() as session:
        answers = session.scalars(_owed(delivery_id)).all()
        for answer in answers:
            parts = Part.answer_id == answer.id
            if answer.reason == Reason.APOLOGISED.value:
                session.execute(delete(Part).where(parts))
            elif answer.state == "done":
                continue
            lost = update(Part).where(parts, Part.state.in_(("refused", "unknown")))
            session.execute(lost.values(state="written", attempts=0))
            stands = session.scalar(select(Part.id).where(parts).limit(1)) is not None
            answer.state, answer.reason = "written" if stands else "due", Reason.ANSWERED.value
    return answers


def begin(answer: Answer, turn_id: int | None) -> None:
    """The model is about to be asked."""
    due = update(Answer).where(Answer.id == answer.id, Answer.state.in_(("due", "running")))
    with transaction() as session:
        session.execute(due.values(state="running", turn_id=turn_id, attempts=Answer.attempts + 1))


def write(answer: Answer, place: Place, said: Said) -> None:
    """Writes the parts of what is said, and what is stored with it, in one transaction; does nothing when parts stand."""
    now = clock.now()
    texts = _messages(neutralised(clean_text(said.text)), TOO_LONG.text(place.language), place.platform.max_message)
    due = update(Answer).where(Answer.id == answer.id, Answer.state.in_(("due", "running")))
    values = {"state": "written" if texts else "done", "reason": said.reason.value}
    with transaction() as session:
        if changed(session.execute(due.values(values))) != 1:
            return
        session.add_all(_part(answer, place, sequence, text, now) for sequence, text in enumerate(texts))
        said.also()


def notify(answer: Answer, place: Place, kind: Notice, text: str) -> bool:
    """Writes a notice, ready to be sent; False when it was written before: each kind is said once for an answer."""
    with transaction() as session:
        sequence = NOTICES[kind]
        stands = select(Part.id).where(Part.answer_id == answer.id, Part.sequence == sequence)
        if session.scalar(stands) is not None:
            return False
        session.add(_part(answer, place, sequence, neutralised(clean_text(text)), clock.now()))
    return True


def give_up(answer: Answer, reason: Reason) -> None:
    """Ends an answer that can't be given."""
    due = update(Answer).where(Answer.id == answer.id, Answer.state.in_(("due", "running")))
    with transaction() as session:
        session.execute(due.values(state="failed", reason=reason.value))


def forget(days: int) -> int:
    """Deletes answers that are older than `days`, with their parts; gives their number."""
    before = clock.now() - timedelta(days=days)
    forgotten = 0
    while ids := _older(before):
        with transaction() as session:
            session.execute(delete(Part).where(Part.answer_id.in_(ids)))
            forgotten += changed(session.execute(delete(Answer).where(Answer.id.in_(ids))))
    return forgotten


def blank(instance_id: int, room: str, *, before: datetime) -> None:
    """Forgets what was said in a room; a part that is still to be sent keeps its text."""
    here = (Part.instance_id == instance_id, Part.room == room, Part.created_at < before)
    over = Part.state.in_(("sent", "refused", "unknown"))
    with transaction() as session:
        session.execute(update(Part).where(*here, over).values(text=""))


def _messages(text: str, too_long: str, limit: int) -> list[str]:
    # Whatever a model wrote: no more of it is looked at than could be sent.
    most = (MOST_PARTS + 1) * limit
    text = text.strip() if len(text) > most else text
    messages = split(text[:most], limit)
    if len(messages) <= MOST_PARTS and len(text) <= most:
        return messages
    messages = split(text[:most], limit - len(too_long) - 2)[:MOST_PARTS]
    return [*messages[:-1], f"{messages[-1]}\n\n{too_long}"]


def _part(answer: Answer, place: Place, sequence: int, text: str, now: datetime) -> Part:
    text_digest = digest(text)
    name = f"{answer.id}\0{answer.created_at.isoformat()}\0{sequence}\0{text_digest}"
    return Part(
        answer_id=answer.id,
        sequence=sequence,
        registration_id=place.registration.id,
        instance_id=place.room.instance_id,
        room=place.room.token,
        bot_id=answer.bot_id,
        kind=KINDS.get(sequence, "answer"),
        reply_to=place.reply_to if sequence <= 0 else None,
        text=text,
        text_digest=text_digest,
        reference_id=hashlib.sha256(name.encode()).hexdigest(),
        created_at=now,
    )


def _owed(delivery_id: int) -> Select[Answer]:
    return select(Answer).where(Answer.delivery_id == delivery_id).order_by(Answer.position, Answer.id)


def _older(before: datetime) -> Sequence[int]:
    with reading() as session:
        return session.scalars(select(Answer.id).where(Answer.created_at < before).limit(BATCH)).all()
