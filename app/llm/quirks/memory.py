"""What was learned about the models of an endpoint, kept in the database for all processes, for a day.

After that one retry learns it again, or finds that the server has changed. Best effort: a database that is away costs a
retry, never an answer.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.infra import clock
from app.infra.db import changed, clean_text, insert_once, reading, transaction
from app.infra.jobs import table
from app.llm.models import ModelQuirk
from app.llm.quirks.base import Known, Quirk

log = logging.getLogger(__name__)

FRESH = timedelta(days=1)
MOST = 2000
LONGEST_MODEL = 255
SERVER_CHARS = 16
QUIRKS = frozenset(Quirk)


def recall(endpoint: str, model: str, url: str) -> dict[Quirk, int]:
    """The quirks of a model at the server of `url`, with their numbers."""
    query = select(ModelQuirk.quirk, ModelQuirk.value).where(
        ModelQuirk.endpoint == endpoint,
        ModelQuirk.model == _kept(model),
        ModelQuirk.server == _server(url),
        ModelQuirk.learned_at > clock.now() - FRESH,
    )
    try:
        with reading() as session:
            return {Quirk(row.quirk): row.value for row in session.execute(query) if row.quirk in QUIRKS}
    except SQLAlchemyError:
        log.exception("what was learned about the endpoint %s can't be read", endpoint)
        return {}


def remember(endpoint: str, model: str, url: str, learned: Known) -> None:
    """Keeps what a healed call has shown."""
    try:
        for quirk, value in sorted(learned.items()):
            _put(endpoint, _kept(model), quirk, {"server": _server(url), "value": value, "learned_at": clock.now()})
    except SQLAlchemyError:
        log.exception("what was learned about the endpoint %s was not kept", endpoint)


def forget(endpoint: str) -> None:
    """Begins anew with the models of an endpoint."""
    with transaction() as session:
        session.execute(delete(ModelQuirk).where(ModelQuirk.endpoint == endpoint))


def _put(endpoint: str, model: str, quirk: Quirk, values: Mapping[str, object]) -> None:
    row = (ModelQuirk.endpoint == endpoint, ModelQuirk.model == model, ModelQuirk.quirk == quirk.value)
    with transaction() as session:
        if changed(session.execute(update(ModelQuirk).where(*row).values(values))):
            return
        _make_room(session, clock.now() - FRESH)
        key = {"endpoint": endpoint, "model": model, "quirk": quirk.value}
        # Who learned the same at the same moment may win.
        insert_once(session, table(ModelQuirk), {**key, **values})


def _make_room(session: Session, stale: datetime) -> None:
    """Models are named by people: their number must not grow for ever."""
    session.execute(delete(ModelQuirk).where(ModelQuirk.learned_at <= stale))
    if (session.scalar(select(func.count(ModelQuirk.id))) or 0) < MOST:
        return
    oldest = session.scalars(select(ModelQuirk.id).order_by(ModelQuirk.learned_at).limit(MOST // 10)).all()
    session.execute(delete(ModelQuirk).where(ModelQuirk.id.in_(oldest)))


def _server(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:SERVER_CHARS]


def _kept(model: str) -> str:
    return clean_text(model)[:LONGEST_MODEL]
