"""first questions"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.infra.db import Id, Json, UtcDateTime, prefixed

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        prefixed("onboarding"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("thread", Id, nullable=False),
        sa.Column("bot_id", Id, nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("delivery_id", Id, nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("question_id", sa.String(length=64), nullable=False),
        sa.Column("misses", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("answers", Json(), nullable=False),
        sa.Column("heard_until", UtcDateTime(), nullable=False),
        sa.Column("asked_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["bot_id"], [prefixed("bots.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "room", "thread", "bot_id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("onboarding")) as batch_op:
        batch_op.create_index(None, ["delivery_id"], unique=False)
        batch_op.create_index(None, ["expires_at"], unique=False)
        batch_op.create_index(None, ["state", "asked_at"], unique=False)
    with op.batch_alter_table(prefixed("bots")) as batch_op:
        batch_op.add_column(sa.Column("onboarding", Json(), nullable=True))


def downgrade() -> None:
    # No batch: it would make the table anew, and lose that its ids are never used twice.
    op.drop_column(prefixed("bots"), "onboarding")
    op.drop_table(prefixed("onboarding"))
