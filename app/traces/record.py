"""Writing down what a turn does. Best effort: whatever fails here is logged, and the turn goes on.

Steps are buffered and written every few seconds and at the end, never inside somebody else's transaction. The first
finish wins: a turn that was marked as interrupted stays so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from app.infra import clock
from app.infra.db import changed, clean_text, in_transaction, reading, transaction
from app.traces import redact
from app.traces.models import TraceEvent, TurnTrace

log = logging.getLogger(__name__)

Status = Literal["success", "incomplete", "error", "interrupted", "waiting"]
FLUSH_SECONDS = 3.0
FLUSH_EVENTS = 50
KEPT_EVENTS = 1000
MOST = 2**31 - 1
TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")


class Recorder:
    """Takes the steps of one turn, from one thread. Made with None it records nothing, so a lost start harms nothing."""

    def __init__(self, turn_id: int | None) -> None:
        self.turn_id = turn_id
        self._steps: list[dict[str, Any]] = []
        self._sequence = 0
        self._flushed = clock.monotonic()
        self._failed = False

    def event(
        self, kind: str, *, name: str = "", milliseconds: int | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Notes a step; `payload` is redacted and capped. Never raises."""
        if self.turn_id is None or len(self._steps) >= KEPT_EVENTS:
            return
        try:
            self._steps.append(self._step(kind, name, milliseconds, payload or {}))
        except Exception:
            log.exception("a step of turn %s was not recorded", self.turn_id)
        # A database that is away is not asked at every step.
        many = len(self._steps) >= FLUSH_EVENTS and not self._failed
        if many or clock.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes what is buffered; keeps it for the next time where that fails. Never raises."""
        self._flushed = clock.monotonic()
        if not self._steps or in_transaction():
            return
        try:
            with transaction() as session:
                session.execute(insert(TraceEvent), self._steps)
            self._steps = []
            self._failed = False
        except Exception:
            self._failed = True
            log.exception("the steps of turn %s were not written", self.turn_id)

    def finish(self, status: Status, **figures: Any) -> bool:
        """Flushes, then `finish` below."""
        self.flush()
        return finish(self.turn_id, status, **figures)

    def _step(self, kind: str, name: str, milliseconds: int | None, payload: Mapping[str, Any]) -> dict[str, Any]:
        step = {
            "turn_id": self.turn_id,
            "sequence": self._sequence,
            "kind": kind[:32],
            "name": redact.text(name, chars=120),
            "milliseconds": None if milliseconds is None else _count(milliseconds),
            "payload": redact.payload(kind, payload),
            "created_at": clock.now(),
        }
        self._sequence += 1
        return step


def start(
    instance_id: int,
    delivery_id: int | None = None,
    *,
    bot_id: int | None = None,
    bot_name: str = "",
    room: str = "",
    actor: str = "",
    endpoint: str = "",
    model: str = "",
) -> int | None:
    """Begins the trace of a turn and gives its id, or None when it could not be written. `actor` is as in users/ada."""
    try:
        row = TurnTrace(
            instance_id=instance_id,
            delivery_id=delivery_id,
            bot_id=bot_id,
            bot_name=clean_text(bot_name)[:200],
            room=clean_text(room)[:64],
            actor=clean_text(actor)[:255],
            endpoint=clean_text(endpoint)[:32],
            model=clean_text(model)[:255],
            status="running",
            started_at=clock.now(),
        )
        with transaction() as session:
            session.add(row)
            session.flush()
            return row.id
    except Exception:
        log.exception("the trace of a turn was not begun")
        return None


def finish(
    turn_id: int | None,
    status: Status,
    *,
    ended: str = "",
    endpoint: str | None = None,
    model: str | None = None,
    model_calls: int = 0,
    tool_calls: int = 0,
    prompt_tokens: int = 0,
    completion_tokens: int = 0,
    total_tokens: int = 0,
    error_class: str = "",
    detail: str = "",
) -> bool:
    """Ends a running turn; False when it had ended before, or when that could not be written. Never raises."""
    if turn_id is None:
        return False
    values: dict[str, Any] = {
        "status": status,
        "ended": ended[:32],
        "model_calls": _count(model_calls),
        "tool_calls": _count(tool_calls),
        "prompt_tokens": _count(prompt_tokens),
        "completion_tokens": _count(completion_tokens),
        "total_tokens": _count(total_tokens or prompt_tokens + completion_tokens),
        "error_class": error_class[:64],
    }
    if endpoint is not None:
        values["endpoint"] = clean_text(endpoint)[:32]
    if model is not None:
        values["model"] = clean_text(model)[:255]
    try:
        return _end(turn_id, values | {"detail": redact.text(detail) or None})
    except Exception:
        log.exception("the end of turn %s was not recorded", turn_id)
        return False


def interrupt(delivery_id: int) -> None:
    """Ends the turns of a delivery whose worker is gone, with the figures of the steps that it wrote; joins the caller's
    transaction."""
    now = clock.now()
    with transaction() as session:
        running = (TurnTrace.delivery_id == delivery_id, TurnTrace.status == "running")
        for turn in session.execute(select(TurnTrace.id, TurnTrace.started_at).where(*running)).all():
            took = _count((now - turn.started_at).total_seconds() * 1000)
            values = {"status": "interrupted", "finished_at": now, "milliseconds": took, **_figures(session, turn.id)}
            ended = update(TurnTrace).where(TurnTrace.id == turn.id, TurnTrace.status == "running").values(values)
            session.execute(ended.execution_options(synchronize_session=False))


def _figures(session: Session, turn_id: int) -> dict[str, Any]:
    """What the steps of a turn tell of its calls, its tokens and who answered."""
    steps = select(TraceEvent.kind, TraceEvent.name, TraceEvent.payload).where(TraceEvent.turn_id == turn_id)
    counted: dict[str, Any] = dict.fromkeys(("model_calls", "tool_calls", *TOKENS), 0)
    for kind, name, payload in session.execute(steps.order_by(TraceEvent.sequence)):
        counted["model_calls"] += kind == "model_asked"
        counted["tool_calls"] += kind == "tool_call"
        if kind == "model_answered":
            counted |= {key: _count(counted[key] + payload.get("usage", {}).get(key, 0)) for key in TOKENS}
        if kind == "attempt" and payload.get("outcome") == "ok":
            counted |= {"endpoint": name[:32], "model": str(payload.get("model", ""))[:255]}
    return counted


def _end(turn_id: int, values: dict[str, Any]) -> bool:
    now = clock.now()
    with reading() as session:
        began = session.scalar(select(TurnTrace.started_at).where(TurnTrace.id == turn_id))
    if began is None:
        return False
    values |= {"finished_at": now, "milliseconds": _count((now - began).total_seconds() * 1000)}
    running = (TurnTrace.id == turn_id, TurnTrace.status == "running")
    with transaction() as session:
        return changed(session.execute(update(TurnTrace).where(*running).values(values))) == 1


def _count(number: float) -> int:
    """A count that every database takes, whatever a server claimed."""
    return max(0, min(int(number), MOST))
