from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.infra import discover
from app.tools import registry
from app.tools.base import Tool, ToolContext

CONTEXT = ToolContext("example", "room1", "users/ada")
BUILTIN = {"room_search_messages", "current_time", "attachment_analyze_image", "attachment_transcribe_audio"}


def made(name: str = "ping", **extra: Any) -> Tool:
    return Tool(
        name, "Pings.", extra.pop("parameters", {"type": "object"}), extra.pop("run", lambda *_: "pong"), **extra
    )


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    registry.all_tools.cache_clear()
    yield
    registry.all_tools.cache_clear()


def offer(monkeypatch: pytest.MonkeyPatch, *plugins: Any) -> None:
    def found(group: str) -> list[Any]:
        assert group == "parley.tools"
        return list(plugins)

    monkeypatch.setattr(discover, "plugins", found)


def test_the_built_in_tools_are_found() -> None:
    assert set(registry.all_tools()) >= BUILTIN
    assert all(registry.all_tools()[name].source == "builtin" for name in BUILTIN)


@pytest.mark.parametrize(
    "shape",
    [lambda tool: tool, lambda tool: [tool], lambda tool: SimpleNamespace(TOOLS=[tool]), lambda tool: lambda: [tool]],
)
def test_another_distribution_may_offer_tools_in_several_ways(monkeypatch: pytest.MonkeyPatch, shape: Any) -> None:
    offer(monkeypatch, shape(made()))
    assert registry.all_tools()["ping"].source == "plugin"


def test_a_built_in_tool_is_never_shadowed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    offer(monkeypatch, made("current_time"))
    with caplog.at_level(logging.WARNING):
        assert registry.all_tools()["current_time"].source == "builtin"
    assert "current_time is taken" in caplog.text


def test_a_plugin_can_not_pass_its_tool_off_as_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, made("a", source="builtin"), made("b", source="acme"))
    assert registry.all_tools()["a"].source == "plugin"
    assert registry.all_tools()["b"].source == "plugin:acme"


def raising() -> list[Tool]:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    "faulty",
    [
        raising,
        42,
        [made("no spaces please")],
        [made("x" * 65)],
        [made(parameters={"type": "array"})],
        [made(parameters={"type": "object", "properties": {"a": {"type": "nonsense"}}})],
        [made(run=None)],
        ["a text"],
    ],
)
def test_a_faulty_plugin_harms_no_other(monkeypatch: pytest.MonkeyPatch, faulty: Any) -> None:
    offer(monkeypatch, faulty, made("good"))
    assert set(registry.all_tools()) == BUILTIN | {"good"}


def test_a_tool_that_the_callers_application_runs_needs_nothing_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, made(run=None, runs="client"))
    assert "ping" in registry.all_tools()


def test_a_loadout_keeps_the_order_and_passes_over_what_is_gone() -> None:
    names = ["current_time", "gone", "room_search_messages", "current_time"]
    assert [tool.name for tool in registry.loadout(names, CONTEXT)] == ["current_time", "room_search_messages"]


def test_the_tool_that_is_meant_is_found_by_its_variants_only() -> None:
    tools = (made("get_weather"), made("ping"))
    found = [registry.meant(name, tools) for name in ("functions.get_weather:0", "Get-Weather", "pingg", "")]
    assert [tool.name if tool else None for tool in found] == ["get_weather", "get_weather", None, None]


def test_a_real_distribution_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "parley_dice.py").write_text(
        "from app.tools.base import Tool\n"
        "TOOLS = [Tool('roll_dice', 'Rolls.', {'type': 'object'}, lambda context, arguments: '4')]\n"
    )
    info = tmp_path / "parley_dice-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parley-dice\nVersion: 1.0\n")
    broken = "broken = parley_dice_gone:TOOLS\n"
    (info / "entry_points.txt").write_text(f"[parley.tools]\n{broken}dice = parley_dice:TOOLS\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(registry.all_tools()) == BUILTIN | {"roll_dice"}


def test_every_built_in_tool_is_described_for_the_model() -> None:
    for tool in registry.all_tools().values():
        assert tool.description.endswith(".")
        assert tool.parameters["additionalProperties"] is False
        assert all(each.get("description") for each in tool.parameters["properties"].values())
