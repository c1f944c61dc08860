from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flask import Flask

from app.accounts import instances, people
from app.bots import store
from app.bots.commands import COMMANDS
from app.infra.errors import BadInput, Conflict, NotFound
from tests.bots.conftest import bot, cloud, person_id

BASE = ["add", "--name", "Atlas", "--mention", "@atlas", "--prompt", "Be kind.", "--json"]


def run(*words: str) -> Result:
    return CliRunner().invoke(COMMANDS[0], words)


def told(*words: str) -> Any:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_bot_is_added_as_the_api_shows_it(app: Flask) -> None:
    instance = cloud()
    made = told(*BASE)
    assert set(made) >= {"id", "name", "mention_name", "scope", "state", "tools", "owner"}
    assert (made["mention_name"], made["scope"], made["state"], made["owner"]) == (
        "atlas",
        "personal",
        "approved",
        "carol",
    )
    found = store.by_mention(instance.id, "atlas")
    assert found is not None
    assert found.id == made["id"]


def test_all_options_are_taken(app: Flask) -> None:
    cloud()
    made = told(
        *BASE, "--scope", "groups", "--groups", "crew, deck", "--owner", "zoe", "--model", "primary:m", "--temperature",
        "0.5", "--tool", "current_time", "--tool", "room_search_messages", "--draft", "--description", "Berths",
    )  # fmt: skip
    assert made["groups"] == ["crew", "deck"]
    assert (made["owner"], made["model"], made["temperature"], made["state"]) == ("zoe", "primary:m", 0.5, "draft")
    assert (made["tools"], made["description"]) == (["current_time", "room_search_messages"], "Berths")


def test_first_questions_come_from_a_file(app: Flask, tmp_path: Path) -> None:
    cloud()
    file = Path(__file__).resolve().parents[2] / "docs" / "examples" / "first-questions.json"
    made = told(*BASE, "--onboarding", str(file))
    assert made["onboarding"] == json.loads(file.read_text())
    assert told("show", "atlas", "--json")["onboarding"]["start"] == "boat"
    assert "What do you come with?" in run("show", "atlas").output
    wrong = tmp_path / "wrong.json"
    for text, told_ in (
        (b'{"start": "q", "questions": []}', "1 to 15"),
        (b"[" * 100_000, "no JSON"),
        (b"{'start': 1}", "no JSON"),
        (b"\xff\xfe", "no JSON"),
    ):
        wrong.write_bytes(text)
        error = run(*BASE, "--mention", "muse", "--onboarding", str(wrong)).exception
        assert isinstance(error, BadInput)
        assert told_ in error.fields["onboarding"]
    assert run(*BASE, "--onboarding", str(tmp_path / "nothing.json")).exit_code == 2
    assert store.listed(cloud().id).total == 1


def test_without_an_administrator_one_is_made(app: Flask) -> None:
    made = told(*BASE)
    sandbox = instances.by_name("sandbox")
    assert sandbox is not None
    admin = people.first_admin(sandbox.id)
    assert admin is not None
    assert made["owner"] == admin.uid


def test_the_instance_is_chosen_as_everywhere(app: Flask) -> None:
    cloud()
    other = cloud("other")
    assert isinstance(run(*BASE).exception, BadInput)
    assert told(*BASE, "--instance", "other")["owner"] == "carol"
    assert store.by_mention(other.id, "atlas") is not None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--mention", "a b!"], BadInput),
        (["--tool", "launch_rockets"], BadInput),
        (["--temperature", "7"], BadInput),
        (["--scope", "teams"], BadInput),
        (["--mention", "muse"], Conflict),
    ],
)
def test_what_is_wrong_is_said_and_makes_nobody(app: Flask, words: list[str], error: type[Exception]) -> None:
    bot("muse")
    result = run(*BASE, *words, "--owner", "zoe")
    assert isinstance(result.exception, error)
    assert store.listed(cloud().id).total == 1
    assert people.find(cloud().id, "zoe") is None


def test_bots_are_listed_shown_and_removed(app: Flask) -> None:
    made = bot(system_prompt="A secret.")
    bot(instance=cloud("other"))
    listed = told("list", "--json", "--instance", "cloud")
    assert [each["mention_name"] for each in listed] == ["atlas"]
    assert "A secret." not in json.dumps(listed)
    for name in ("atlas", "@ATLAS", str(made.id)):
        assert told("show", name, "--json", "--instance", "cloud")["id"] == made.id
    assert run("list", "--instance", "cloud").exit_code == 0
    assert run("show", "atlas", "--instance", "cloud").exit_code == 0
    assert told("remove", "atlas", "--json", "--instance", "cloud") == {"id": made.id, "mention_name": "atlas"}
    for words in (("show", "atlas"), ("remove", str(made.id)), ("show", "9" * 30)):
        assert isinstance(run(*words, "--instance", "cloud").exception, NotFound)
    assert person_id(cloud(), "bob")


def test_a_bot_of_another_server_can_not_be_removed_by_its_number(app: Flask) -> None:
    made = bot(instance=cloud("other"))
    cloud()
    assert isinstance(run("remove", str(made.id), "--instance", "cloud").exception, NotFound)
    assert store.get(made.id) is not None


def test_more_bots_than_a_page_are_all_listed(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_LISTED", 2)
    for number in range(5):
        bot(f"b{number}")
    assert len(told("list", "--json")) == 5
