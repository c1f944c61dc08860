"""notices and claims of parts"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.infra.db import UtcDateTime, prefixed

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table(prefixed("parts")) as batch_op:
        batch_op.add_column(sa.Column("kind", sa.String(length=16), nullable=False, server_default="answer"))
        batch_op.add_column(sa.Column("claimed_at", UtcDateTime(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table(prefixed("parts")) as batch_op:
        batch_op.drop_column("claimed_at")
        batch_op.drop_column("kind")
