from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.exc import OperationalError

from app.infra import clock
from app.infra.db import reading, transaction
from app.llm.models import ModelQuirk
from app.llm.quirks import memory
from app.llm.quirks.base import Quirk

NOON = datetime(2026, 7, 25, 12, tzinfo=UTC)
URL = "http://127.0.0.1:9/v1/chat/completions"


def recall(model: str = "m", *, endpoint: str = "primary", url: str = URL) -> dict[Quirk, int]:
    return memory.recall(endpoint, model, url)


def count() -> int | None:
    with reading() as session:
        return session.scalar(select(func.count(ModelQuirk.id)))


def test_what_was_learned_is_known_for_this_model_at_this_server(any_app: Flask) -> None:
    memory.remember("primary", "m", URL, {Quirk.NO_TOOLS: 0, Quirk.OUTPUT_TOKENS: 4096})
    assert recall() == {Quirk.NO_TOOLS: 0, Quirk.OUTPUT_TOKENS: 4096}
    assert not recall("other")
    assert not recall(endpoint="secondary")
    assert not recall(url="http://127.0.0.1:10/v1/chat/completions")
    memory.remember("primary", "m", URL, {Quirk.OUTPUT_TOKENS: 2048})
    assert recall()[Quirk.OUTPUT_TOKENS] == 2048
    assert count() == 2
    memory.forget("primary")
    assert not recall()


def test_it_is_forgotten_after_a_day(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)
    memory.remember("primary", "m", URL, {Quirk.NO_TOOLS: 0})
    monkeypatch.setattr(clock, "now", lambda: NOON + timedelta(hours=23))
    assert recall()
    monkeypatch.setattr(clock, "now", lambda: NOON + timedelta(hours=24))
    assert not recall()
    memory.remember("primary", "other", URL, {Quirk.NO_TOOLS: 0})
    assert count() == 1


def test_names_of_models_can_not_be_abused_to_fill_the_database(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST", 20)
    for number in range(50):
        memory.remember("primary", f"model-{number}", URL, {Quirk.NO_SYSTEM: 0})
    assert (count() or 0) <= 20
    assert recall("model-49")
    assert not recall("model-0")


@pytest.mark.parametrize("name", ["", "x" * 1000, "a\x00b", "\ud800", "😀", "M", "m "])
def test_any_name_of_a_model_is_a_key_of_its_own(any_app: Flask, name: str) -> None:
    memory.remember("primary", name, URL, {Quirk.ALTERNATE: 0})
    assert recall(name) == {Quirk.ALTERNATE: 0}
    assert not recall("m")


def test_a_quirk_that_this_version_does_not_know_is_left_out(app: Flask) -> None:
    memory.remember("primary", "m", URL, {Quirk.ALTERNATE: 0})
    with transaction() as session:
        session.execute(update(ModelQuirk).values(quirk="from_the_future"))
    assert not recall()


def test_a_database_that_is_away_costs_no_answer(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise OperationalError("select", {}, Exception("away"))

    monkeypatch.setattr(memory, "reading", away)
    monkeypatch.setattr(memory, "transaction", away)
    memory.remember("primary", "m", URL, {Quirk.ALTERNATE: 0})
    assert not recall()
