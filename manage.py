#!/usr/bin/env python3
"""The command line of Parley: `python manage.py --help` lists every command."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from sqlalchemy.exc import DBAPIError, NoSuchTableError

import app as parley
from app.config import BadConfig
from app.infra import cli, logs
from app.infra.errors import ParleyError
from app.infra.i18n import say


def main() -> int:
    """Runs one command. 0: done; 1: it could not be done; 2: wrong words or a bad environment, said in a sentence."""
    try:
        command_line()(prog_name="manage.py", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        return 1
    except BadConfig as error:
        return _told(str(error), 2)
    except ParleyError as error:
        return _told(str(error.sentence), 1)
    except DBAPIError as error:
        return _told(str(_database_trouble(error)), 1)
    return 0


def command_line() -> click.Group:
    """Every command of every package; those that need it run inside an application."""
    return cli.merged(parley.commands(), wrap=_with_app)


def _with_app(command: click.Command) -> click.Command:
    callback = command.callback
    if callback is None or hasattr(callback, cli.OWN_APP):
        return command
    made = copy.copy(command)
    made.callback = _inside(callback)
    return made


def _inside(callback: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(callback)
    def run(*args: Any, **kwargs: Any) -> Any:
        with parley.create_app().app_context():
            return callback(*args, **kwargs)

    return run


def _told(sentence: str, code: int) -> int:
    click.echo(logs.mask(sentence), err=True)
    return code


def _database_trouble(error: DBAPIError) -> object:
    text = str(error.orig).lower()
    if isinstance(error, NoSuchTableError) or any(sign in text for sign in ("no such table", "does not exist", "1146")):
        return say("The database is not prepared yet: run `python manage.py db upgrade` first.")
    reason = (str(error.orig).strip().splitlines() or ["?"])[0]
    return say("The database does not answer: {reason}", reason=reason)


if __name__ == "__main__":
    sys.exit(main())
