from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.infra import logs
from app.traces import redact

SECRET_KEYS = [
    "api_key", "apiKey", "API_KEY", "X-Api-Key", "apikey", "APIKey", "authorization", "Authorization", "password",
    "userPassword", "app_password", "passwd", "secret", "client_secret", "clientSecret", "token", "access_token",
    "accessToken", "refresh-token", "id_token", "Set-Cookie", "cookie", "private_key", "secret_key", "TOKEN",
]  # fmt: skip
PLAIN_KEYS = [
    "room_token", "roomToken", "max_tokens", "total_tokens", "maxTokens", "prompt_tokens", "max_completion_tokens",
    "token_limit", "token_count", "tokenizer", "tokens", "secretary", "passwordless", "keyboard", "api", "key",
    "monkey", "page_token", "author", "authored_by", "cookies_eaten", "primary_key",
]  # fmt: skip


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_key_of_a_secret_hides_its_value_at_any_depth(key):
    kept = redact.payload("tool_call", {"arguments": [{"deep": {key: "hunter2"}}]})
    assert kept == {"arguments": [{"deep": {key: "[redacted]"}}]}


@pytest.mark.parametrize("key", PLAIN_KEYS)
def test_a_key_that_only_looks_like_a_secret_keeps_its_value(key):
    assert redact.payload("tool_call", {key: "abc"}) == {key: "abc"}


def test_whole_objects_under_a_secret_key_are_hidden_and_empty_ones_and_flags_are_not():
    kept = redact.payload("tool_call", {"secret": {"a": "b"}, "password": "", "token": None, "cookie": True})
    assert kept == {"secret": "[redacted]", "password": "", "token": None, "cookie": True}


def test_a_number_under_the_key_of_a_password_is_hidden():
    assert redact.payload("tool_call", {"password": 12345678}) == {"password": "[redacted]"}


def test_a_secret_that_parley_opened_is_masked_wherever_it_stands():
    logs.register_secret("canary-4711-secret")
    kept = redact.payload(
        "tool_result", {"text": "it is canary-4711-secret!", "canary-4711-secret": ["canary-4711-secret"]}
    )
    assert "canary-4711" not in json.dumps(kept)


def test_a_known_secret_at_the_place_of_the_cut_can_not_be_abused_to_show_its_half():
    logs.register_secret("canary-4712-secret")
    for before in range(980, 1001):
        kept = redact.payload("user_message", {"text": "x" * before + "canary-4712-secret" + "y" * 50})
        assert "canary" not in kept["text"]


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefghijklmnop",
        '{"authorization": "Basic dXNlcjpwYXNzd29yZA=="}',
        "bearer sk1234567890abcdef",
    ],
)
def test_a_credential_that_a_text_spells_out_is_hidden(text):
    assert "[redacted]" in redact.text(text)


@pytest.mark.parametrize("text", ["basic mathematics", "the bearer certificates", "Bearer of bad news: token economy"])
def test_ordinary_words_are_left_alone(text):
    assert redact.text(text) == text


def test_arguments_are_kept_up_to_sixteen_kibibytes_and_results_up_to_sixty_four():
    fits = redact.payload("tool_call", {"arguments": "x" * 16_000})
    assert fits["arguments"] == "x" * 16_000
    large = redact.payload("tool_call", {"arguments": {str(n): "x" * 1000 for n in range(100)}})
    assert large["truncated"] is True
    assert large["original_length"] > 100_000
    assert redact.payload("tool_result", {"text": "x" * 60_000})["text"] == "x" * 60_000
    cut = redact.payload("tool_result", {"text": "x" * 50_000_000})
    assert len(json.dumps(cut)) <= 64 * 1024


@pytest.mark.parametrize("kind", ["user_message", "answer", "history", "model_answered"])
def test_what_people_and_models_wrote_is_kept_as_a_preview(kind):
    kept = redact.payload(kind, {"text": "é" * 5000})
    assert kept["text"] == "é" * 1000 + "…"


def test_values_that_are_no_json_and_bottomless_ones_do_no_harm():
    loop: list[object] = []
    loop.append(loop)
    odd = {
        "nan": float("nan"),
        "bytes": b"x",
        "set": {1},
        "loop": loop,
        5: object(),
        "big": 10**400,
        "bad": "a\x00\ud800",
    }
    kept = redact.payload("tool_result", odd)
    assert json.loads(json.dumps(kept, allow_nan=False))
    assert kept["nan"] == "nan"
    assert kept["bad"] == "a?"
    assert kept["5"] == "<object>"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), values, max_size=6), st.sampled_from(["tool_call", "tool_result", "answer", "x"]))
def test_whatever_is_recorded_becomes_json_within_its_limit(payload, kind):
    kept = redact.payload(kind, payload)
    written = json.dumps(kept, ensure_ascii=False, allow_nan=False)
    assert len(written.encode()) <= 64 * 1024
    assert "\x00" not in written


@settings(deadline=None)
@given(st.text(alphabet="abcXYZ_-0123456789", max_size=12), st.sampled_from(["token", "secret", "password"]))
def test_a_secret_word_at_the_end_of_a_snake_key_is_always_seen(prefix, word):
    if redact.WORDS.findall(prefix)[-1:] and redact.WORDS.findall(prefix)[-1].lower() in redact.PLAIN_TOKENS:
        return
    assert redact.is_secret(f"{prefix}_{word}")
