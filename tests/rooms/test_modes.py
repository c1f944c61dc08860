from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from app.accounts import instances, people, tokens
from app.inbox import accept
from app.infra.db import reading
from app.infra.errors import BadInput
from app.platforms import rooms
from app.rooms import commands, modes
from app.rooms.models import RoomBot
from app.rooms.parts import Place
from tests.rooms.conftest import make_bot


def bearer(place: Place, uid: str, *, admin: bool = False) -> dict[str, str]:
    person = people.ensure(place.instance.id, uid)
    if admin:
        people.grant(person.id, admin=True)
    scope = "administrator" if admin else "user"
    return {"Authorization": f"Bearer {tokens.issue(place.instance.id, person_id=person.id, scope=scope)[1]}"}


def hear(place: Place, uid: str, *, role: str, number: int) -> None:
    """A message of somebody whose role the server tells."""
    body = {
        "type": "Create",
        "actor": {"type": "Person", "id": f"users/{uid}", "name": uid, "talkParticipantType": role},
        "object": {"type": "Note", "id": str(number), "name": "message", "content": '{"message":"hi","parameters":[]}'},
        "target": {"type": "Collection", "id": place.room.token, "name": "Harbour crew"},
    }
    raw = json.dumps(body).encode()
    accept.accept(place.registration, random="r" * 40 + str(number), body=raw, event=place.platform.parse(raw))


def put(client: Any, place: Place, bot_id: int, headers: dict[str, str], mode: Any = "always") -> Any:
    path = f"/api/v1/rooms/{place.room.token}/bots/{bot_id}/mode"
    return client.put(path, json={"mode": mode}, headers=headers)


def test_a_bot_that_begins_to_respond_always_takes_the_place_of_another(place: Place) -> None:
    first, second = make_bot(place, "atlas"), make_bot(place, "muse")
    here = (place.instance.id, place.room.token)
    assert modes.always(*here) is None
    modes.choose(*here, bot_id=first.id, mode="always")
    modes.choose(place.instance.id, "another", bot_id=first.id, mode="always")
    modes.choose(*here, bot_id=second.id, mode="always")
    assert modes.always(*here) == second.id
    assert modes.always(place.instance.id, "another") == first.id
    with reading() as session:
        found = session.scalars(select(RoomBot.response_mode).where(RoomBot.room == place.room.token)).all()
    assert sorted(found) == ["always", "mention"]
    modes.choose(*here, bot_id=second.id, mode="mention")
    assert modes.always(*here) is None


def test_an_administrator_sets_the_mode_by_the_api(client: Any, place: Place) -> None:
    bot = make_bot(place)
    answer = put(client, place, bot.id, bearer(place, "carol", admin=True))
    assert answer.status_code == 200
    assert answer.json == {"room": place.room.token, "bot_id": bot.id, "mode": "always", "instead_of": None}
    assert modes.always(place.instance.id, place.room.token) == bot.id


def test_a_moderator_sets_the_mode_and_a_member_does_not(client: Any, place: Place) -> None:
    bot = make_bot(place)
    hear(place, "ada", role="1", number=1)
    hear(place, "eve", role="3", number=2)
    assert put(client, place, bot.id, bearer(place, "eve")).status_code == 403
    assert put(client, place, bot.id, bearer(place, "bob")).status_code == 403
    assert put(client, place, bot.id, bearer(place, "ada")).status_code == 200


def test_whoever_was_a_moderator_before_roles_changed_is_none_as_known(client: Any, place: Place) -> None:
    bot = make_bot(place)
    hear(place, "ada", role="2", number=1)
    rooms.members_changed(place.instance.id, place.room.token)
    assert put(client, place, bot.id, bearer(place, "ada")).status_code == 403
    hear(place, "ada", role="2", number=2)
    assert put(client, place, bot.id, bearer(place, "ada")).status_code == 200
    hear(place, "ada", role="3", number=3)
    assert put(client, place, bot.id, bearer(place, "ada")).status_code == 403


def test_the_mode_api_can_not_be_abused_to_learn_of_rooms_and_bots(client: Any, place: Place) -> None:
    mine = make_bot(place, "mine", scope="personal")
    other = instances.add("other", "https://other.example.test")
    rooms.seen(other.id, "0therroom")
    hear(place, "ada", role="1", number=1)
    headers = bearer(place, "ada")
    known = client.put(f"/api/v1/rooms/0therroom/bots/{mine.id}/mode", json={"mode": "always"}, headers=headers)
    unknown = client.put(f"/api/v1/rooms/nowhere1/bots/{mine.id}/mode", json={"mode": "always"}, headers=headers)
    assert (known.status_code, known.json) == (unknown.status_code, unknown.json)
    assert known.status_code == 403
    assert put(client, place, mine.id, headers).status_code == 404
    assert put(client, place, 987_654, headers).status_code == 404
    assert put(client, place, mine.id, {}).status_code == 401


@pytest.mark.parametrize("mode", ["loud", "", None, 1, ["always"], {"a": 1}])
def test_an_unknown_mode_is_refused_and_changes_nothing(client: Any, place: Place, mode: Any) -> None:
    bot = make_bot(place)
    answer = put(client, place, bot.id, bearer(place, "carol", admin=True), mode)
    assert answer.status_code == 400
    assert "mode" in answer.json["fields"]
    assert modes.always(place.instance.id, place.room.token) is None


def test_a_mode_is_read_exactly() -> None:
    assert modes.read("always") == "always"
    with pytest.raises(BadInput):
        modes.read("Always")


def test_the_command_sets_the_mode(app: Any, place: Place) -> None:
    bot = make_bot(place)
    [group] = commands.COMMANDS
    runner = app.test_cli_runner()
    done = runner.invoke(group, ["mode", place.room.token, "@atlas", "always", "--json"])
    assert json.loads(done.output) == {"room": place.room.token, "bot_id": bot.id, "mode": "always", "instead_of": None}
    assert modes.always(place.instance.id, place.room.token) == bot.id
    assert runner.invoke(group, ["mode", "nowhere1", "atlas", "always"]).exit_code != 0
    assert runner.invoke(group, ["mode", place.room.token, "nobody", "always"]).exit_code != 0
