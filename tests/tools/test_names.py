from __future__ import annotations

import pytest

from app.llm.toolcalls.names import resolve

NAMES = frozenset({"get_weather", "wiki_read_page", "ping"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("get_weather", "get_weather"),
        (" get_weather\n", "get_weather"),
        ("`get_weather`", "get_weather"),
        ("functions.get_weather", "get_weather"),
        ("default_api.ping", "ping"),
        ("tools/ping", "ping"),
        ("functions.default_api.ping:3", "ping"),
        ("ping:0", "ping"),
        ("Wiki_Read_Page", "wiki_read_page"),
        ("wiki-read-page", "wiki_read_page"),
        ("wikiReadPage", "wiki_read_page"),
        ("ping</arg_value>", "ping"),
        ("ping<|channel|>commentary", "ping"),
        ("<tool_call>ping", "ping"),
        ("<function=ping", None),
        ("pings", None),
        ("get_weather_now", None),
        ("other.ping", None),
        ("functions.", None),
        ("", None),
        ("x" * 100_000, None),
    ],
)
def test_variants_of_a_name_are_understood_and_nothing_is_guessed(written: str, meant: str | None) -> None:
    assert resolve(written, NAMES) == meant


def test_a_name_that_fits_several_tools_fits_none_unless_one_is_nearer() -> None:
    assert resolve("PING", frozenset({"ping", "Ping"})) is None
    assert resolve("Ping", frozenset({"ping", "Ping"})) == "Ping"
    assert resolve("GET_WEATHER", frozenset({"get_weather", "getWeather"})) == "get_weather"
    assert resolve("get-weather", frozenset({"get_weather", "getWeather"})) is None
