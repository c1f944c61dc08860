from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.infra import clock
from app.tools.base import ToolError
from tests.fakes.tools import context, use

NOW = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)


def test_the_time_is_told_in_the_rooms_zone_or_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    assert use("current_time", {}, context()) == "Monday, 2026-03-02 00:30:00 (Europe/Berlin, UTC+01:00)"
    assert use("current_time", {"timezone": "America/St_Johns"}, context()) == (
        "Sunday, 2026-03-01 20:00:00 (America/St_Johns, UTC-03:30)"
    )


@pytest.mark.parametrize("name", ["Mars/Phobos", "../../etc/passwd", "/etc/passwd", "x" * 5000, "Europe", "\x00"])
def test_an_unknown_time_zone_is_told(name: str) -> None:
    with pytest.raises(ToolError) as refused:
        use("current_time", {"timezone": name}, context())
    assert "There is no time zone" in str(refused.value.sentence)
    assert len(str(refused.value.sentence)) < 200
