from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bots import folding, form, mentions
from app.infra.errors import BadInput
from app.platforms.base import Actor, IncomingEvent


@pytest.mark.parametrize(
    ("given_", "taken"),
    [
        ("atlas", "atlas"),
        ("@Atlas", "Atlas"),
        (" atlas-dev ", "atlas-dev"),
        ("a", "a"),
        ("A.b_c-9", "A.b_c-9"),
        ("atlas-", "atlas-"),
        ("AI Helper", "AI Helper"),
        ("A\u030asa", "Åsa"),
        ("海藻", "海藻"),
        ("हिन्दी", "हिन्दी"),
        ("x" * 100, "x" * 100),
    ],
)
def test_these_are_mention_names(given_: str, taken: str) -> None:
    assert form.mention(given_) == taken


@pytest.mark.parametrize(
    "text",
    ["", "@", "  ", "-a", ".a", "_a", "a.", "a  b", "a\nb", "a\tb", "a\u00a0b", "a@b", "a/b", 'a"b', "`a`", "*a*", "a:b",
     "😀", "a\u200db", "\u0301a", "@@a", "x" * 101, "\ufdfa" * 20, "all", "@ALL", "ａｌｌ", None, 7, ["a"], "\u3164"],
)  # fmt: skip
def test_these_are_none(text: Any) -> None:
    with pytest.raises(BadInput) as error:
        form.mention(text)
    assert list(error.value.fields) == ["mention_name"]


@given(st.text(max_size=30))
def test_whatever_may_be_a_name_is_found_when_it_is_mentioned(text: str) -> None:
    try:
        name = form.mention(text)
    except BadInput:
        return
    actor = Actor("users", "ada", "Ada")
    for written in (f"@{name} hello", f'hello @"{name}"', f"/{name} hello", f"(@{name.upper().lower()})"):
        found = mentions.find(IncomingEvent("message", "r", "R", actor, text=written), [name])
        assert found.names == (name,) or folding.key(written.strip("()@")) != folding.key(name)


@pytest.mark.parametrize(
    ("field", "value", "taken"),
    [
        ("name", "  Harbour   master ", "Harbour master"),
        ("name", "x" * 200, "x" * 200),
        ("description", "", None),
        ("description", None, None),
        ("system_prompt", "x" * 100_000, "x" * 100_000),
        ("system_prompt", "a\x00b\ud800", "ab?"),
        ("model", "", None),
        ("model", " primary:mistral:latest ", "primary:mistral:latest"),
        ("temperature", "", None),
        ("temperature", None, None),
        ("temperature", 0, 0.0),
        ("temperature", 1, 1.0),
        ("temperature", 0.256, 0.26),
        ("groups", ["a", " a", "b"], ["a", "b"]),
        ("tools", ("b", "a", "b"), ["b", "a"]),
        ("tools", None, []),
        ("limits", {"model_calls": 5}, {"model_calls": 5}),
        ("limits", None, {}),
        ("is_active", False, False),
    ],
)
def test_these_values_are_taken(field: str, value: Any, taken: Any) -> None:
    assert form.read({field: value}) == {field: taken}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 201),
        ("name", "a\nb"),
        ("name", 5),
        ("description", "x" * 4001),
        ("system_prompt", " \n"),
        ("system_prompt", "x" * 100_001),
        ("system_prompt", None),
        ("model", "x" * 256),
        ("model", "a\nb"),
        ("model", 5),
        ("temperature", 1.01),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", True),
        ("temperature", "0.5"),
        ("temperature", 10**30),
        ("scope", "everyone"),
        ("scope", None),
        ("state", "pending"),
        ("groups", "a"),
        ("groups", [""]),
        ("groups", [5]),
        ("teams", ["x" * 191]),
        ("tools", ["x"] * 65),
        ("tools", {"a": 1}),
        ("limits", {"model_calls": 51}),
        ("limits", {"model_calls": True}),
        ("limits", {"hours": 1}),
        ("limits", []),
        ("is_active", 1),
        ("registration_id", "x"),
        ("owner_id", 1),
        ("id", 1),
        ("x" * 1000, 1),
    ],
)
def test_these_are_refused_with_a_sentence_at_their_field(field: str, value: Any) -> None:
    with pytest.raises(BadInput) as error:
        form.read({field: value})
    assert list(error.value.fields) == [field[:64]]
    assert all(sentence.endswith(".") for sentence in error.value.fields.values())


def test_every_wrong_field_is_told_at_once() -> None:
    with pytest.raises(BadInput) as error:
        form.read({"name": "", "temperature": 7, "scope": "global"})
    assert set(error.value.fields) == {"name", "temperature"}
