"""Addresses that an administrator types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.infra.errors import BadInput
from app.infra.inputs import addresses


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
        ("  https://API.example.test/v1/ ", "https://api.example.test/v1"),
        ("HTTP://localhost:8000/Path/", "http://localhost:8000/Path"),
        ("http://[::1]:9000/v1", "http://[::1]:9000/v1"),
        ("http://10.0.0.5", "http://10.0.0.5"),
        ("https://bücher.example/v1", "https://bücher.example/v1"),
    ],
)
def test_an_address_gets_one_form(typed: str, kept: str) -> None:
    assert addresses.checked(typed) == kept


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "llm.example.test",
        "//llm.example.test",
        "ftp://llm.example.test",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http:///v1",
        "http://user:secret@llm.example.test",
        "http://@llm.example.test",
        "http://llm.example.test/#top",
        "http://llm.example.test/#",
        "http://llm.example.test/?key=secret",
        "http://llm.example.test?",
        "http://llm.example.test:99999",
        "http://llm.example.test:port",
        "http://llm.example.test:0",
        "http://llm.example.test:",
        "http://llm example.test",
        "http://llm.example.test/a\nb",
        "http://llm.example.test\\@evil.test",
        "http://[::1",
        "http://llm.example.test/" + "a" * 1024,
        "http://169.254.169.254/latest",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://100.100.100.200/",
    ],
)
def test_an_address_that_must_not_be_typed_is_refused_at_its_field(typed: str) -> None:
    with pytest.raises(BadInput) as caught:
        addresses.checked(typed, field="where")
    assert list(caught.value.fields) == ["where"]
    assert "secret" not in str(caught.value)


@given(st.text(max_size=60) | st.text(max_size=40).map("http://".__add__))
def test_any_text_is_taken_in_one_form_or_refused(text: str) -> None:
    try:
        kept = addresses.checked(text)
    except BadInput:
        return
    assert addresses.checked(kept) == kept


def test_a_key_belongs_to_a_host_and_its_encryption() -> None:
    assert not addresses.host_changed("http://a.test/v1", "https://a.test:8443/other")
    assert addresses.host_changed("https://a.test", "http://a.test")
    assert addresses.host_changed("https://a.test", "https://b.test")
