from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from app.infra.db import reading
from app.traces import record
from app.traces.commands import group
from app.traces.models import TurnTrace
from app.traces.record import Recorder
from tests.fakes import events

TEXT = "the budget of the secret project"


@pytest.fixture
def home(app):
    return events.instance("cloud")


@pytest.fixture
def ada(home):
    return events.bearer(home, "ada")


@pytest.fixture
def bob(home):
    return events.bearer(home, "bob")


@pytest.fixture
def carol(home):
    return events.bearer(home, "carol", admin=True)


def traced(instance_id, actor="users/ada", *, status="success", room="room", tools=1):
    turn_id = record.start(instance_id, 5, bot_id=2, bot_name="Helper", room=room, actor=actor)
    recorder = Recorder(turn_id)
    recorder.event("user_message", payload={"text": TEXT})
    recorder.event(
        "attempt",
        name="primary",
        milliseconds=30,
        payload={"outcome": "rate_limit", "status": 429, "detail": "slow down"},
    )
    recorder.event("tool_call", name="room_search_messages", payload={"arguments": {"query": TEXT}})
    recorder.event("tool_result", name="room_search_messages", payload={"text": TEXT, "is_error": False})
    recorder.event("model_answered", payload={"text": TEXT, "usage": {"prompt_tokens": 7}, "finish_reason": "stop"})
    recorder.finish(status, tool_calls=tools, prompt_tokens=7, error_class="rate_limit")
    return turn_id


def test_people_see_their_own_turns_with_every_word(client, home, ada):
    turn_id = traced(home)
    assert [turn["id"] for turn in client.get("/api/v1/traces", headers=ada).json["traces"]] == [turn_id]
    shown = client.get(f"/api/v1/traces/{turn_id}", headers=ada).json
    assert shown["events"][0]["payload"] == {"text": TEXT}
    assert shown["with_text"] is True


def test_another_persons_turns_can_not_be_abused_to_read_along(client, home, ada, bob):
    turn_id = traced(home)
    assert client.get("/api/v1/traces", headers=bob).json["traces"] == []
    assert client.get("/api/v1/traces?all=1&instance=cloud", headers=bob).json["traces"] == []
    for path in (f"/api/v1/traces/{turn_id}", f"/api/v1/traces/{turn_id}?reveal=1"):
        assert client.get(path, headers=bob).status_code == 404
    assert client.post(f"/api/v1/traces/{turn_id}/share", json={"shared": True}, headers=bob).status_code == 404
    assert client.delete(f"/api/v1/traces/{turn_id}", headers=bob).status_code == 404
    assert client.get(f"/api/v1/traces/{turn_id}", headers=ada).status_code == 200
    missing = client.get("/api/v1/traces/999999", headers=bob)
    hidden = client.get(f"/api/v1/traces/{turn_id}", headers=bob)
    assert hidden.json["code"] == missing.json["code"]


def test_the_same_name_on_another_instance_is_another_person(client, home):
    turn_id = traced(home)
    other = events.bearer(events.instance("other"), "ada")
    assert client.get(f"/api/v1/traces/{turn_id}", headers=other).status_code == 404
    assert client.get("/api/v1/traces", headers=other).json["traces"] == []


@pytest.mark.parametrize("actor", ["guests/ada", "federated_users/ada@other", "users/ada/x", ""])
def test_actors_that_are_no_local_person_can_not_be_abused_to_be_one(client, home, ada, actor):
    turn_id = traced(home, actor)
    assert client.get(f"/api/v1/traces/{turn_id}", headers=ada).status_code == 404


def test_administrators_see_figures_tools_tokens_and_errors_but_no_text(client, home, carol):
    turn_id = traced(home)
    assert client.get("/api/v1/traces", headers=carol).json["traces"] == []
    (listed,) = client.get("/api/v1/traces?all=1", headers=carol).json["traces"]
    assert (listed["id"], listed["prompt_tokens"], listed["error_class"]) == (turn_id, 7, "rate_limit")
    shown = client.get(f"/api/v1/traces/{turn_id}", headers=carol)
    assert TEXT not in shown.text
    assert shown.json["with_text"] is False
    _, attempt, call, result, answered = shown.json["events"]
    assert attempt["payload"] == {"outcome": "rate_limit", "status": 429, "detail": "slow down"}
    assert attempt["milliseconds"] == 30
    assert call["name"] == "room_search_messages"
    assert call["payload"] == {}
    assert result["payload"] == {"text_length": len(TEXT), "is_error": False}
    assert answered["payload"]["usage"] == {"prompt_tokens": 7}


def test_administrators_see_the_text_when_the_person_shared_it_and_as_long(client, home, ada, carol):
    turn_id = traced(home)
    assert client.post(f"/api/v1/traces/{turn_id}/share", json={"shared": True}, headers=ada).json["shared"]
    assert TEXT in client.get(f"/api/v1/traces/{turn_id}", headers=carol).text
    client.post(f"/api/v1/traces/{turn_id}/share", json={"shared": False}, headers=ada)
    assert TEXT not in client.get(f"/api/v1/traces/{turn_id}", headers=carol).text


def test_administrators_can_not_share_for_others(client, home, carol):
    turn_id = traced(home)
    assert client.post(f"/api/v1/traces/{turn_id}/share", json={"shared": True}, headers=carol).status_code == 404


def test_revealing_is_written_where_the_person_can_see_it(client, home, ada, carol, caplog):
    turn_id = traced(home)
    for _ in range(2):
        assert TEXT in client.get(f"/api/v1/traces/{turn_id}?reveal=1", headers=carol).text
    seen = client.get(f"/api/v1/traces/{turn_id}", headers=ada).json["events"]
    assert [step["name"] for step in seen if step["kind"] == "revealed"] == ["users/carol", "users/carol"]
    assert "revealed" in caplog.text


def test_people_delete_their_own_turns(client, home, ada, carol):
    first, second = traced(home), traced(home)
    others = traced(home, "users/bob")
    running = record.start(home, actor="users/ada")
    assert client.delete(f"/api/v1/traces/{first}", headers=ada).json == {"deleted": 1}
    assert client.delete("/api/v1/traces", headers=ada).json == {"deleted": 1}
    assert client.delete(f"/api/v1/traces/{others}", headers=carol).status_code == 404
    with reading() as session:
        assert session.get(TurnTrace, second) is None
        assert session.get(TurnTrace, others) is not None
        assert session.get(TurnTrace, running) is not None


def test_turns_are_filtered_and_paged(client, home, carol):
    ids = [
        traced(home, status=status, tools=tools) for status, tools in (("success", 0), ("error", 2), ("incomplete", 0))
    ]
    traced(events.instance("other"))

    def listed(query):
        return [turn["id"] for turn in client.get(f"/api/v1/traces?all=1&{query}", headers=carol).json["traces"]]

    assert listed("") == ids[::-1]
    assert listed("errors=1") == [ids[2], ids[1]]
    assert listed("tools=1") == [ids[1]]
    assert listed("status=success") == [ids[0]]
    assert listed("limit=1&offset=1") == [ids[1]]
    assert listed("room=elsewhere") == []
    assert listed("bot_id=2&from=2020-01-01&to=2100-01-01T00:00:00Z") == ids[::-1]
    assert listed("from=2100-01-01T00:00:00+02:00") == []
    assert len(listed("instance=other")) == 1


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "limit=-1", "offset=-1", "offset=" + "9" * 18, "status=x", "from=x", "to=0001-01-01T00:00:00%2B23:00", "bot_id=²"],
)  # fmt: skip
def test_a_bad_question_gets_a_clear_answer(client, ada, query):
    answer = client.get(f"/api/v1/traces?{query}", headers=ada)
    assert answer.status_code == 400
    assert answer.json["fields"]


@pytest.mark.parametrize("body", ["[]", "{", '{"shared": "yes"}', "{}", '{"shared": true, "x": 1}'])
def test_a_bad_body_shares_nothing(client, home, ada, body):
    turn_id = traced(home)
    answer = client.post(f"/api/v1/traces/{turn_id}/share", data=body, headers=ada)
    assert answer.status_code == 400
    assert client.get(f"/api/v1/traces/{turn_id}", headers=ada).json["shared"] is False


def test_nobody_reads_traces_without_a_token(client, home):
    assert client.get("/api/v1/traces").status_code == 401
    assert client.get(f"/api/v1/traces/{traced(home)}").status_code == 401


def test_the_command_shows_turns_and_no_text_until_it_is_told_to_reveal(app, home):
    turn_id = traced(home)
    run = CliRunner()
    listed = json.loads(run.invoke(group, ["list", "--json"]).stdout)
    assert [turn["id"] for turn in listed] == [turn_id]
    assert TEXT not in run.invoke(group, ["show", str(turn_id), "--json"]).stdout
    assert TEXT in run.invoke(group, ["show", str(turn_id), "--json", "--reveal"]).stdout
    assert "Helper" in run.invoke(group, ["list"]).stdout
    assert TEXT not in run.invoke(group, ["show", str(turn_id)]).stdout
    assert run.invoke(group, ["show", "999"]).exit_code != 0
