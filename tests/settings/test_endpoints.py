"""Model endpoints and their keys."""

from __future__ import annotations

import pytest
from flask import Flask

from app.infra import crypto
from app.infra.db import reading
from app.infra.errors import BadInput, NotFound, Unavailable
from app.settings import endpoints
from app.settings.endpoints import ModelInfo
from app.settings.models import Endpoint

CANARY = "canary-5eC4e7-do-not-show"


def test_there_is_none_at_first(app: Flask) -> None:
    assert endpoints.all() == []
    assert endpoints.get("offline") is None
    assert endpoints.first_reference() is None


def test_an_endpoint_is_saved_with_its_key_sealed(app: Flask) -> None:
    saved = endpoints.save("primary", url=" HTTPS://LLM.Example.test:8443/v1/ ", key=CANARY, model="qwen:7b")
    assert saved.url == "https://llm.example.test:8443/v1"
    assert saved.key == CANARY
    assert CANARY not in repr(saved)
    assert endpoints.masked(saved) == "set, ends in …how"
    with reading() as session:
        row = session.query(Endpoint).one()
        assert CANARY not in str(row.key)
    assert endpoints.get("primary") == saved


def test_a_blank_key_and_the_mask_keep_it_and_clearing_takes_it_away(app: Flask) -> None:
    saved = endpoints.save("primary", url="http://127.0.0.1:1", key=CANARY)
    for kept in (None, "", " ", endpoints.masked(saved)):
        assert endpoints.save("primary", key=kept, model="m").key == CANARY
    assert endpoints.save("primary", clear_key=True).key is None


def test_what_is_not_given_stays(app: Flask) -> None:
    endpoints.save("primary", url="http://127.0.0.1:1", key=CANARY, model="m", allowed_models=["m", "n", "m"])
    saved = endpoints.save("primary", allowed_models=["n"])
    assert (saved.url, saved.default_model, saved.allowed_models) == ("http://127.0.0.1:1", "m", ("n",))
    assert endpoints.save("primary", model="").default_model is None


def test_a_stored_key_can_not_be_abused_by_pointing_its_endpoint_at_another_host(app: Flask) -> None:
    endpoints.save("primary", url="https://llm.example.test/v1", key=CANARY)
    for url in ("https://thief.example.test/v1", "http://llm.example.test/v1"):
        with pytest.raises(BadInput) as caught:
            endpoints.save("primary", url=url)
        assert list(caught.value.fields) == ["key"]
    found = endpoints.get("primary")
    assert found is not None
    assert found.url == "https://llm.example.test/v1"
    assert endpoints.save("primary", url="https://llm.example.test:8443").key == CANARY
    assert endpoints.save("primary", url="https://other.example.test", key="new-key-1").key == "new-key-1"
    assert endpoints.save("primary", url="https://third.example.test", clear_key=True).key is None
    assert endpoints.save("primary", url="https://fourth.example.test").url == "https://fourth.example.test"


@pytest.mark.parametrize("name", ["", "offline", "Primary", "1st", "-a", "a_b", "a:b", "a" * 33, "ä", "a\n"])
def test_a_name_that_is_no_endpoint_name_is_refused(app: Flask, name: str) -> None:
    with pytest.raises(BadInput) as caught:
        endpoints.save(name, url="http://127.0.0.1:1")
    assert list(caught.value.fields) == ["name"]
    assert endpoints.all() == []


@pytest.mark.parametrize("key", ["sk-1\r\nHost: evil", "schlüssel", "x" * 4097, "a\x00b"])
def test_a_key_that_can_not_stand_in_a_header_is_refused_without_being_repeated(app: Flask, key: str) -> None:
    with pytest.raises(BadInput) as caught:
        endpoints.save("primary", url="http://127.0.0.1:1", key=key)
    assert list(caught.value.fields) == ["key"]
    assert key not in str(caught.value) + repr(caught.value.fields)


def test_all_problems_are_told_at_once_and_nothing_is_saved(app: Flask) -> None:
    with pytest.raises(BadInput) as caught:
        endpoints.save("Bad", url="ftp://x", key="ü", model="\x01", allowed_models=[""])
    assert set(caught.value.fields) == {"name", "url", "key", "default_model", "allowed_models"}
    assert endpoints.all() == []


def test_a_new_endpoint_needs_an_address(app: Flask) -> None:
    with pytest.raises(BadInput) as caught:
        endpoints.save("primary", model="m")
    assert list(caught.value.fields) == ["url"]


def test_removing_forgets_it_and_an_unknown_name_is_told(app: Flask) -> None:
    endpoints.save("primary", url="http://127.0.0.1:1")
    endpoints.remove("primary")
    assert endpoints.all() == []
    with pytest.raises(NotFound):
        endpoints.remove("primary")


def test_a_failed_listing_keeps_the_models_of_last_time(app: Flask) -> None:
    endpoints.save("primary", url="http://127.0.0.1:1")
    endpoints.remember_models("primary", [ModelInfo("a", 8192), ModelInfo("b")], None)
    endpoints.remember_models("primary", [], "x" * 9000)
    found = endpoints.get("primary")
    assert found is not None
    assert found.models == (ModelInfo("a", 8192), ModelInfo("b"))
    assert found.models_at is not None
    assert found.models_error == "x" * 500
    endpoints.remember_models("gone", [ModelInfo("a")], None)


def test_another_address_forgets_the_models_of_the_old_one(app: Flask) -> None:
    endpoints.save("primary", url="http://127.0.0.1:1")
    endpoints.remember_models("primary", [ModelInfo("a")], None)
    assert endpoints.save("primary", url="http://127.0.0.1:2").models == ()


def test_a_key_under_a_lost_key_does_not_hide_the_other_endpoints(app: Flask) -> None:
    endpoints.save("primary", url="http://127.0.0.1:1", key=CANARY)
    endpoints.save("secondary", url="http://127.0.0.1:2")
    crypto.vault.keys = ("another key of this length",)
    assert [(info.name, info.key) for info in endpoints.all()] == [("primary", None), ("secondary", None)]
    with pytest.raises(Unavailable, match="primary"):
        endpoints.get("primary")
    assert endpoints.save("primary", key="new-key-1").key == "new-key-1"
