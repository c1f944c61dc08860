"""gaps and what was read after them"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.infra.db import Id, UtcDateTime, prefixed

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        prefixed("signs_of_life"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("gaps"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("asked", sa.Boolean(), nullable=False),
        sa.Column("recovered", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], [prefixed("instances.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("gaps")) as batch_op:
        batch_op.create_index(None, ["finished_at", "due_at"], unique=False)
        batch_op.create_index(None, ["instance_id", "ended_at"], unique=False)

    op.create_table(
        prefixed("room_readings"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("room_id", Id, nullable=False),
        sa.Column("read_at", UtcDateTime(), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=True),
        sa.Column("left_out_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["room_id"], [prefixed("rooms.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("room_id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("registrations")) as batch_op:
        batch_op.add_column(sa.Column("refused_at", UtcDateTime(), nullable=True))
        batch_op.add_column(sa.Column("throttled_at", UtcDateTime(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table(prefixed("registrations")) as batch_op:
        batch_op.drop_column("throttled_at")
        batch_op.drop_column("refused_at")

    op.drop_table(prefixed("room_readings"))
    op.drop_table(prefixed("gaps"))
    op.drop_table(prefixed("signs_of_life"))
