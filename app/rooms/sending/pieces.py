"""A message that the server found too long becomes shorter ones in its place; those after it move up."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from app.infra.db import changed, transaction
from app.rooms.models import Part
from app.rooms.neutral import digest
from app.rooms.split import split

# A server that does not take this much takes nothing.
SMALLEST = 1000
MOST_ROWS = 64


def divide(part: Part) -> bool:
    """Writes a part that is being sent as pieces of half its length, each with a reference of its own.

    False, and nothing is changed, where it is too short for that, where the answer would become too many messages, or
    where the part is no longer in the caller's hands.
    """
    if len(part.text) <= SMALLEST:
        return False
    texts = split(part.text, (len(part.text) + 1) // 2)
    ours = update(Part).where(Part.id == part.id, Part.state == "sending", Part.claimed_at == part.claimed_at)
    first = {"state": "written", "attempts": 0, "claimed_at": None, **_values(part, texts, 0)}
    with transaction() as session:
        rows = session.scalar(select(func.count()).where(Part.answer_id == part.answer_id)) or 0
        if rows + len(texts) - 1 > MOST_ROWS or changed(session.execute(ours.values(first))) != 1:
            return False
        _move_up(session, part, len(texts) - 1)
        session.add_all(_piece(part, texts, number) for number in range(1, len(texts)))
    return True


def _move_up(session: Session, part: Part, places: int) -> None:
    """The last one first: no two parts may have one place, not even for a moment."""
    behind = select(Part.id).where(Part.answer_id == part.answer_id, Part.sequence > part.sequence)
    for id in session.scalars(behind.order_by(Part.sequence.desc())).all():
        session.execute(update(Part).where(Part.id == id).values(sequence=Part.sequence + places))


def _piece(part: Part, texts: Sequence[str], number: int) -> Part:
    return Part(
        answer_id=part.answer_id,
        sequence=part.sequence + number,
        kind=part.kind,
        registration_id=part.registration_id,
        instance_id=part.instance_id,
        room=part.room,
        bot_id=part.bot_id,
        created_at=part.created_at,
        **_values(part, texts, number),
    )


def _values(part: Part, texts: Sequence[str], number: int) -> dict[str, str]:
    text_digest = digest(texts[number])
    # Made from the reference of the whole: two parts of an answer may have the same words.
    reference = hashlib.sha256(f"{part.reference_id}\0{text_digest}\0{number}".encode()).hexdigest()
    return {"text": texts[number], "text_digest": text_digest, "reference_id": reference}
