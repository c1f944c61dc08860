"""the first tables"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.infra.db import Id, Json, LongBinary, LongText, UtcDateTime, prefixed

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        prefixed("answers"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("delivery_id", Id, nullable=False),
        sa.Column("bot_id", Id, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("turn_id", Id, nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("delivery_id", "bot_id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("cancellations"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("delivery_id", Id, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("delivery_id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("cancellations")) as batch_op:
        batch_op.create_index(None, ["created_at"], unique=False)

    op.create_table(
        prefixed("endpoints"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("url", sa.String(length=1024), nullable=False),
        sa.Column("key", LongText, nullable=True),
        sa.Column("default_model", sa.String(length=255), nullable=True),
        sa.Column("allowed_models", Json(), nullable=False),
        sa.Column("models", Json(), nullable=False),
        sa.Column("models_at", UtcDateTime(), nullable=True),
        sa.Column("models_error", LongText, nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("inbox"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("registration_id", Id, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("object_id", sa.String(length=64), nullable=True),
        sa.Column("random_digest", sa.String(length=64), nullable=False),
        sa.Column("dedupe", sa.String(length=190), nullable=True),
        sa.Column("body", LongBinary, nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("detail", LongText, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("turn_id", Id, nullable=True),
        sa.Column("due_at", UtcDateTime(), nullable=False),
        sa.Column("held_until", UtcDateTime(), nullable=True),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("registration_id", "dedupe"),
        sa.UniqueConstraint("registration_id", "random_digest"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("inbox")) as batch_op:
        batch_op.create_index(None, ["instance_id", "room", "state", "id"], unique=False)
        batch_op.create_index(None, ["state", "due_at"], unique=False)

    op.create_table(
        prefixed("instances"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("url", sa.String(length=1024), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=True),
        sa.Column("context", sa.String(length=64), nullable=True),
        sa.Column("flags", Json(), nullable=False),
        sa.Column("language", sa.String(length=8), nullable=False),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("verify_tls", sa.Boolean(), nullable=False),
        sa.Column("ca_file", sa.String(length=1024), nullable=True),
        sa.Column("backends", Json(), nullable=False),
        sa.Column("service_uid", sa.String(length=190), nullable=True),
        sa.Column("service_secret", LongText, nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("domain"),
        sa.UniqueConstraint("name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("jobs"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=190), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("args", Json(), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("jobs")) as batch_op:
        batch_op.create_index(None, ["due_at"], unique=False)

    op.create_table(
        prefixed("lanes"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=True),
        sa.Column("lease_until", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "room"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("lanes")) as batch_op:
        batch_op.create_index(None, ["lease_until"], unique=False)

    op.create_table(
        prefixed("login_failures"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("last_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("subject"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("model_quirks"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("quirk", sa.String(length=40), nullable=False),
        sa.Column("server", sa.String(length=16), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.Column("learned_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("endpoint", "model", "quirk"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("model_quirks")) as batch_op:
        batch_op.create_index(None, ["learned_at"], unique=False)

    op.create_table(
        prefixed("model_rates"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("takes", Json(), nullable=False),
        sa.Column("version", Id, nullable=False),
        sa.Column("blocked_until", UtcDateTime(), nullable=True),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("endpoint", "model"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("room_expirations"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("seconds", Id, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "room"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("sandbox_messages"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("actor_name", sa.String(length=255), nullable=False),
        sa.Column("text", LongText, nullable=False),
        sa.Column("reply_to", Id, nullable=True),
        sa.Column("reference_id", sa.String(length=64), nullable=True),
        sa.Column("reactions", Json(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("sandbox_messages")) as batch_op:
        batch_op.create_index(None, ["reference_id"], unique=False)
        batch_op.create_index(None, ["room", "id"], unique=False)

    op.create_table(
        prefixed("settings"),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", Json(), nullable=True),
        sa.Column("sealed", LongText, nullable=True),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("ticks"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("done_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("turns"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("delivery_id", Id, nullable=True),
        sa.Column("bot_id", Id, nullable=True),
        sa.Column("bot_name", sa.String(length=200), nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("ended", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("model_calls", sa.Integer(), nullable=False),
        sa.Column("tool_calls", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("total_tokens", sa.Integer(), nullable=False),
        sa.Column("error_class", sa.String(length=64), nullable=False),
        sa.Column("detail", LongText, nullable=True),
        sa.Column("shared_at", UtcDateTime(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("milliseconds", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("turns")) as batch_op:
        batch_op.create_index(None, ["bot_id"], unique=False)
        batch_op.create_index(None, ["delivery_id"], unique=False)
        batch_op.create_index(None, ["instance_id", "started_at"], unique=False)

    op.create_table(
        prefixed("usage_calls"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("turn_id", Id, nullable=True),
        sa.Column("bot_id", Id, nullable=True),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("usage_calls")) as batch_op:
        batch_op.create_index(None, ["at"], unique=False)
        batch_op.create_index(None, ["turn_id"], unique=False)

    op.create_table(
        prefixed("usage_days"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("bot_id", Id, nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", Id, nullable=False),
        sa.Column("completion_tokens", Id, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("day", "instance_id", "bot_id", "endpoint", "model"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("parts"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("answer_id", Id, nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("registration_id", Id, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("bot_id", Id, nullable=False),
        sa.Column("reply_to", Id, nullable=True),
        sa.Column("text", LongText, nullable=False),
        sa.Column("text_digest", sa.String(length=64), nullable=False),
        sa.Column("reference_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("sent_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["answer_id"], [prefixed("answers.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("answer_id", "sequence"),
        sa.UniqueConstraint("reference_id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("parts")) as batch_op:
        batch_op.create_index(None, ["instance_id", "room", "text_digest"], unique=False)
        batch_op.create_index(None, ["sent_at"], unique=False)

    op.create_table(
        prefixed("people"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("uid", sa.String(length=190), nullable=False),
        sa.Column("display_name", sa.String(length=255), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("is_operator", sa.Boolean(), nullable=False),
        sa.Column("password_hash", sa.String(length=255), nullable=True),
        sa.Column("sessions_after", UtcDateTime(), nullable=True),
        sa.Column("language", sa.String(length=8), nullable=True),
        sa.Column("groups_seen_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], [prefixed("instances.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "uid"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("registrations"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("platform", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("secret", LongText, nullable=False),
        sa.Column("previous_secret", LongText, nullable=True),
        sa.Column("previous_until", UtcDateTime(), nullable=True),
        sa.Column("webhook_url", sa.String(length=1024), nullable=False),
        sa.Column("actor_hash", sa.String(length=40), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("blocked_until", UtcDateTime(), nullable=True),
        sa.Column("blocked_reason", sa.String(length=255), nullable=True),
        sa.Column("last_event_at", UtcDateTime(), nullable=True),
        sa.Column("last_post_at", UtcDateTime(), nullable=True),
        sa.Column("last_post_status", sa.String(length=64), nullable=True),
        sa.Column("backend_seen", sa.String(length=1024), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], [prefixed("instances.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("registrations")) as batch_op:
        batch_op.create_index(None, ["actor_hash"], unique=False)

    op.create_table(
        prefixed("rooms"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("one_to_one", sa.Boolean(), nullable=False),
        sa.Column("language", sa.String(length=8), nullable=True),
        sa.Column("members_changed_at", UtcDateTime(), nullable=True),
        sa.Column("cleared_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], [prefixed("instances.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "token"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("trace_events"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("turn_id", Id, nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("milliseconds", sa.Integer(), nullable=True),
        sa.Column("payload", Json(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], [prefixed("turns.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("turn_id", "sequence"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("bots"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("owner_id", Id, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("mention_name", sa.String(length=100), nullable=False),
        sa.Column("mention_key", sa.String(length=200), nullable=False),
        sa.Column("description", LongText, nullable=True),
        sa.Column("system_prompt", LongText, nullable=False),
        sa.Column("model", sa.String(length=255), nullable=True),
        sa.Column("temperature", sa.Double(), nullable=True),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("groups", Json(), nullable=False),
        sa.Column("teams", Json(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("registration_id", Id, nullable=True),
        sa.Column("limits", Json(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], [prefixed("instances.id")], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["owner_id"], [prefixed("people.id")]),
        sa.ForeignKeyConstraint(["registration_id"], [prefixed("registrations.id")], ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "mention_key"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        sqlite_autoincrement=True,
    )
    op.create_table(
        prefixed("memberships"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("person_id", Id, nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("name", sa.String(length=190), nullable=False),
        sa.Column("manages", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], [prefixed("people.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("person_id", "kind", "name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("room_bindings"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("room_id", Id, nullable=False),
        sa.Column("registration_id", Id, nullable=False),
        sa.Column("joined_at", UtcDateTime(), nullable=False),
        sa.Column("left_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["registration_id"], [prefixed("registrations.id")], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["room_id"], [prefixed("rooms.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("room_id", "registration_id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("tokens"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("person_id", Id, nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=True),
        sa.Column("allow", Json(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("used_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], [prefixed("instances.id")], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["person_id"], [prefixed("people.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("bot_tools"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("bot_id", Id, nullable=False),
        sa.Column("tool", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["bot_id"], [prefixed("bots.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("bot_id", "tool"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("denied_notices"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("bot_id", Id, nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.ForeignKeyConstraint(["bot_id"], [prefixed("bots.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("bot_id", "actor", "day"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("room_bots"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("bot_id", Id, nullable=False),
        sa.Column("response_mode", sa.String(length=16), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["bot_id"], [prefixed("bots.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_id", "room", "bot_id"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        prefixed("room_messages"),
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("bot_id", Id, nullable=False),
        sa.Column("instance_id", Id, nullable=False),
        sa.Column("room", sa.String(length=64), nullable=False),
        sa.Column("thread", Id, nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("speaker", sa.String(length=255), nullable=False),
        sa.Column("text", LongText, nullable=False),
        sa.Column("folded", LongText, nullable=False),
        sa.Column("quoted", LongText, nullable=True),
        sa.Column("message_id", Id, nullable=True),
        sa.Column("delivery_id", Id, nullable=True),
        sa.Column("sources", Json(), nullable=False),
        sa.Column("incomplete", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["bot_id"], [prefixed("bots.id")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("bot_id", "delivery_id", "role"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    with op.batch_alter_table(prefixed("room_messages")) as batch_op:
        batch_op.create_index(None, ["bot_id", "instance_id", "room", "thread", "id"], unique=False)
        batch_op.create_index(None, ["created_at"], unique=False)
        batch_op.create_index(None, ["delivery_id"], unique=False)
        batch_op.create_index(None, ["expires_at"], unique=False)
        batch_op.create_index(None, ["message_id"], unique=False)


def downgrade() -> None:
    op.drop_table(prefixed("room_messages"))
    op.drop_table(prefixed("room_bots"))
    op.drop_table(prefixed("denied_notices"))
    op.drop_table(prefixed("bot_tools"))
    op.drop_table(prefixed("tokens"))
    op.drop_table(prefixed("room_bindings"))
    op.drop_table(prefixed("memberships"))
    op.drop_table(prefixed("bots"))
    op.drop_table(prefixed("trace_events"))
    op.drop_table(prefixed("rooms"))
    op.drop_table(prefixed("registrations"))
    op.drop_table(prefixed("people"))
    op.drop_table(prefixed("parts"))
    op.drop_table(prefixed("usage_days"))
    op.drop_table(prefixed("usage_calls"))
    op.drop_table(prefixed("turns"))
    op.drop_table(prefixed("ticks"))
    op.drop_table(prefixed("settings"))
    op.drop_table(prefixed("sandbox_messages"))
    op.drop_table(prefixed("room_expirations"))
    op.drop_table(prefixed("model_rates"))
    op.drop_table(prefixed("model_quirks"))
    op.drop_table(prefixed("login_failures"))
    op.drop_table(prefixed("lanes"))
    op.drop_table(prefixed("jobs"))
    op.drop_table(prefixed("instances"))
    op.drop_table(prefixed("inbox"))
    op.drop_table(prefixed("endpoints"))
    op.drop_table(prefixed("cancellations"))
    op.drop_table(prefixed("answers"))
