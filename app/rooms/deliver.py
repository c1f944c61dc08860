"""What a bot says in a room: the parts of an answer are rows before they are sent, so that each is sent once or told apart.

An answer goes due -> running -> written -> done, failed or unknown; a part written -> sending -> sent, refused or unknown.
Once parts stand the model is never asked again. `sending` is committed right before the post: whoever finds it later
can't know whether the message stands in the room, so that part ends as unknown and is never sent again.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Select, delete, select, update

from app.accounts.models import Instance
from app.inbox.again import again
from app.inbox.reasons import Reason
from app.infra import clock
from app.infra.db import changed, clean_text, insert_once, reading, transaction
from app.infra.i18n import say
from app.infra.jobs import table
from app.platforms import registrations, rooms
from app.platforms.base import Outcome, Platform
from app.platforms.models import Registration, Room
from app.rooms.models import Answer, Part
from app.rooms.neutral import digest, neutralised
from app.rooms.split import split

MOST_PARTS = 8
TOO_LONG = say("The answer was longer than this; the rest was left out.")
BATCH = 500
PACE_SECONDS = 1.0
TRIES = 4
RETRY_SECONDS = (2.0, 60.0, 900.0)
GIVEN_UP_AFTER = timedelta(days=1)
UNAUTHORISED = 401
GONE = 404
BAD_REQUEST = 400
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


@dataclass(frozen=True)
class Sent:
    """What became of an answer: over (done, failed, unknown), to be sent `later`, or in another worker's hands (lost)."""

    state: Literal["done", "failed", "unknown", "later", "lost"]
    reason: Reason
    delay: float = 0.0
    detail: str = ""


def owe(delivery_id: int, bot_ids: Sequence[int]) -> Sequence[Answer]:
    """The answers that a delivery is due, in order: made for `bot_ids` unless they stand already from an earlier try."""
    now = clock.now()
    with transaction() as session:
        for position, bot_id in enumerate(bot_ids):
            row = {"delivery_id": delivery_id, "bot_id": bot_id, "position": position, "state": "due"}
            insert_once(session, table(Answer), {**row, "reason": "", "attempts": 0, "created_at": now})
        return session.scalars(_owed(delivery_id)).all()


def owed(delivery_id: int) -> Sequence[Answer]:
    """The answers of a delivery as they stand."""
    with reading() as session:
        return session.scalars(_owed(delivery_id)).all()


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


def send(answer_id: int, place: Place, *, renew: Callable[[], bool]) -> Sent:
    """Sends the parts that are written, in order, at most one a second. `renew` keeps the lane; False stops at once."""
    last_post = 0.0
    for part in _parts(answer_id):
        if part.state == "sending":
            _close(part, "unknown")
        if part.state != "written":
            continue
        if clock.now() - place.received_at > GIVEN_UP_AFTER:
            return _refuse(answer_id, Reason.WAITED_TOO_LONG)
        waiting = paused(place)
        if waiting is not None:
            return waiting
        clock.sleep(max(0.0, last_post + PACE_SECONDS - clock.monotonic()))
        if not renew() or not _claim(part):
            return Sent("lost", Reason.INTERRUPTED)
        last_post = clock.monotonic()
        stopped = _settle(part, place, _post(part, place))
        if stopped is not None:
            return stopped
    return over(answer_id)


def give_up(answer: Answer, reason: Reason) -> Sent:
    """Ends an answer that can't be given."""
    due = update(Answer).where(Answer.id == answer.id, Answer.state.in_(("due", "running")))
    with transaction() as session:
        session.execute(due.values(state="failed", reason=reason.value))
    return Sent("failed", reason)


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


def paused(place: Place) -> Sent | None:
    """That nothing may be sent now, because the server refused our signature lately."""
    until = registrations.blocked_until(place.registration.id)
    return None if until is None else Sent("later", Reason.BREAKER_OPEN, delay=_until(until))


def turn_of(delivery_id: int) -> int | None:
    """The last turn that was run for a delivery."""
    query = select(Answer.turn_id).where(Answer.delivery_id == delivery_id, Answer.turn_id.is_not(None))
    with reading() as session:
        return session.scalar(query.order_by(Answer.position.desc()).limit(1))


def _messages(text: str, too_long: str, limit: int) -> list[str]:
    messages = split(text, limit)
    if len(messages) <= MOST_PARTS:
        return messages
    messages = split(text, limit - len(too_long) - 2)[:MOST_PARTS]
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
        reply_to=place.reply_to if sequence == 0 else None,
        text=text,
        text_digest=text_digest,
        reference_id=hashlib.sha256(name.encode()).hexdigest(),
        created_at=now,
    )


def _post(part: Part, place: Place) -> Outcome:
    address = registrations.address(place.registration)

    def post(reply_to: int | None) -> Outcome:
        room, reference_id = place.room.token, part.reference_id
        return place.platform.post(address, room, part.text, reply_to=reply_to, reference_id=reference_id)

    outcome = post(part.reply_to)
    if part.reply_to is not None and outcome.kind == "permanent" and outcome.status == BAD_REQUEST:
        # The message that we reply to may have expired meanwhile; the answer is still wanted.
        return post(None)
    return outcome


def _settle(part: Part, place: Place, outcome: Outcome) -> Sent | None:
    """Notes what became of a post; what it gives ends this round of sending."""
    tries = part.attempts + 1
    again_later = (outcome.kind == "retryable" or outcome.status == UNAUTHORISED) and tries < TRIES
    state = {"success": "sent", "ambiguous": "unknown"}.get(outcome.kind, "written" if again_later else "refused")
    # What we know of a message must not get lost in a moment in which the database is busy.
    again(lambda: _close(part, state, outcome.status))
    again(lambda: registrations.posted(part.registration_id, outcome))
    if state in ("sent", "unknown"):
        return None
    if again_later:
        waiting = paused(place)
        delay = max(RETRY_SECONDS[tries - 1] * random.uniform(0.8, 1.2), outcome.retry_after or 0.0)
        return replace(waiting or Sent("later", Reason.SEND_LATER, delay=delay), detail=outcome.reason)
    if outcome.status == GONE:
        rooms.unbind(place.room.id, part.registration_id)
    reason = {UNAUTHORISED: Reason.UNAUTHORISED, GONE: Reason.ROOM_GONE}.get(outcome.status or 0, Reason.REFUSED)
    return _refuse(part.answer_id, reason, detail=outcome.reason)


def _refuse(answer_id: int, reason: Reason, *, detail: str = "") -> Sent:
    """Gives up what was not sent of an answer."""
    left = update(Part).where(Part.answer_id == answer_id, Part.state == "written")
    with transaction() as session:
        session.execute(left.values(state="refused"))
        session.execute(update(Answer).where(Answer.id == answer_id).values(state="failed", reason=reason.value))
    return Sent("failed", reason, detail=detail)


def over(answer_id: int) -> Sent:
    """How an answer ended whose parts are all sent, given up or lost; closes it."""
    with transaction() as session:
        states = session.scalars(select(Part.state).where(Part.answer_id == answer_id)).all()
        answer = session.get_one(Answer, answer_id)
        if "unknown" in states:
            answer.state, answer.reason = "unknown", Reason.REPLY_LOST.value
        elif answer.state == "written":
            answer.state = "done"
        state, reason = answer.state, next(reason for reason in Reason if reason == answer.reason)
    return Sent("unknown" if state == "unknown" else "failed" if state == "failed" else "done", reason)


def _claim(part: Part) -> bool:
    """Says that this part is being sent; False when somebody else does."""
    written = update(Part).where(Part.id == part.id, Part.state == "written")
    with transaction() as session:
        return changed(session.execute(written.values(state="sending", attempts=Part.attempts + 1))) == 1


def _close(part: Part, state: str, status: int | None = None) -> None:
    now = clock.now()
    # Who posted knows best: its success is noted also where another worker has given this part up as unknown.
    ours = update(Part).where(Part.id == part.id, Part.state.in_(("sending", "unknown")))
    with transaction() as session:
        session.execute(ours.values(state=state, status=status, sent_at=now if state == "sent" else None))


def _until(moment: datetime) -> float:
    return max(1.0, (moment - clock.now()).total_seconds() + random.uniform(0.0, 3.0))


def _owed(delivery_id: int) -> Select[Answer]:
    return select(Answer).where(Answer.delivery_id == delivery_id).order_by(Answer.position, Answer.id)


def _parts(answer_id: int) -> Sequence[Part]:
    with reading() as session:
        return session.scalars(select(Part).where(Part.answer_id == answer_id).order_by(Part.sequence)).all()


def _older(before: datetime) -> Sequence[int]:
    with reading() as session:
        return session.scalars(select(Answer.id).where(Answer.created_at < before).limit(BATCH)).all()
