from __future__ import annotations

import pytest

from app.infra.errors import BadInput
from app.llm.urls import normalise


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        ("http://127.0.0.1:11434/", "http://127.0.0.1:11434/v1"),
        ("https://a.example.test/v1", "https://a.example.test/v1"),
        ("https://a.example.test/v1/chat/completions", "https://a.example.test/v1"),
        ("https://a.example.test/v1/chat/completions/", "https://a.example.test/v1"),
        ("https://a.example.test/api/chat/completions", "https://a.example.test/api"),
        ("https://a.example.test/api", "https://a.example.test/api/v1"),
        ("https://a.example.test/v1beta/openai/", "https://a.example.test/v1beta/openai"),
        ("https://a.example.test/openai/v1/models", "https://a.example.test/openai/v1"),
        ("http://[::1]:8080", "http://[::1]:8080/v1"),
        (" HTTPS://A.Example.test:8443/V2 ", "https://a.example.test:8443/V2"),
    ],
)
def test_every_form_of_an_address_leads_to_the_same_place(typed: str, base: str) -> None:
    urls = normalise(typed)
    assert urls.chat == base + "/chat/completions"
    assert urls.models == base + "/models"
    assert urls.embeddings == base + "/embeddings"


def test_a_normalised_address_stays_as_it_is() -> None:
    urls = normalise("https://a.example.test")
    assert normalise(urls.chat) == normalise(urls.models) == normalise(urls.embeddings) == urls


def test_what_a_gateway_wants_in_the_query_stays() -> None:
    assert normalise("https://a.test/v1?version=2").chat == "https://a.test/v1/chat/completions?version=2"


@pytest.mark.parametrize("typed", ["", "a.example.test", "ftp://a.test", "http://", "http://u:p@a.test", "http://a:b"])
def test_what_is_no_address_is_refused(typed: str) -> None:
    with pytest.raises(BadInput):
        normalise(typed)
