"""How alembic meets Parley: the models of every package, the database of the configuration, the prefix of this process."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy import Connection

import app as parley
from app import config as configuration
from app.config import TABLE_PREFIX
from app.infra import db
from app.infra.db import Base, prefixed

# How a column type of ours is written in a revision; anything else is written by alembic.
NAMED_TYPES: tuple[tuple[Any, str], ...] = (
    (db.Id, "Id"),
    (db.LongText, "LongText"),
    (db.LongBinary, "LongBinary"),
)


def include_name(name: str | None, kind: str, _parents: Any) -> bool:
    """Only tables with our prefix are ours: another Parley, or another application, may live beside them."""
    return kind != "table" or (name or "").startswith(TABLE_PREFIX)


def render_item(kind: str, item: Any, _context: Any) -> str | Literal[False]:
    """The short names of our column types."""
    if kind != "type":
        return False
    if isinstance(item, db.UtcDateTime | db.Json):
        return f"{type(item).__name__}()"
    return next((name for known, name in NAMED_TYPES if item is known), False)


def run(connection: Connection) -> None:
    """Brings this connection's database to the wanted revision, or compares it with the models."""
    parley.load_models()
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table=prefixed("alembic_version"),
        include_name=include_name,
        render_item=render_item,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    engine = db.plain_engine(configuration.load())
    with engine.connect() as opened:
        run(opened)
        opened.commit()
