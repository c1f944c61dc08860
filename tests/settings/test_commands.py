"""Commands about settings and endpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flask import Flask

from app.config import Config
from app.infra.errors import BadInput, NotFound
from app.settings import endpoints, store
from app.settings.commands import COMMANDS
from tests.fakes.model_server import ModelServer

CANARY = "canary-5eC4e7-do-not-show"
GROUPS = {str(group.name): group for group in COMMANDS}


def run(words: str, *more: str, stdin: str | None = None) -> Result:
    group, *rest = words.split()
    return CliRunner().invoke(GROUPS[group], [*rest, *more], input=stdin)


def printed(words: str, *more: str, stdin: str | None = None) -> Any:
    result = run(words, *more, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_settings_are_shown_and_got(app: Flask) -> None:
    assert {each["name"] for each in printed("settings show")} >= {"turn_seconds", "default_model"}
    assert printed("settings get turn_seconds")["value"] == 300
    assert run("settings get turn_seconds").output == "300\n"
    assert "turn_seconds" in run("settings show").output
    assert isinstance(run("settings get nothing").exception, BadInput)


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("turn_seconds", "120", 120),
        ("default_temperature", "null", None),
        ("default_temperature", "0.5", 0.5),
        ("allow_multiple_models", "true", True),
        ("allowed_models", '["primary:m"]', ["primary:m"]),
        ("model_output_tokens", '{"primary:m": 100}', {"primary:m": 100}),
        ("branding_name", "42", "42"),
        ("branding_name", "null", "null"),
        ("heard_reaction", "off", "off"),
    ],
)
def test_what_is_typed_is_read_by_the_type_of_the_setting(app: Flask, name: str, typed: str, value: Any) -> None:
    assert printed("settings set", name, typed)["value"] == value
    assert store.get(name) == value
    assert run("settings get", name).output.strip() == (typed if name != "turn_seconds" else "120")


@pytest.mark.parametrize("typed", ["5", "9999", "many", "1e999", "NaN", "", "[" * 100_000])
def test_a_bad_value_is_refused_with_the_limits_and_changes_nothing(app: Flask, typed: str) -> None:
    result = run("settings set turn_seconds", typed)
    assert result.exit_code != 0
    assert "from 10 to 900" in str(result.exception)
    assert store.get("turn_seconds") == 300


def test_a_value_is_needed_and_clear_goes_back(app: Flask) -> None:
    assert isinstance(run("settings set turn_seconds").exception, BadInput)
    printed("settings set turn_seconds 60")
    assert printed("settings set turn_seconds --clear")["value"] == 300


def test_a_secret_comes_from_stdin_and_never_from_an_argument(app: Flask) -> None:
    assert isinstance(run("settings set metrics_token", CANARY).exception, BadInput)
    assert store.get("metrics_token") is None
    result = run("settings set metrics_token --stdin", stdin=CANARY + "\n")
    assert result.exit_code == 0
    assert CANARY not in result.output
    assert store.get("metrics_token") == CANARY
    assert CANARY not in run("settings show").output + run("settings get metrics_token --json").output
    run("settings set metrics_token --stdin", stdin="\n")
    assert store.get("metrics_token") == CANARY
    run("settings set metrics_token --clear")
    assert store.get("metrics_token") is None


def test_an_endpoint_is_set_with_a_key_from_stdin_and_tested(app: Flask) -> None:
    with ModelServer() as server:
        server.models = ["small"]
        made = printed("endpoints set primary --model small --key-stdin --url", server.url, stdin=CANARY + "\n")
        assert (made["name"], made["default_model"], made["key"]) == ("primary", "small", "set, ends in …how")
        assert store.get("default_model") == "primary:small"
        good = printed("endpoints test primary")
        assert (good["ok"], good["models"], set(good)) == (True, ["small"], {"ok", "models", "message"})
    dead = run("endpoints test primary --json")
    assert dead.exit_code == 1
    assert json.loads(dead.output)["ok"] is False
    assert isinstance(run("endpoints test nothing").exception, NotFound)
    assert printed("endpoints test offline")["ok"]


def test_setting_again_keeps_what_is_not_given(app: Flask) -> None:
    run("endpoints set primary --url http://127.0.0.1:9 --model m --key-stdin", stdin=CANARY + "\n")
    printed("endpoints set primary --allowed-model m --allowed-model n")
    found = endpoints.get("primary")
    assert found is not None
    assert (found.url, found.default_model, found.key) == ("http://127.0.0.1:9", "m", CANARY)
    assert found.allowed_models == ("m", "n")
    printed("endpoints set primary --clear-key")
    assert [each["key"] for each in printed("endpoints list")] == [""]
    printed("endpoints remove primary")
    assert printed("endpoints list") == []
    assert isinstance(run("endpoints remove primary").exception, NotFound)


def test_a_new_endpoint_needs_an_address_and_a_name(app: Flask) -> None:
    assert isinstance(run("endpoints set primary --model m").exception, BadInput)
    assert isinstance(run("endpoints set offline --url http://127.0.0.1:9").exception, BadInput)
    assert endpoints.all() == []


@pytest.mark.process
def test_a_command_in_another_process_is_seen_here_at_once(app: Flask, config: Config) -> None:
    assert store.get("turn_seconds") == 300
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {
        "PARLEY_DATA_DIR": str(config.data_dir),
        "PARLEY_SECRET_KEY": "a-secret-key-for-tests-only",
    }
    command = [sys.executable, "manage.py", "settings", "set", "turn_seconds", "77"]
    subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, timeout=60)
    assert store.get("turn_seconds") == 77


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, words: str, typed: str) -> Result:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    return run(words, stdin=typed)


def test_the_key_of_a_new_endpoint_is_asked_for_at_a_terminal(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = at_a_terminal(monkeypatch, "endpoints set one --url http://127.0.0.1:9 --model m", f"{CANARY}\n")
    assert "API key" in asked.output
    assert CANARY not in asked.output
    found = endpoints.get("one")
    assert found is not None
    assert found.key == CANARY
    assert "API key" not in at_a_terminal(monkeypatch, "endpoints set one --url http://127.0.0.1:8", "").output
    at_a_terminal(monkeypatch, "endpoints set two --url http://127.0.0.1:9", "\n")
    without = endpoints.get("two")
    assert without is not None
    assert without.key is None


def test_a_program_is_never_asked_for_a_key(app: Flask) -> None:
    assert "API key" not in run("endpoints set one --url http://127.0.0.1:9").output
