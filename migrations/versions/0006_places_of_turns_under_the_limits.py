"""places of turns under the limits"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.infra.db import Id, UtcDateTime, prefixed

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        prefixed("turn_gates"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("name", sa.String(length=270), nullable=False),
        sa.Column("used_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("turn_gates")) as batch_op:
        batch_op.create_index(None, ["used_at"], unique=False)

    op.create_table(
        prefixed("turn_slots"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("answer_id", Id, nullable=False),
        sa.Column("delivery_id", Id, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("terms", sa.String(length=16), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("told_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["answer_id"], [prefixed("answers.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("answer_id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("turn_slots")) as batch_op:
        batch_op.create_index(None, ["instance_id", "actor", "state", "at"], unique=False)
        batch_op.create_index(None, ["instance_id", "room", "state", "at"], unique=False)
        batch_op.create_index(None, ["state", "at"], unique=False)


def downgrade() -> None:
    op.drop_table(prefixed("turn_slots"))
    op.drop_table(prefixed("turn_gates"))
