"""Whether this installation can do its work now: what /readyz and `doctor` ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from app.inbox.models import Delivery
from app.infra import jobs
from app.infra.db import reading
from app.infra.i18n import Sentence, say


@dataclass(frozen=True)
class Check:
    """One part: whether it works, the sentence that says so, and what to do where it doesn't, or could be better."""

    name: str
    ok: bool
    state: Sentence
    remedy: Sentence | None = None

    @property
    def level(self) -> Literal["ok", "note", "bad"]:
        """A note works as it is, and still has something to tell."""
        if not self.ok:
            return "bad"
        return "ok" if self.remedy is None else "note"


def ready() -> tuple[Check, ...]:
    """The parts without which no message is answered. Fast, and without any network call but to the broker."""
    database_ = database()
    return (database_, worker()) if database_.ok else (database_,)


def database() -> Check:
    """Asks the database for one value."""
    try:
        with reading() as session:
            session.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return Check(
            "database",
            False,
            say("The database does not answer."),
            say("Look at PARLEY_DATABASE_URL, and whether the server that it names runs."),
        )
    return Check("database", True, say("The database answers."))


def worker() -> Check:
    """A worker runs here or elsewhere: its rows tell, so that this is true of any broker."""
    if jobs.running() or jobs.alive():
        return Check("worker", True, say("A worker runs."))
    return Check(
        "worker",
        False,
        say("No worker runs: messages are stored and not answered."),
        say("Start Parley with `make run`, or with a broker `python manage.py worker`."),
    )


def inbox_states() -> dict[str, int]:
    """The number of inbox rows in each state."""
    with reading() as session:
        rows = session.execute(select(Delivery.state, func.count()).group_by(Delivery.state)).all()
    return {state: int(number) for state, number in rows}
