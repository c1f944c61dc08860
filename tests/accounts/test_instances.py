"""Instances and which of them a command is about."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from app.accounts import instances
from app.infra.errors import BadInput, Conflict


def test_without_any_the_sandbox_is_chosen_and_made(app: Flask) -> None:
    chosen = instances.chosen(None)
    assert (chosen.name, chosen.kind, chosen.url) == ("sandbox", "sandbox", "http://127.0.0.1:8000/sandbox")
    assert instances.chosen(None).id == chosen.id


def test_the_only_one_of_ones_own_is_chosen(app: Flask) -> None:
    instances.ensure_sandbox("http://127.0.0.1:8000")
    made = instances.add("cloud", "https://cloud.example.test/")
    assert made.url == "https://cloud.example.test"
    assert instances.chosen(None).id == made.id
    assert instances.chosen("sandbox").name == "sandbox"


def test_several_are_listed_instead_of_guessed(app: Flask) -> None:
    instances.ensure_sandbox("http://127.0.0.1:8000")
    instances.add("cloud", "https://cloud.example.test")
    instances.add("other", "https://other.example.test")
    with pytest.raises(BadInput, match="cloud, other") as caught:
        instances.chosen(None)
    assert "sandbox" not in str(caught.value)
    with pytest.raises(BadInput, match="sandbox, cloud, other"):
        instances.chosen("nowhere")


def test_the_sandbox_follows_the_address_of_the_server(app: Flask) -> None:
    first = instances.ensure_sandbox("http://127.0.0.1:8000")
    moved = instances.ensure_sandbox("http://127.0.0.1:9999/")
    assert moved.id == first.id
    assert moved.url == "http://127.0.0.1:9999/sandbox"
    assert instances.ensure_sandbox("http://127.0.0.1:9999/sandbox").url == moved.url


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "", "url": "https://a.test"}, "name"),
        ({"name": "Cloud", "url": "https://a.test"}, "name"),
        ({"name": "sandbox", "url": "https://a.test"}, "name"),
        ({"name": "sandbox-personal", "url": "https://a.test"}, "name"),
        ({"name": "a" * 65, "url": "https://a.test"}, "name"),
        ({"name": "a\n", "url": "https://a.test"}, "name"),
        ({"name": "a", "url": "https://a.test", "kind": "sandbox"}, "kind"),
        ({"name": "a", "url": "https://a.test", "domain": "a b"}, "domain"),
        ({"name": "a", "url": "https://a.test", "domain": "a.test/x"}, "domain"),
        ({"name": "a", "url": "https://a.test", "context": "a b"}, "context"),
        ({"name": "a", "url": "http://169.254.169.254"}, "url"),
        ({"name": "a", "url": "https://u:p@a.test"}, "url"),
    ],
)
def test_a_bad_value_is_told_at_its_field(app: Flask, values: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        instances.add(**values)
    assert list(caught.value.fields) == [field]
    assert instances.all() == []


def test_a_name_or_domain_is_given_once(app: Flask) -> None:
    instances.add("home", "https://a.test", kind="personal", domain="Ada.example.test:8080")
    with pytest.raises(Conflict):
        instances.add("home", "https://b.test")
    with pytest.raises(Conflict):
        instances.add("house", "https://b.test", kind="personal", domain="ada.example.test:8080")
    found = instances.by_domain("ADA.example.test:8080")
    assert found is not None
    assert found.name == "home"
