"""bots of answers and parts"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.infra.db import Id, UtcDateTime, prefixed

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLES = ("answers", "parts")


def upgrade() -> None:
    with op.batch_alter_table(prefixed("parts")) as batch_op:
        batch_op.add_column(sa.Column("sought_at", UtcDateTime(), nullable=True))
    bots = sa.table(prefixed("bots"), sa.column("id", Id))
    # The parts first. A turn that was under way while its bot was removed may have left some.
    for name in reversed(TABLES):
        rows = sa.table(prefixed(name), sa.column("bot_id", Id))
        op.execute(sa.delete(rows).where(rows.c.bot_id.not_in(sa.select(bots.c.id))))
    for name in TABLES:
        with op.batch_alter_table(prefixed(name)) as batch_op:
            batch_op.create_foreign_key(_key(name), prefixed("bots"), ["bot_id"], ["id"], ondelete="CASCADE")


def downgrade() -> None:
    for name in reversed(TABLES):
        with op.batch_alter_table(prefixed(name)) as batch_op:
            batch_op.drop_constraint(_key(name), type_="foreignkey")
    with op.batch_alter_table(prefixed("parts")) as batch_op:
        batch_op.drop_column("sought_at")


def _key(name: str) -> str:
    return op.f(f"fk_{prefixed(name)}_bot_id")
