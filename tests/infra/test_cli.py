from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from app.infra import cli
from app.infra.i18n import say


def group(name: str, *commands: str) -> click.Group:
    made = click.Group(name, help="About it.")
    for command in commands:
        made.add_command(click.Command(command, callback=lambda: None))
    return made


def same(command: click.Command) -> click.Command:
    return command


def test_groups_of_the_same_name_become_one() -> None:
    merged = cli.merged([group("bots", "add"), click.Command("run"), group("bots", "list")], wrap=same)
    assert list(cli.leaves(merged)) == ["bots add", "bots list", "run"]


def test_groups_in_groups_are_merged_too() -> None:
    first, second = group("rag"), group("rag")
    first.add_command(group("servers", "add"))
    second.add_command(group("servers", "list"))
    assert list(cli.leaves(cli.merged([first, second], wrap=same))) == ["rag servers add", "rag servers list"]


def test_two_commands_of_the_same_name_are_refused() -> None:
    with pytest.raises(ValueError, match="bots"):
        cli.merged([group("bots", "add"), click.Command("bots")], wrap=same)
    with pytest.raises(ValueError, match="add"):
        cli.merged([group("bots", "add"), group("bots", "add")], wrap=same)


@dataclass(frozen=True)
class Row:
    name: str
    at: datetime
    about: Any


def test_everything_that_travels_has_a_json_form(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("ü", datetime(2026, 3, 2, tzinfo=UTC), say("Fine, {who}.", who="Ada"))
    cli.output({"rows": [row], "paths": {Path("/x")}, "set": frozenset({"b", "a"})}, True)
    shown = json.loads(capsys.readouterr().out)
    assert shown["rows"][0]["name"] == "ü"
    assert shown["rows"][0]["at"] == "2026-03-02T00:00:00+00:00"
    assert shown["set"] == ["a", "b"]


def test_a_person_gets_words_and_a_program_gets_json(capsys: pytest.CaptureFixture[str]) -> None:
    cli.output({"a": 1}, False, say("It is {n}.", n=1))
    cli.output({"a": 1}, True, say("It is {n}.", n=1))
    assert capsys.readouterr().out == 'It is 1.\n{"a": 1}\n'


def test_a_failure_is_a_sentence_on_the_error_stream_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.fail(say("That did not work."))
    assert ended.value.code == 1
    assert capsys.readouterr() == ("", "That did not work.\n")


def test_a_secret_comes_from_the_first_line_of_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("the secret \r\nmore\n"))
    assert cli.secret(from_stdin=True, prompt=say("Key")) == "the secret "


def test_an_optional_secret_may_stay_empty_at_the_prompt() -> None:
    @click.command()
    @click.option("--optional", is_flag=True)
    def ask(optional: bool) -> None:
        click.echo(f"got {cli.secret(from_stdin=False, prompt=say('Key'), optional=optional)!r}")

    assert "got ''" in CliRunner().invoke(ask, ["--optional"], input="\n").output
    assert CliRunner().invoke(ask, [], input="\n").exit_code == 1


def test_a_table_tells_times_answers_and_structures_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    moment = datetime(2026, 1, 31, 9, 15, 30, 123456, tzinfo=timezone(timedelta(hours=2)))
    cells = (moment, moment.isoformat(), True, False, [], {"ä": None}, "9999-99-99T99:99:99+00:00", "2026-01-31")
    cli.table([cells], head="abcdefgh")
    shown = capsys.readouterr().out.splitlines()[1].split("  ")
    assert [cell.strip() for cell in shown if cell.strip()] == [
        *["2026-01-31 07:15:30 UTC"] * 2,
        "yes",
        "no",
        '{"ä": null}',
        "9999-99-99T99:99:99+00:00",
        "2026-01-31",
    ]


def test_a_table_shows_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    cli.table([("a" * 200, None, "[red]x[/red]")], head=("one", "two", "three"))
    shown = capsys.readouterr().out
    assert "a" * 200 in shown
    assert "[red]x[/red]" in shown
