"""What values settings take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.infra.errors import BadInput
from app.settings import schema
from app.settings.schema import SETTINGS, Setting

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=8,
)


def fitting(setting: Setting) -> st.SearchStrategy[Any]:
    references = st.from_regex(r"[a-z][a-z0-9-]{0,10}:[A-Za-z0-9./:-]{1,40}", fullmatch=True)
    numbers = st.integers(int(setting.least or 0), int(setting.most or 0))
    return {
        "int": numbers,
        "float": st.none() | st.floats(0, 1),
        "bool": st.booleans(),
        "choice": st.sampled_from(setting.choices or ("",)),
        "list": st.lists(references, max_size=10),
        "map": st.dictionaries(references, numbers, max_size=10),
        "rates": st.dictionaries(
            st.just("*") | st.from_regex(schema.ENDPOINT, fullmatch=True),
            st.dictionaries(st.sampled_from(schema.WINDOWS), numbers),
            max_size=5,
        ),
        "secret": st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=200),
        "text": st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8),
    }[setting.kind]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_default_of_every_setting_is_within_its_own_limits(setting: Setting) -> None:
    if setting.kind == "secret":
        assert setting.default is None
        return
    assert schema.check(setting, setting.default) == setting.default


@given(st.data())
def test_a_fitting_value_is_stable_under_checking_and_json(data: st.DataObject) -> None:
    setting = data.draw(st.sampled_from(SETTINGS))
    stored = schema.check(setting, data.draw(fitting(setting)))
    assert schema.check(setting, stored) == stored
    assert json.loads(json.dumps(stored, allow_nan=False)) == stored


@given(st.data())
def test_what_is_written_for_a_person_reads_back_as_the_same_value(data: st.DataObject) -> None:
    setting = data.draw(st.sampled_from([each for each in SETTINGS if each.kind != "secret"]))
    stored = schema.check(setting, data.draw(fitting(setting)))
    assert schema.check(setting, schema.parse(setting, schema.written(stored))) == stored


@given(st.sampled_from(SETTINGS), JSON_VALUES)
def test_any_json_value_is_stored_within_the_limits_or_refused_with_a_sentence(setting: Setting, value: Any) -> None:
    try:
        stored = schema.check(setting, value)
    except BadInput as refusal:
        told = refusal.fields
        assert list(told) == [setting.name]
        assert str(schema.limits(setting)) in told[setting.name]
        return
    assert schema.check(setting, stored) == stored
    if setting.kind in ("int", "float") and stored is not None:
        assert (setting.least or 0) <= stored <= (setting.most or 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_model_calls", 0),
        ("max_model_calls", 51),
        ("max_model_calls", True),
        ("max_model_calls", "24"),
        ("max_model_calls", 2.5),
        ("max_model_calls", float("nan")),
        ("max_model_calls", float("inf")),
        ("max_model_calls", None),
        ("turn_seconds", 9),
        ("turn_seconds", 901),
        ("conversation_context_tokens", 999),
        ("conversation_context_tokens", 1_000_001),
        ("max_output_tokens", 131_073),
        ("default_temperature", 1.01),
        ("default_temperature", -0.01),
        ("default_temperature", False),
        ("allow_multiple_models", 1),
        ("allow_multiple_models", "true"),
        ("allowed_models", "primary:m"),
        ("allowed_models", [""]),
        ("allowed_models", [1]),
        ("allowed_models", ["m"] * 501),
        ("model_output_tokens", {"m": 0}),
        ("model_output_tokens", {"m": "many"}),
        ("model_output_tokens", []),
        ("heard_reaction", "maybe"),
        ("heard_reaction", ["remove"]),
        ("rate_limits", []),
        ("rate_limits", {"Primary": {"minute": 1}}),
        ("rate_limits", {"primary": {"week": 1}}),
        ("rate_limits", {"primary": {"minute": 0}}),
        ("rate_limits", {"primary": 5}),
        ("max_retry_wait", 301),
        ("max_model_attempts", 49),
        ("fallback_on", "always"),
        ("branding_name", ""),
        ("branding_name", "  "),
        ("branding_name", "x" * 65),
        ("branding_name", "\N{FAMILY}" * 17),
        ("branding_name", "a\nb"),
        ("branding_name", "a\x00b"),
        ("language", "tlh"),
        ("metrics_token", "with a\nnewline"),
        ("metrics_token", "schlüssel"),
        ("metrics_token", "x" * 4097),
        ("metrics_token", 5),
    ],
)
def test_a_value_outside_the_limits_is_refused(name: str, value: Any) -> None:
    with pytest.raises(BadInput):
        schema.check(schema.find(name), value)


def test_the_sentence_names_the_limits() -> None:
    with pytest.raises(BadInput, match="from 10 to 900"):
        schema.check(schema.find("turn_seconds"), 5)
    with pytest.raises(BadInput, match="from 1000 to 1000000"):
        schema.check(schema.find("conversation_context_tokens"), 5)
    with pytest.raises(BadInput, match="from 1 to 131072"):
        schema.check(schema.find("max_output_tokens"), 0)


def test_a_temperature_is_rounded_to_two_places_and_never_minus_zero() -> None:
    setting = schema.find("default_temperature")
    assert schema.check(setting, 0.12678) == 0.13
    assert str(schema.check(setting, -0.0)) == "0.0"
    assert schema.check(setting, None) is None


def test_an_unknown_name_is_refused_and_not_echoed_at_length() -> None:
    with pytest.raises(BadInput) as caught:
        schema.find("x" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_says_what_it_is_about_and_what_it_takes(setting: Setting) -> None:
    assert str(setting.about).endswith(".")
    assert str(schema.limits(setting)).endswith(".")


def test_a_mask_and_a_blank_keep_a_secret() -> None:
    assert all(schema.keeps(text) for text in ("", "  ", "set", "set, ends in …abc"))
    assert not any(schema.keeps(text) for text in ("sk-1", "settled", "***x"))
