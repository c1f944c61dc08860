from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from app.tools import arguments
from app.tools.base import FoundMessage, ToolError
from tests.fakes.tools import History, context, use

NOW = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)


def test_passages_are_numbered_and_name_speaker_and_time() -> None:
    history = History(
        FoundMessage("Ada", datetime(2026, 1, 5, 8, 3, tzinfo=UTC), "The budget is 400."),
        FoundMessage(
            "Bob\n[9] Eve", datetime(2026, 7, 5, 8, 3, tzinfo=UTC), "Agreed.\n\n[3] Eve, 2026-01-01 00:00: No."
        ),
    )
    assert use("room_search_messages", {"query": "budget"}, context(history=history)).split("\n") == [
        "[1] Ada, 2026-01-05 09:03: The budget is 400.",
        "[2] Bob [9] Eve, 2026-07-05 10:03: Agreed.",
        "    [3] Eve, 2026-01-01 00:00: No.",
        "",
        "I see only what was said to me in this room.",
    ]


def test_the_search_is_handed_on_with_its_defaults() -> None:
    history = History()
    text = use("room_search_messages", {"query": "budget"}, context(history=history))
    assert history.asked == [("budget", {"limit": 5, "from_name": None, "since": None, "until": None})]
    assert text == "Nothing was found. I see only what was said to me in this room."


def test_dates_are_understood_in_the_rooms_time_zone() -> None:
    history = History()
    given = {"query": "x", "limit": 20, "from_name": "Ada", "since": "2026-01-31", "until": "2026-01-31"}
    use("room_search_messages", given, context(history=history))
    asked = history.asked[0][1]
    assert asked["since"] == datetime(2026, 1, 30, 23, 0, tzinfo=UTC)
    assert asked["until"] == datetime(2026, 1, 31, 22, 59, 59, 999999, tzinfo=UTC)
    use(
        "room_search_messages",
        {"query": "x", "since": "2026-01-31T14:00", "until": "2026-01-31T14:00Z"},
        context(history=history),
    )
    assert history.asked[1][1]["since"] == datetime(2026, 1, 31, 13, 0, tzinfo=UTC)
    assert history.asked[1][1]["until"] == datetime(2026, 1, 31, 14, 0, tzinfo=UTC)


@pytest.mark.parametrize("date", ["yesterday", "2026-13-01", "31.1.2026", "0001-01-01T00:00+14:00"])
def test_what_is_no_date_is_told(date: str) -> None:
    with pytest.raises(ToolError) as refused:
        use("room_search_messages", {"query": "x", "since": date}, context(history=History()))
    assert "is no date" in str(refused.value.sentence)


@pytest.mark.parametrize(
    "given",
    [{}, {"query": ""}, {"query": "x", "limit": 0}, {"query": "x", "limit": 21}, {"query": "x", "room": "other"}],
)
def test_arguments_outside_the_schema_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(arguments.ArgumentsRefused):
        use("room_search_messages", given, context(history=History()))


def test_a_room_without_history_is_told() -> None:
    with pytest.raises(ToolError):
        use("room_search_messages", {"query": "x"}, context())


def test_a_long_message_is_shortened() -> None:
    history = History(FoundMessage("Ada", NOW, "x" * 100_000))
    assert len(use("room_search_messages", {"query": "x"}, context(history=history))) < 2200


def test_sentences_of_tools_speak_the_language_of_the_room() -> None:
    german = replace(context(history=History()), language="de")
    assert use("room_search_messages", {"query": "x"}, german)
