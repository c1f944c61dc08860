from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from app.accounts import instances
from app.infra import clock
from app.platforms import registrations, rooms


@pytest.fixture
def cloud(app: Flask) -> Any:
    return instances.add("cloud", "https://cloud.example.test")


def test_a_room_is_made_once_and_renamed_when_its_name_changes(cloud: Any) -> None:
    made = rooms.seen(cloud.id, "r00m", "Harbour")
    assert rooms.seen(cloud.id, "r00m", "Harbour").id == made.id
    assert rooms.seen(cloud.id, "r00m", "Harbour crew").name == "Harbour crew"
    assert rooms.seen(cloud.id, "r00m", "").name == "Harbour crew"
    assert rooms.seen(cloud.id, "r00m", "x" * 300, True).name == "x" * 255


def test_rooms_of_two_instances_with_one_token_are_two_rooms(cloud: Any) -> None:
    other = instances.add("other", "https://other.example.test")
    assert rooms.seen(cloud.id, "r00m", "A").id != rooms.seen(other.id, "r00m", "B").id
    assert rooms.get(cloud.id, "nowhere") is None


def test_tokens_that_differ_in_case_are_two_rooms(cloud: Any) -> None:
    assert rooms.seen(cloud.id, "abc", "A").id != rooms.seen(cloud.id, "ABC", "B").id


def test_a_registration_joins_leaves_and_joins_again(cloud: Any) -> None:
    room = rooms.seen(cloud.id, "r00m", "Harbour")
    first, second = (registrations.create(cloud.id, name).id for name in ("A", "B"))
    for id in (first, second, first):
        rooms.bind(room.id, id)
    assert list(rooms.bound(room.id)) == [first, second]
    rooms.unbind(room.id, first)
    assert list(rooms.bound(room.id)) == [second]
    rooms.bind(room.id, first)
    assert set(rooms.bound(room.id)) == {first, second}
    rooms.unbind(room.id)
    assert list(rooms.bound(room.id)) == []


def test_what_is_told_late_undoes_nothing_that_came_after_it(cloud: Any) -> None:
    room = rooms.seen(cloud.id, "r00m", "Harbour")
    id = registrations.create(cloud.id, "A").id
    first, second, third = (clock.now() + timedelta(minutes=minute) for minute in range(3))
    rooms.bind(room.id, id, at=first)
    rooms.unbind(room.id, id, at=second)
    rooms.bind(room.id, id, at=third)
    rooms.unbind(room.id, id, at=second)
    assert list(rooms.bound(room.id)) == [id]
    rooms.unbind(room.id, id, at=third)
    rooms.bind(room.id, id, at=second)
    assert list(rooms.bound(room.id)) == []
    rooms.cleared(cloud.id, "r00m", at=second)
    rooms.cleared(cloud.id, "r00m", at=first)
    found = rooms.get(cloud.id, "r00m")
    assert found is not None
    assert found.cleared_at == second


def test_what_changed_in_a_room_is_noted(cloud: Any) -> None:
    rooms.seen(cloud.id, "r00m", "Harbour")
    rooms.members_changed(cloud.id, "r00m")
    rooms.cleared(cloud.id, "r00m")
    found = rooms.get(cloud.id, "r00m")
    assert found is not None
    assert found.members_changed_at is not None
    assert found.cleared_at is not None
