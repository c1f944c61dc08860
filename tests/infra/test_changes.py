from __future__ import annotations

import pytest
from flask import Flask

from app.infra import changes
from app.infra.changes import Change
from app.infra.db import transaction


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[Change]:
    monkeypatch.setattr(changes, "_subscribers", [])
    told: list[Change] = []
    changes.subscribe(told.append)
    return told


def test_facts_are_told_after_the_commit_in_order(app: Flask, heard: list[Change]) -> None:
    with transaction():
        changes.record("created", 1, doctype="bots", id="1", after={"name": "a"})
        changes.record("deleted", 1, doctype="bots", id="2", before={"name": "b"})
        assert heard == []
    assert [(change.kind, change.id) for change in heard] == [("created", "1"), ("deleted", "2")]
    assert heard[0].after == {"name": "a"}
    assert heard[0].before is None


def test_facts_of_a_rolled_back_transaction_are_never_told(app: Flask, heard: list[Change]) -> None:
    with pytest.raises(ZeroDivisionError), transaction():
        changes.record("created", 1, doctype="bots", id="1")
        raise ZeroDivisionError
    assert heard == []


def test_a_subscriber_that_fails_stops_neither_the_writer_nor_the_next(app: Flask, heard: list[Change]) -> None:
    later: list[Change] = []

    def fail(_change: Change) -> None:
        raise ZeroDivisionError

    changes.subscribe(fail)
    changes.subscribe(later.append)
    with transaction():
        changes.record("created", 1, doctype="bots", id="1")
    assert len(heard) == len(later) == 1


def test_subscribing_twice_is_told_once(app: Flask, heard: list[Change]) -> None:
    listener = heard.append
    changes.subscribe(listener)
    changes.record("created", 1, doctype="bots", id="1")
    assert len(heard) == 1


def test_a_subscriber_may_write_itself(app: Flask, heard: list[Change]) -> None:
    def write(change: Change) -> None:
        if change.doctype == "bots":
            with transaction():
                changes.record("created", 1, doctype="notes", id=change.id)

    changes.subscribe(write)
    with transaction():
        changes.record("created", 1, doctype="bots", id="1")
    assert [change.doctype for change in heard] == ["bots", "notes"]
