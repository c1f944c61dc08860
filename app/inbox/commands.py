"""Commands about the inbox: where every event stands, why, and another try."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click
from sqlalchemy import select

from app.accounts import instances
from app.bots.models import Bot
from app.inbox import claim, listing
from app.inbox.listing import Listed
from app.inbox.reasons import Reason
from app.infra import cli, jobs
from app.infra.db import reading
from app.infra.i18n import say
from app.rooms.models import Answer, Part


@click.group("inbox", help="Every event that arrived: where it stands, and why.")
def group() -> None:
    """Holds the commands about the inbox."""


@group.command("list")
@click.option("--state", type=click.Choice(listing.STATES), help="Only events in this state.")
@click.option("--room", help="Only events of this room.")
@click.option("--limit", type=int, default=listing.LIMIT, show_default=True, help="How many, the newest first.")
@cli.instance_option
@cli.json_option
def inbox_list(state: str | None, *, room: str | None, limit: int, instance: str | None, as_json: bool) -> None:
    """Lists the newest events; of every instance where none is named."""
    home = instances.chosen(instance).id if instance else None
    found = listing.listed(home, state=state, room=room, limit=limit)
    cli.output([asdict(row) for row in found], as_json, lambda: _table(found))


@group.command("show")
@click.argument("id", type=int)
@cli.json_option
def inbox_show(id: int, *, as_json: bool) -> None:
    """Shows one event with its reason in words, the answers it was owed, and what became of their parts."""
    row = listing.found(id)
    answers = _answers(id)
    cli.output(asdict(row) | {"answers": answers}, as_json, lambda: _show(row, answers))


@group.command("retry")
@click.argument("id", type=int)
@click.option("--force", is_flag=True, help="Also where the answer may stand in the room already.")
@cli.json_option
def inbox_retry(id: int, *, force: bool, as_json: bool) -> None:
    """Tries a dead event again; an unknown one only with --force, because its answer may come twice."""
    row = listing.retry(id, force=force)
    jobs.enqueue(claim.DRAIN, row.instance_id, row.room)
    cli.output(asdict(row), as_json, say("Event {id} is queued again.", id=id))


@group.command("reasons")
@cli.json_option
def inbox_reasons(*, as_json: bool) -> None:
    """Lists every reason an event can stand with, and what it means."""
    rows = [(reason.value, str(reason.meaning)) for reason in Reason]
    told = [{"reason": reason, "meaning": meaning} for reason, meaning in rows]
    cli.output(told, as_json, lambda: cli.table(rows, head=("reason", "meaning")))


def _answers(delivery_id: int) -> list[dict[str, Any]]:
    with reading() as session:
        bots = select(Answer, Bot.mention_name).outerjoin(Bot, Bot.id == Answer.bot_id)
        owed = session.execute(bots.where(Answer.delivery_id == delivery_id).order_by(Answer.position)).all()
        ids = [answer.id for answer, _ in owed]
        parts = session.scalars(select(Part).where(Part.answer_id.in_(ids)).order_by(Part.sequence)).all()
    return [_answer(answer, name, [part for part in parts if part.answer_id == answer.id]) for answer, name in owed]


def _answer(answer: Answer, mention_name: str | None, parts: Iterable[Part]) -> dict[str, Any]:
    return {
        "id": answer.id,
        "bot_id": answer.bot_id,
        "bot": mention_name,
        "state": answer.state,
        "reason": answer.reason,
        "attempts": answer.attempts,
        "turn_id": answer.turn_id,
        "parts": [_part(part) for part in parts],
    }


def _part(part: Part) -> dict[str, Any]:
    """What became of a part; never its text."""
    return {
        "sequence": part.sequence,
        "state": part.state,
        "status": part.status,
        "attempts": part.attempts,
        "reply_to": part.reply_to,
        "reference_id": part.reference_id,
        "characters": len(part.text),
        "sent_at": part.sent_at,
    }


def _table(found: Iterable[Listed]) -> None:
    head = ("id", "received", "kind", "room", "actor", "state", "reason", "attempts", "turn")
    rows = (
        (row.id, row.received_at, row.kind, row.room, row.actor, row.state, row.reason, row.attempts, row.turn_id)
        for row in found
    )
    cli.table(rows, head=head)


def _show(row: Listed, answers: Iterable[dict[str, Any]]) -> None:
    cli.table(((name, value) for name, value in asdict(row).items()), head=("field", "value"))
    told = [
        (each["bot"], each["state"], each["reason"], part["sequence"], part["state"], part["status"])
        for each in answers
        for part in each["parts"] or [{"sequence": "", "state": "", "status": ""}]
    ]
    if told:
        cli.table(told, head=("bot", "answer", "reason", "part", "sent", "status"))


COMMANDS: list[click.Command] = [group]
