"""review of bots"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.infra.db import Id, Json, LongText, UtcDateTime, prefixed

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COLUMNS = (
    "revision",
    "questionnaire",
    "submitted_at",
    "approved_by",
    "approved_at",
    "rejection_reason",
    "tester",
    "pending",
)


def upgrade() -> None:
    with op.batch_alter_table(prefixed("bots")) as batch_op:
        batch_op.add_column(sa.Column("revision", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("questionnaire", Json(), nullable=True))
        batch_op.add_column(sa.Column("submitted_at", UtcDateTime(), nullable=True))
        batch_op.add_column(sa.Column("approved_by", sa.String(length=190), nullable=True))
        batch_op.add_column(sa.Column("approved_at", UtcDateTime(), nullable=True))
        batch_op.add_column(sa.Column("rejection_reason", LongText, nullable=True))
        batch_op.add_column(sa.Column("tester", sa.String(length=190), nullable=True))
        batch_op.add_column(sa.Column("pending", Json(), nullable=True))
    bots = sa.table(
        prefixed("bots"),
        sa.column("id", Id),
        sa.column("state", sa.String()),
        sa.column("scope", sa.String()),
        sa.column("created_at", UtcDateTime()),
        sa.column("approved_at", UtcDateTime()),
    )
    shared = (bots.c.state == "approved") & (bots.c.scope != "personal")
    op.execute(sa.update(bots).where(shared).values(approved_at=bots.c.created_at))


def downgrade() -> None:
    # Column by column: a batch would make the table anew, and lose that its ids are never used twice.
    for name in reversed(COLUMNS):
        op.drop_column(prefixed("bots"), name)
