"""service users, how sure groups and teams are, transcripts"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.infra.db import Id, Json, LongText, UtcDateTime, prefixed

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        prefixed("transcript_messages"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("thread", Id, nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("speaker", sa.String(length=255), nullable=False),
        sa.Column("text", LongText, nullable=False),
        sa.Column("folded", LongText, nullable=False),
        sa.Column("message_id", Id, nullable=True),
        sa.Column("delivery_id", Id, nullable=False),
        sa.Column("sources", Json(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("delivery_id", "actor"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("transcript_messages")) as batch_op:
        batch_op.create_index(None, ["created_at"], unique=False)
        batch_op.create_index(None, ["expires_at"], unique=False)
        batch_op.create_index(None, ["instance_id", "room", "id"], unique=False)

    op.create_table(
        prefixed("transcripts"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "room"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("instances")) as batch_op:
        batch_op.add_column(sa.Column("service_blocked_until", UtcDateTime(), nullable=True))
        batch_op.add_column(sa.Column("service_blocked_reason", sa.String(length=32), nullable=True))

    with op.batch_alter_table(prefixed("people")) as batch_op:
        batch_op.add_column(sa.Column("teams_seen_at", UtcDateTime(), nullable=True))
        batch_op.add_column(sa.Column("known_groups", Json(), nullable=True))
        batch_op.add_column(sa.Column("known_teams", Json(), nullable=True))
        batch_op.add_column(sa.Column("directory_problem", sa.String(length=32), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table(prefixed("people")) as batch_op:
        batch_op.drop_column("directory_problem")
        batch_op.drop_column("known_teams")
        batch_op.drop_column("known_groups")
        batch_op.drop_column("teams_seen_at")

    with op.batch_alter_table(prefixed("instances")) as batch_op:
        batch_op.drop_column("service_blocked_reason")
        batch_op.drop_column("service_blocked_until")

    op.drop_table(prefixed("transcripts"))
    op.drop_table(prefixed("transcript_messages"))
