"""Reading traces, and the one place that decides which part of them whom is shown (K20).

The person who spoke sees all of it. Everybody else who may look sees figures: times, tools, tokens, outcomes and errors;
the texts only after that person shared them, or by the right to reveal, each use of which is written into the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import InstrumentedAttribute

from app.infra import clock, jobs
from app.infra.db import changed, clean_text, insert_once, reading, transaction
from app.infra.errors import BadInput, NotFound
from app.infra.i18n import Sentence, say
from app.traces.models import TraceEvent, TurnTrace

STATUSES = ("running", "success", "incomplete", "error", "interrupted", "waiting")
TROUBLE = ("error", "incomplete", "interrupted")
LIMIT = 25
MOST = 100
# Short words of ours and of servers, under which no text of a person or a model stands.
FIGURE_WORDS = frozenset(
    {"outcome", "status", "endpoint", "model", "finish_reason", "error_class", "reason", "ended", "kind", "state"}
)
FIGURE_CHARS = 128
# Steps whose `detail` is an error of a server of ours, not an argument that somebody wrote.
ERROR_KINDS = frozenset({"attempt", "error"})
REVEALED = "revealed"


@dataclass(frozen=True)
class Wanted:
    """Which turns are listed, the newest first. `actor` is as in users/ada; None leaves a field open."""

    instance_id: int | None = None
    actor: str | None = None
    bot_id: int | None = None
    room: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    only_errors: bool = False
    only_with_tools: bool = False
    limit: int = LIMIT
    offset: int = 0


def listed(wanted: Wanted) -> list[TurnTrace]:
    """The turns that fit. Raises BadInput for an unknown status, limit or offset."""
    if wanted.status is not None and wanted.status not in STATUSES:
        raise _bad("status", say("The status must be one of {known}.", known=", ".join(STATUSES)))
    if not 1 <= wanted.limit <= MOST:
        raise _bad("limit", say("The limit must be from 1 to {most}.", most=MOST))
    if not 0 <= wanted.offset < 2**31:
        raise _bad("offset", say("The offset must not be negative."))
    rows = select(TurnTrace).where(*_where(wanted)).order_by(TurnTrace.started_at.desc(), TurnTrace.id.desc())
    with reading() as session:
        return list(session.scalars(rows.limit(wanted.limit).offset(wanted.offset)))


def found(turn_id: int) -> TurnTrace:
    """One turn. Raises NotFound."""
    with reading() as session:
        turn = session.get(TurnTrace, turn_id)
    if turn is None:
        raise NotFound(say("There is no trace {id}.", id=turn_id))
    return turn


def summary(turn: TurnTrace) -> dict[str, Any]:
    """A turn as everybody sees it who may look: figures only."""
    return {
        "id": turn.id,
        "delivery_id": turn.delivery_id,
        "bot_id": turn.bot_id,
        "bot": turn.bot_name,
        "room": turn.room,
        "actor": turn.actor,
        "status": turn.status,
        "ended": turn.ended,
        "endpoint": turn.endpoint,
        "model": turn.model,
        "model_calls": turn.model_calls,
        "tool_calls": turn.tool_calls,
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": turn.completion_tokens,
        "total_tokens": turn.total_tokens,
        "error_class": turn.error_class,
        "detail": turn.detail,
        "started_at": turn.started_at.isoformat(),
        "finished_at": turn.finished_at and turn.finished_at.isoformat(),
        "milliseconds": turn.milliseconds,
        "shared": turn.shared_at is not None,
    }


def whole(turn: TurnTrace, *, with_text: bool) -> dict[str, Any]:
    """A turn with its steps, in order; without `with_text` their payloads hold figures only."""
    steps = select(TraceEvent).where(TraceEvent.turn_id == turn.id).order_by(TraceEvent.sequence)
    with reading() as session:
        events = session.scalars(steps).all()
    return summary(turn) | {"with_text": with_text, "events": [_step(event, with_text=with_text) for event in events]}


def reveal(turn: TurnTrace, by: str) -> None:
    """Writes into the trace that its texts were revealed to `by`; raises where that fails, and nothing is shown then."""
    now = clock.now()
    with transaction() as session:
        first = session.scalar(select(func.min(TraceEvent.sequence)).where(TraceEvent.turn_id == turn.id))
        step = {
            "turn_id": turn.id,
            # Before all others: the numbers from 0 on belong to the turn, which may still run.
            "sequence": min(first or 0, 0) - 1,
            "kind": REVEALED,
            "name": clean_text(by)[:128],
            "payload": {},
            "created_at": now,
        }
        insert_once(session, jobs.table(TraceEvent), step)


def share(turn: TurnTrace, shared: bool) -> None:
    """Shows the texts of a turn to administrators, or takes that back."""
    moment = clock.now() if shared else None
    with transaction() as session:
        session.execute(update(TurnTrace).where(TurnTrace.id == turn.id).values(shared_at=moment))


def remove(instance_id: int, actor: str, *, turn_id: int | None = None) -> int:
    """Deletes a person's own turns, or one of them; gives their number. One that still runs stays."""
    own = [TurnTrace.instance_id == instance_id, TurnTrace.actor == actor, TurnTrace.status != "running"]
    if turn_id is not None:
        own.append(TurnTrace.id == turn_id)
    with transaction() as session:
        session.execute(delete(TraceEvent).where(TraceEvent.turn_id.in_(select(TurnTrace.id).where(*own))))
        return changed(session.execute(delete(TurnTrace).where(*own)))


def figures(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """What of a payload is no text: numbers, truth values, short words of known keys, and how long a list is."""
    kept: dict[str, Any] = {}
    for key, value in payload.items():
        if value is None or isinstance(value, (bool, int, float)):
            kept[key] = value
        elif isinstance(value, str) and (key in FIGURE_WORDS or (key == "detail" and kind in ERROR_KINDS)):
            kept[key] = value if key == "detail" else value[:FIGURE_CHARS]
        elif isinstance(value, Mapping) and key == "usage":
            kept[key] = figures(kind, value)
        elif isinstance(value, (str, Sequence)):
            kept[f"{key}_length"] = len(value)
    return kept


def _step(event: TraceEvent, *, with_text: bool) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "name": event.name,
        "milliseconds": event.milliseconds,
        "payload": event.payload if with_text else figures(event.kind, event.payload),
        "at": event.created_at.isoformat(),
    }


def _where(wanted: Wanted) -> Iterator[ColumnElement[bool]]:
    same: tuple[tuple[InstrumentedAttribute[Any], object], ...] = (
        (TurnTrace.instance_id, wanted.instance_id),
        (TurnTrace.actor, wanted.actor),
        (TurnTrace.bot_id, wanted.bot_id),
        (TurnTrace.room, wanted.room),
        (TurnTrace.status, wanted.status),
    )
    yield from (column == value for column, value in same if value is not None)
    if wanted.since is not None:
        yield TurnTrace.started_at >= wanted.since
    if wanted.until is not None:
        yield TurnTrace.started_at < wanted.until
    if wanted.only_errors:
        yield TurnTrace.status.in_(TROUBLE)
    if wanted.only_with_tools:
        yield TurnTrace.tool_calls > 0


def _bad(field: str, sentence: Sentence) -> BadInput:
    return BadInput(sentence, fields={field: str(sentence)})
