from __future__ import annotations

import pytest
from flask import Flask

from app.infra import crypto
from app.llm.base import ErrorClass, ModelError
from app.llm.endpoints import refusal, resolve
from app.llm.offline import OfflineModel
from app.llm.patience import PatientModel
from app.settings import endpoints, store
from app.settings.endpoints import ModelInfo

URL = "http://127.0.0.1:9"


def refused(reference: str | None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        resolve(reference)
    return caught.value


def test_nothing_is_configured(app: Flask) -> None:
    resolved = resolve(None)
    assert (resolved.endpoint, resolved.model, resolved.reference) == ("offline", "quote", "offline:quote")
    assert isinstance(resolved.chat, OfflineModel)
    assert refused("gpt-x").error_class == ErrorClass.NOT_CONFIGURED
    assert refused("primary:gpt-x").error_class == ErrorClass.NOT_CONFIGURED


def test_the_first_endpoint_with_a_model_is_the_default(app: Flask) -> None:
    endpoints.save("first", url=URL)
    endpoints.save("second", url=URL, model="m")
    assert resolve("").reference == "second:m"
    store.set("default_model", "first:other")
    assert resolve(None).reference == "first:other"


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("beta:x", "beta:x"),
        ("beta:mistral:latest", "beta:mistral:latest"),
        ("mistral:latest", "beta:mistral:latest"),
        ("both", "primary:both"),
        ("only-beta", "beta:only-beta"),
        ("unknown", "primary:unknown"),
        ("gone:x", "primary:gone:x"),
        (" beta:x ", "beta:x"),
        ("beta:", "beta:fallback"),
        ("offline:quote", "offline:quote"),
    ],
)
def test_references_are_split_only_at_the_name_of_an_endpoint(app: Flask, reference: str, found: str) -> None:
    endpoints.save("primary", url=URL)
    endpoints.save("beta", url=URL, model="fallback")
    endpoints.remember_models("primary", [ModelInfo("both")], None)
    endpoints.remember_models("beta", [ModelInfo("both"), ModelInfo("only-beta"), ModelInfo("mistral:latest")], None)
    assert resolve(reference).reference == found


def test_an_endpoint_without_a_model_says_so(app: Flask) -> None:
    endpoints.save("primary", url=URL)
    assert "primary has no default model" in str(refused("primary:").sentence)


def test_only_allowed_models_are_used(app: Flask) -> None:
    endpoints.save("primary", url=URL, model="main", allowed_models=["a", "b"])
    assert resolve("primary:a").model == "a"
    assert refused("primary:c").error_class == ErrorClass.NOT_ALLOWED
    store.set("allowed_models", ["primary:b"])
    assert resolve("primary:b").model == "b"
    assert refused("primary:a").error_class == ErrorClass.NOT_ALLOWED
    assert resolve(None).model == "main"


def test_bots_use_the_default_model_where_they_may_have_none_of_their_own(app: Flask) -> None:
    endpoints.save("primary", url=URL, model="main", allowed_models=["a"])
    assert resolve("primary:a").model == "a"
    store.set("allow_multiple_models", False)
    assert resolve("primary:a").reference == "primary:main"
    assert resolve("offline:quote").reference == "primary:main"
    assert resolve("primary:c").reference == "primary:main"


def test_a_model_that_bots_may_not_use_is_refused_with_a_sentence(app: Flask) -> None:
    assert refusal("whatever") is None
    endpoints.save("primary", url=URL, model="main", allowed_models=["a", "b"])
    endpoints.save("secondary", url=URL, model="main")
    assert [refusal(name) is None for name in ("primary:a", "a", "primary:c", "c", "secondary:c")] == [
        *(True, True, False, False, True),
    ]
    assert refusal("offline:quote") is None
    store.set("allowed_models", ["primary:a"])
    assert "primary:b" in str(refusal("primary:b"))
    assert refusal("secondary:c") is not None
    store.set("allow_multiple_models", False)
    assert "default model" in str(refusal("primary:a"))
    assert refusal("primary:main") is None


def test_a_model_knows_its_key_its_addresses_and_its_time(app: Flask) -> None:
    endpoints.save("primary", url=URL, key="canary-key-1234", model="m")
    store.set("stream_timeout", 33)
    store.set("chat_timeout", 11)
    patient = resolve(None).chat
    assert isinstance(patient, PatientModel)
    chat = patient.model
    assert (chat.key, chat.stream_seconds, chat.whole_seconds) == ("canary-key-1234", 33, 11)
    assert chat.urls.chat == URL + "/v1/chat/completions"
    assert "canary" not in repr(chat)


def test_the_output_budget_is_what_is_set_or_what_fits(app: Flask) -> None:
    endpoints.save("primary", url=URL)
    endpoints.remember_models("primary", [ModelInfo("small", 4096), ModelInfo("large", 1_000_000)], None)
    assert [resolve(f"primary:{name}").max_tokens for name in ("small", "large", "other")] == [2048, 32768, None]
    assert resolve("primary:small").context_tokens == 4096
    store.set("model_output_tokens", {"primary:small": 100, "other": 200, "large": 50_000})
    assert [resolve(f"primary:{name}").max_tokens for name in ("small", "other", "large")] == [100, 200, 50_000]


def test_the_output_budget_is_never_more_than_the_server_says(app: Flask) -> None:
    endpoints.save("primary", url=URL)
    listed = [ModelInfo("both", 100_000, 4096), ModelInfo("output", None, 5000), ModelInfo("huge", None, 900_000)]
    endpoints.remember_models("primary", listed, None)
    assert endpoints.all()[0].models == tuple(listed)
    assert [resolve(f"primary:{name}").max_tokens for name in ("both", "output", "huge")] == [4096, 5000, 32768]
    store.set("model_output_tokens", {"both": 100_000, "output": 100})
    assert [resolve(f"primary:{name}").max_tokens for name in ("both", "output")] == [4096, 100]


def test_a_turn_has_the_terms_that_are_set(app: Flask) -> None:
    endpoints.save("primary", url=URL)
    endpoints.remember_models("primary", [ModelInfo("m", 8192, 4096)], None)
    chat = resolve("primary:m").chat
    assert isinstance(chat, PatientModel)
    assert (chat.terms.attempts.left, chat.terms.longest_wait, chat.terms.rates) == (24, 60, {})
    assert (chat.terms.capacity.context, chat.terms.capacity.output) == (8192, 4096)
    store.update({"max_model_attempts": 48, "max_retry_wait": 5, "rate_limits": {"*": {"minute": 3}}})
    chat = resolve("primary:m").chat
    assert isinstance(chat, PatientModel)
    assert (chat.terms.attempts.left, chat.terms.longest_wait, chat.terms.rates) == (48, 5, {"minute": 3})
    assert resolve("offline:quote").due_in() == 0


def test_a_key_that_opens_no_more_is_told(app: Flask) -> None:
    endpoints.save("primary", url=URL, key="canary-key-1234", model="m")
    crypto.vault.keys = ("another-secret-key-for-tests",)
    error = refused("primary:m")
    assert error.error_class == ErrorClass.NOT_CONFIGURED
    assert "Set it again" in str(error.sentence)
