"""What every command of manage.py shares: --json, --instance, secrets from stdin or a prompt, and how to fail."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from app.infra.i18n import Sentence

Command = TypeVar("Command", bound=Callable[..., Any])
OWN_APP = "parley_own_app"
WIDEST = 100_000
LONGEST_SECRET = 65_536
ISO_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?[+-]\d\d:\d\d")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
instance_option = click.option("--instance", "instance", metavar="NAME", help="The instance that this is about.")


def without_app(callback: Command) -> Command:
    """Marks a command that makes its own application, or needs none: manage.py gives it no app context."""
    setattr(callback, OWN_APP, True)
    return callback


def output(data: Any, as_json: bool, text: Callable[[], object] | str | Sentence | None = None) -> None:
    """Prints `data` as JSON, or for a person what `text` gives: a text, a Sentence, or None when it printed itself."""
    if as_json:
        click.echo(json.dumps(data, ensure_ascii=False, default=_plain))
        return
    shown = text() if callable(text) else text
    if shown is not None:
        click.echo(str(shown))


def table(rows: Iterable[Sequence[object]], *, head: Sequence[str]) -> None:
    """Prints rows under a head; a narrow terminal folds cells, and whatever is no terminal gets whole lines."""
    shown = Table(*(Column(title, overflow="fold") for title in head), box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*(Text(_cell(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else WIDEST).print(shown)


def fail(sentence: Sentence | str, *, code: int = 1) -> NoReturn:
    """Ends the command with a sentence on the error stream."""
    click.echo(str(sentence), err=True)
    raise SystemExit(code)


def secret(*, from_stdin: bool, prompt: Sentence, confirm: bool = False, optional: bool = False) -> str:
    """A secret from the first line of stdin, or typed unseen at a prompt; never from an argument.

    An `optional` one may stay empty at the prompt.
    """
    if from_stdin:
        return sys.stdin.readline(LONGEST_SECRET).rstrip("\r\n")
    default = "" if optional else None
    return click.prompt(
        str(prompt), default, hide_input=True, confirmation_prompt=confirm, show_default=False, err=True
    )


def merged(commands: Iterable[click.Command], *, wrap: Callable[[click.Command], click.Command]) -> click.Group:
    """One group of all commands; groups of the same name become one, and every leaf goes through `wrap`.

    Raises ValueError where two packages offer a command of the same name.
    """
    top = click.Group("manage.py", help="Parley: AI bots in chat rooms, and a personal assistant, on your own server.")
    for command in sorted(commands, key=lambda command: str(command.name)):
        _add(top, command, wrap)
    return top


def leaves(group: click.Group, *, path: str = "") -> Mapping[str, click.Command]:
    """Every command of a group by its words, such as {"bots add": ...}."""
    found: dict[str, click.Command] = {}
    for name, command in sorted(group.commands.items()):
        words = f"{path} {name}".strip()
        found.update(leaves(command, path=words) if isinstance(command, click.Group) else {words: command})
    return found


def _add(parent: click.Group, command: click.Command, wrap: Callable[[click.Command], click.Command]) -> None:
    name = str(command.name)
    known = parent.commands.get(name)
    if not isinstance(command, click.Group):
        if known is not None:
            raise ValueError(f"two packages offer the command {name}")
        parent.add_command(wrap(command))
        return
    if known is None:
        known = click.Group(name, help=command.help)
        parent.add_command(known)
    if not isinstance(known, click.Group):
        raise ValueError(f"{name} is a command in one package and a group in another")
    for child in command.commands.values():
        _add(known, child, wrap)


def _cell(value: object) -> str:
    """A value as a person reads it: times in UTC to the second, yes and no, and structures as JSON."""
    moment = _moment(value) if isinstance(value, str) else value
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=_plain) if value else ""
    return str(value)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if ISO_MOMENT.fullmatch(text) else None
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Sentence):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
