"""Rooms of chat systems: made by the first event that names one, bound to registrations by Join and Leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select, update

from app.infra import clock
from app.infra.db import insert_once, reading, transaction
from app.infra.jobs import table
from app.platforms.models import Room, RoomBinding

LONGEST_NAME = 255


def get(instance_id: int, token: str) -> Room | None:
    """The room with this token, when it was seen."""
    with reading() as session:
        return session.scalars(_room(instance_id, token)).first()


def seen(instance_id: int, token: str, name: str = "", one_to_one: bool = False) -> Room:
    """The room with this token, made when it is new and renamed when its name has changed; writes only then."""
    name = name[:LONGEST_NAME]
    known = get(instance_id, token)
    if known is not None and name in ("", known.name):
        return known
    with transaction() as session:
        row = {"instance_id": instance_id, "token": token, "name": name, "one_to_one": one_to_one}
        insert_once(session, table(Room), {**row, "created_at": clock.now()})
        found = session.scalars(_room(instance_id, token)).one()
        if name:
            found.name, found.one_to_one = name, one_to_one
    return found


def bind(room_id: int, registration_id: int, *, at: datetime | None = None) -> None:
    """The registration is active in the room (again) since `at`, by default now; nothing where it left after that."""
    at = at or clock.now()
    with transaction() as session:
        row = {"room_id": room_id, "registration_id": registration_id, "joined_at": at}
        if insert_once(session, table(RoomBinding), row) is None:
            session.execute(
                update(RoomBinding)
                .where(RoomBinding.room_id == room_id, RoomBinding.registration_id == registration_id)
                .where(RoomBinding.left_at <= at)
                .values(joined_at=at, left_at=None)
            )


def unbind(room_id: int, registration_id: int | None = None, *, at: datetime | None = None) -> None:
    """The registration left the room at that moment, by default now; nothing where it came back since.

    Without a registration all have left: the room is gone.
    """
    at = at or clock.now()
    query = update(RoomBinding).where(RoomBinding.room_id == room_id, RoomBinding.left_at.is_(None))
    if registration_id is not None:
        query = query.where(RoomBinding.registration_id == registration_id)
    with transaction() as session:
        session.execute(query.where(RoomBinding.joined_at <= at).values(left_at=at))


def bound(room_id: int) -> Sequence[int]:
    """The registrations that are active in a room, oldest first."""
    query = select(RoomBinding.registration_id).where(RoomBinding.room_id == room_id, RoomBinding.left_at.is_(None))
    with reading() as session:
        return session.scalars(query.order_by(RoomBinding.id)).all()


def speak(instance_id: int, token: str, language: str | None) -> None:
    """In which language a bot's own sentences are said there; None: that of the instance."""
    _change(instance_id, token, language=language)


def active(instance_id: int) -> Mapping[Room, Sequence[RoomBinding]]:
    """The rooms of an instance in which a registration is active, each with its bindings, oldest first."""
    query = select(Room, RoomBinding).join(RoomBinding, RoomBinding.room_id == Room.id)
    query = query.where(Room.instance_id == instance_id, RoomBinding.left_at.is_(None))
    found: dict[Room, list[RoomBinding]] = {}
    with reading() as session:
        for room, binding in session.execute(query.order_by(Room.id, RoomBinding.id)):
            found.setdefault(room, []).append(binding)
    return found


def members_changed(instance_id: int, token: str) -> None:
    """Somebody came or went: what was known of the members is stale."""
    _change(instance_id, token, members_changed_at=clock.now())


def cleared(instance_id: int, token: str, *, at: datetime | None = None) -> None:
    """The history was cleared at that moment, by default now: nothing older is shown or kept."""
    at = at or clock.now()
    with transaction() as session:
        row = session.scalars(_room(instance_id, token)).one()
        row.cleared_at = at if row.cleared_at is None else max(row.cleared_at, at)


def _room(instance_id: int, token: str) -> Select[Room]:
    return select(Room).where(Room.instance_id == instance_id, Room.token == token)


def _change(instance_id: int, token: str, **values: Any) -> None:
    with transaction() as session:
        session.execute(update(Room).where(Room.instance_id == instance_id, Room.token == token).values(**values))
