"""Values of settings in the database."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.infra import crypto
from app.infra.db import db, reading, transaction
from app.infra.errors import BadInput, Unavailable
from app.settings import endpoints, schema, store
from app.settings.models import SettingValue
from tests.settings.test_schema import fitting

CANARY = "canary-5eC4e7-do-not-show"


def row_count() -> int:
    with reading() as session:
        return session.query(SettingValue).count()


def test_everything_has_its_default_on_an_empty_database(app: Flask) -> None:
    assert {each["name"] for each in store.show()} == {setting.name for setting in schema.SETTINGS}
    assert all(each["is_default"] for each in store.show())
    assert store.get("default_model") == "offline:quote"
    assert store.get("turn_seconds") == 300
    assert store.get("metrics_token") is None


def test_a_value_is_kept_and_cleared_again(app: Flask) -> None:
    store.set("turn_seconds", 120)
    assert store.get("turn_seconds") == 120
    store.set("turn_seconds", 130)
    assert store.several("turn_seconds", "language") == {"turn_seconds": 130, "language": "en"}
    store.clear("turn_seconds")
    assert store.get("turn_seconds") == 300
    assert row_count() == 0


@pytest.mark.parametrize(("name", "usual"), [("turns_per_room_minute", 20), ("turns_per_person_minute", 10)])
def test_nought_switches_a_limit_of_turns_off_and_nothing_brings_the_default_back(
    app: Flask, name: str, usual: int
) -> None:
    store.set(name, 0)
    assert store.get(name) == 0
    for value in (-1, 10_001, "many"):
        with pytest.raises(BadInput):
            store.set(name, value)
    assert store.get(name) == 0
    store.set(name, "")
    assert store.get(name) == usual


def test_none_is_a_temperature_of_its_own_and_not_the_default(app: Flask) -> None:
    store.set("default_temperature", None)
    assert store.get("default_temperature") is None
    assert not next(each for each in store.show() if each["name"] == "default_temperature")["is_default"]


def test_one_bad_value_keeps_all_the_others_out(app: Flask) -> None:
    with pytest.raises(BadInput) as caught:
        store.update({"turn_seconds": 120, "language": "tlh", "max_model_calls": 99, "no_such": 1})
    assert set(caught.value.fields) == {"language", "max_model_calls", "no_such"}
    assert store.get("turn_seconds") == 300
    assert row_count() == 0


def test_a_change_by_another_connection_is_seen_at_once(app: Flask) -> None:
    assert store.get("turn_seconds") == 300
    with db.engine.begin() as other:
        other.exec_driver_sql(
            f"INSERT INTO {SettingValue.__tablename__} (name, value, updated_at) VALUES ('turn_seconds', '77', '2026-01-01')"
        )
    assert store.get("turn_seconds") == 77


def test_a_list_that_a_caller_changes_does_not_change_the_default(app: Flask) -> None:
    store.get("allowed_models").append("x:y")
    store.get("model_output_tokens")["x:y"] = 1
    assert store.get("allowed_models") == []
    assert store.get("model_output_tokens") == {}


def test_a_stored_value_that_the_limits_no_longer_allow_gives_the_default(app: Flask) -> None:
    store.set("turn_seconds", 120)
    with transaction() as session:
        row = session.get(SettingValue, "turn_seconds")
        assert row is not None
        row.value = 99_999
    assert store.get("turn_seconds") == 300


def test_settings_can_be_read_and_set_inside_a_transaction(app: Flask) -> None:
    with transaction():
        store.set("turn_seconds", 55)
        assert store.get("turn_seconds") == 55
    assert store.get("turn_seconds") == 55


def test_a_failed_transaction_around_it_takes_the_value_back(app: Flask) -> None:
    with suppress(ZeroDivisionError), transaction():
        store.set("turn_seconds", 55)
        raise ZeroDivisionError
    assert store.get("turn_seconds") == 300


def test_the_default_model_is_that_of_the_oldest_endpoint_with_one_until_it_is_set(app: Flask) -> None:
    endpoints.save("first", url="http://127.0.0.1:1")
    assert store.get("default_model") == "offline:quote"
    endpoints.save("second", url="http://127.0.0.1:2", model="qwen:7b")
    endpoints.save("third", url="http://127.0.0.1:3", model="other")
    assert store.get("default_model") == "second:qwen:7b"
    store.set("default_model", "third:other")
    assert store.get("default_model") == "third:other"
    store.set("default_model", "")
    assert store.get("default_model") == "second:qwen:7b"
    endpoints.remove("second")
    endpoints.remove("third")
    assert store.get("default_model") == "offline:quote"


def test_a_secret_is_sealed_masked_kept_by_blank_and_cleared_by_none(app: Flask, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    store.set("metrics_token", CANARY)
    with reading() as session:
        row = session.get(SettingValue, "metrics_token")
        assert row is not None
        assert row.value is None
        assert row.sealed is not None
        assert CANARY not in row.sealed
    assert store.get("metrics_token") == CANARY
    shown = next(each for each in store.show() if each["name"] == "metrics_token")
    assert shown["value"] == "set, ends in …how"
    for kept in ("", "   ", shown["value"]):
        store.set("metrics_token", kept)
        assert store.get("metrics_token") == CANARY
    assert CANARY not in repr(store.show()) + caplog.text
    store.set("metrics_token", None)
    assert store.get("metrics_token") is None
    assert row_count() == 0


def test_a_refused_secret_is_not_repeated_in_the_error(app: Flask) -> None:
    with pytest.raises(BadInput) as caught:
        store.set("metrics_token", CANARY + "\n!")
    assert CANARY not in str(caught.value) + repr(caught.value.fields)


def test_a_secret_under_a_lost_key_is_told_and_can_be_set_anew(app: Flask) -> None:
    store.set("metrics_token", CANARY)
    crypto.vault.keys = ("another key of this length",)
    with pytest.raises(Unavailable, match="metrics_token"):
        store.get("metrics_token")
    assert "Set it again" in next(each for each in store.show() if each["name"] == "metrics_token")["value"]
    assert store.get("turn_seconds") == 300
    store.set("metrics_token", "new-token")
    assert store.get("metrics_token") == "new-token"


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_what_is_set_is_what_is_got(app: Flask, data: st.DataObject) -> None:
    setting = data.draw(st.sampled_from(schema.SETTINGS))
    value = data.draw(fitting(setting))
    if setting.kind == "secret" and schema.keeps(value):
        return
    store.set(setting.name, value)
    assert store.get(setting.name) == schema.check(setting, value)
    store.clear(setting.name)
    assert store.show([setting.name])[0]["is_default"]
