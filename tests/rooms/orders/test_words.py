from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rooms.orders.words import Order, read


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("help", Order("help")),
        ("Help!", Order("help")),
        (" HILFE. ", Order("help")),
        ("aide", Order("help")),
        ("stop", Order("stop")),
        ("Stopp!", Order("stop")),
        ("arrête", Order("stop")),
        ("memory on", Order("memory", "on")),
        ("Gedächtnis  aus", Order("memory", "off")),
        ("mémoire oublier", Order("memory", "forget")),
        ("memory", Order("memory")),
        ("mode always", Order("mode", "always")),
        ("language Deutsch", Order("language", "de")),
        ("((RESET))", Order("reset")),
        ("((reset)) and more", Order("reset")),
    ],
)
def test_an_order_is_the_whole_text(text: str, order: Order) -> None:
    assert read(text) == order


@pytest.mark.parametrize(
    "text",
    [
        *(
            "help me with the budget",
            "`stop`",
            "> stop",
            "stop it please",
            "memory leak",
            "mode dialing",
            "usage of water",
        ),
        *(
            "what does ((RESET)) do?",
            "",
            "language",
            "s\u0442op",
            "stop\u200b now",
            "memory on off",
            "how is the memory?",
        ),
    ],
)
def test_whatever_is_longer_or_otherwise_is_a_question(text: str) -> None:
    wanted = {"language": Order("language")}.get(text)
    assert read(text) == wanted


@given(st.text(max_size=60))
def test_any_text_is_an_order_or_none(text: str) -> None:
    found = read(text)
    assert found is None or isinstance(found, Order)
