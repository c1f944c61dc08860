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

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.orm import Session

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
from app.rooms.neutral import ZERO_WIDTH, digest, neutralised
from app.rooms.split import split

MOST_PARTS = 8
# So many of them may be said while the rest is still being made; what a server has made of them by cutting counts no more.
MOST_PIECES = 5
BATCH = 500
TOO_LONG = say("The answer was longer than this; the rest was left out.")
BEGINS_LINE = re.compile(r"\s*(?:```|~~~|[-*+] |\d+[.)] |#{1,6} |>|\||\s{4})")


@dataclass(frozen=True)
class Place:
    """Where answers to one delivery go; only the first part of an answer is a reply to `reply_to`, but in a `thread`
    each is, so that it stays there."""

    platform: Platform
    registration: Registration
    instance: Instance
    room: Room
    reply_to: int | None
    received_at: datetime
    thread: int | None = None

    @property
    def language(self) -> str:
        """In which language a bot's own sentences are said here."""
        return self.room.language or self.instance.language


def nothing() -> None:
    """Stores nothing besides."""


@dataclass(frozen=True)
class Said:
    """What a bot says and how the delivery ends then; an empty text is not sent. `also` is stored together with it.

    `continues`: something of the same answer was said before; `wait`: seconds in which the server takes nothing.
    """

    text: str
    reason: Reason
    also: Callable[[], None] = nothing
    continues: bool = False
    wait: float = 0.0

    def after(self, prefix: str) -> Said:
        """The same with a name in front; what must begin a line, such as a table, begins one."""
        return self if self.continues else replace(self, text=prefixed(self.text, prefix))


def prefixed(text: str, prefix: str) -> str:
    """The text with a name in front; what must begin a line, such as a table, begins one."""
    if not prefix or not text.strip():
        return text
    gap = "\n\n" if BEGINS_LINE.match(text) else ""
    return prefix + gap + text.lstrip("\n")


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
    due = update(Answer).where(Answer.id == answer.id, Answer.state.in_(("due", "running")))
    with transaction() as session:
        stand = _standing(session, answer)
        most = MOST_PARTS - min(stand, MOST_PIECES)
        texts = _messages(said.text, TOO_LONG.text(place.language), place.platform.max_message, most=most)
        values = {"state": "written" if texts or stand else "done", "reason": said.reason.value}
        if changed(session.execute(due.values(values))) != 1:
            return
        _add(session, answer, place, texts)
        said.also()


def add(answer: Answer, place: Place, text: str, *, turn_id: int | None) -> int:
    """Writes the next piece of an answer that is still being made, ready to be sent; gives the number of its parts.

    0 where this turn may no longer speak: another worker runs one for the same answer.
    """
    mine = update(Answer).where(Answer.id == answer.id, Answer.state == "running", Answer.turn_id == turn_id)
    with transaction() as session:
        if changed(session.execute(mine.values(state="running"))) != 1:
            return 0
        most = max(1, MOST_PARTS - 1 - _standing(session, answer))
        texts = _messages(text, TOO_LONG.text(place.language), place.platform.max_message, most=most)
        _add(session, answer, place, texts)
    return len(texts)


def standing(answer: Answer) -> int:
    """How many parts of the answer itself are written."""
    with reading() as session:
        return _standing(session, answer)


def has_spoken(answer: Answer) -> bool:
    """Whether a part of the answer itself stands in the room, or may. What was written and never sent is taken back."""
    mine = (Part.answer_id == answer.id, Part.sequence >= 0)
    with transaction() as session:
        stood = session.scalar(select(Part.id).where(*mine, Part.state != "written").limit(1)) is not None
        if not stood:
            session.execute(delete(Part).where(*mine))
    return stood


def said(answer: Answer) -> str:
    """What was said of an answer, as it stands in the room."""
    mine = (Part.answer_id == answer.id, Part.sequence >= 0, Part.state != "refused")
    with reading() as session:
        texts = session.scalars(select(Part.text).where(*mine).order_by(Part.sequence)).all()
    return "\n\n".join(texts).replace(ZERO_WIDTH, "")


def notify(answer: Answer, place: Place, kind: Notice, text: str) -> bool:
    """Writes a notice, ready to be sent; False when it was written before: each kind is said once for an answer."""
    with transaction() as session:
        sequence = NOTICES[kind]
        stands = select(Part.id).where(Part.answer_id == answer.id, Part.sequence == sequence)
        if session.scalar(stands) is not None:
            return False
        text = neutralised(clean_text(text))
        session.add(_part(answer, place, sequence, text, clock.now(), is_reply=True))
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


def _messages(text: str, too_long: str, limit: int, *, most: int) -> list[str]:
    text = neutralised(clean_text(text))
    # Whatever a model wrote: no more of it is looked at than could be sent.
    longest = (most + 1) * limit
    text = text.strip() if len(text) > longest else text
    messages = split(text[:longest], limit)
    if len(messages) <= most and len(text) <= longest:
        return messages
    messages = split(text[:longest], limit - len(too_long) - 2)[:most]
    return [*messages[:-1], f"{messages[-1]}\n\n{too_long}"]


def _standing(session: Session, answer: Answer) -> int:
    """How many parts of the answer itself were written."""
    mine = (Part.answer_id == answer.id, Part.sequence >= 0)
    return session.scalar(select(func.count()).select_from(Part).where(*mine)) or 0


def _add(session: Session, answer: Answer, place: Place, texts: Sequence[str]) -> None:
    """The next parts of an answer; the first of all is a reply, unless a notice that it is worked on was one."""
    now = clock.now()
    first = _standing(session, answer)
    thinking = select(Part.id).where(Part.answer_id == answer.id, Part.sequence == NOTICES["thinking"])
    replied = first > 0 or session.scalar(thinking) is not None
    for number, text in enumerate(texts):
        is_reply = place.thread is not None or (not replied and number == 0)
        session.add(_part(answer, place, first + number, text, now, is_reply=is_reply))


def _part(answer: Answer, place: Place, sequence: int, text: str, now: datetime, *, is_reply: bool) -> Part:
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
        reply_to=place.reply_to if is_reply else None,
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
