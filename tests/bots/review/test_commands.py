from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask

from app.bots.review.commands import COMMANDS
from app.infra.errors import Conflict, NotFound
from tests.bots.review.conftest import again, made


def told(*words: str) -> Any:
    result = CliRunner().invoke(COMMANDS[0], [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_bot_is_submitted_rejected_submitted_and_approved(app: Flask) -> None:
    bot = made()
    assert told("submit", "@atlas", "--reason", "Asked for.", "--testing", "Ask it.")["state"] == "pending"
    assert again(bot).questionnaire == {
        "approval_reason": "Asked for.",
        "bot_capabilities": "",
        "rag_source_description": "",
        "testing_description": "Ask it.",
    }
    assert told("reject", str(bot.id), "--reason", "Too vague.")["rejection_reason"] == "Too vague."
    told("submit", "atlas", "--reason", "Clear now.")
    shown = told("approve", "atlas")
    assert (shown["state"], shown["approved_by"]) == ("approved", None)


def test_a_bot_is_switched_off_and_on(app: Flask) -> None:
    bot = made(scope="personal")
    assert told("switch", "atlas", "off")["is_active"] is False
    assert not again(bot).is_active
    assert told("switch", "atlas", "on")["is_active"] is True


def test_what_does_not_wait_is_told(app: Flask) -> None:
    made()
    with pytest.raises(Conflict):
        told("approve", "atlas")
    with pytest.raises(NotFound):
        told("approve", "muse")
