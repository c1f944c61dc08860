"""Tables of who is asking: instances, people, their groups and teams, tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.infra.db import Base, Id, Json, LongText, UtcDateTime, prefixed


class Instance(Base):
    """A Nextcloud server, the sandbox, or a personal domain. Owns people, rooms and registrations."""

    __tablename__ = prefixed("instances")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    kind: Mapped[str] = mapped_column(String(16), default="nextcloud", doc="nextcloud, sandbox or personal")
    url: Mapped[str] = mapped_column(String(1024), doc="base address, without a slash at the end; may hold a path")
    domain: Mapped[str | None] = mapped_column(String(255), unique=True)
    context: Mapped[str | None] = mapped_column(String(64))
    flags: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    language: Mapped[str] = mapped_column(String(8), default="en")
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    verify_tls: Mapped[bool] = mapped_column(default=True)
    ca_file: Mapped[str | None] = mapped_column(String(1024), doc="a PEM bundle for this server's certificate")
    backends: Mapped[list[str]] = mapped_column(
        Json, default=list, doc="further values X-Nextcloud-Talk-Backend may take"
    )
    service_uid: Mapped[str | None] = mapped_column(
        String(190), doc="the service user; its own messages are never answered"
    )
    service_secret: Mapped[str | None] = mapped_column(LongText, doc="its app password, sealed")
    service_blocked_until: Mapped[datetime | None] = mapped_column(
        UtcDateTime, doc="the server refused the service user; it is not asked again until then"
    )
    service_blocked_reason: Mapped[str | None] = mapped_column(String(32))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Person(Base):
    """One human of one instance; `uid` is compared exactly, after NFC."""

    __tablename__ = prefixed("people")
    __table_args__ = (UniqueConstraint("instance_id", "uid"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(ForeignKey(prefixed("instances.id"), ondelete="CASCADE"))
    uid: Mapped[str] = mapped_column(String(190))
    display_name: Mapped[str] = mapped_column(String(255), default="")
    is_admin: Mapped[bool] = mapped_column(default=False)
    is_operator: Mapped[bool] = mapped_column(default=False)
    password_hash: Mapped[str | None] = mapped_column(String(255), doc="Argon2id in PHC form; None: no local password")
    sessions_after: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="sessions begun before this are over")
    language: Mapped[str | None] = mapped_column(String(8))
    groups_seen_at: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="when the groups were last confirmed")
    teams_seen_at: Mapped[datetime | None] = mapped_column(UtcDateTime, doc="when the teams were last confirmed")
    known_groups: Mapped[list[str] | None] = mapped_column(
        Json, doc="the groups of which it is known whether the person is in them; null: all"
    )
    known_teams: Mapped[list[str] | None] = mapped_column(Json, doc="the same of teams")
    directory_problem: Mapped[str | None] = mapped_column(
        String(32), doc="why the server did not tell when it was last asked"
    )
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Membership(Base):
    """A person's group or team, as the directory last told."""

    __tablename__ = prefixed("memberships")
    __table_args__ = (UniqueConstraint("person_id", "kind", "name"), Base.__table_args__)

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    person_id: Mapped[int] = mapped_column(ForeignKey(prefixed("people.id"), ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(8), doc="groups or teams")
    name: Mapped[str] = mapped_column(String(190))
    manages: Mapped[bool] = mapped_column(default=False, doc="sub-admin of the group, moderator of the team")


class Token(Base):
    """A bearer token; only its SHA-256 is kept."""

    __tablename__ = prefixed("tokens")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    instance_id: Mapped[int] = mapped_column(ForeignKey(prefixed("instances.id"), ondelete="CASCADE"))
    person_id: Mapped[int | None] = mapped_column(ForeignKey(prefixed("people.id"), ondelete="CASCADE"))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    scope: Mapped[str | None] = mapped_column(String(16), doc="user, administrator or operator")
    allow: Mapped[list[str]] = mapped_column(
        Json, default=list, doc="TYPE[:VERBS[:VALUES]] permissions of a domain token"
    )
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class LoginFailure(Base):
    """Failed sign-ins of one name or one address, for slowing down guessers."""

    __tablename__ = prefixed("login_failures")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    subject: Mapped[str] = mapped_column(String(255), unique=True)
    count: Mapped[int] = mapped_column(default=0)
    last_at: Mapped[datetime] = mapped_column(UtcDateTime)
