"""Writes the generated pages of docs/ from the code: tables, settings, commands, routes, tools. `make docs` runs it.

tests/test_documentation.py fails while a page differs from what this writes.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import click  # noqa: E402
from flask import Flask  # noqa: E402

import manage  # noqa: E402
from app import config as configuration  # noqa: E402
from app import create_app  # noqa: E402
from app.config import TABLE_PREFIX  # noqa: E402
from app.infra import cli  # noqa: E402
from app.infra.db import Base  # noqa: E402
from app.operate import openapi  # noqa: E402
from app.settings import schema  # noqa: E402
from app.tools import registry  # noqa: E402

DOCS = ROOT / "docs"
NOTE = "*Written by `make docs` from the code; changes belong there.*"


def data_model(_app: Flask) -> str:
    """Every table with its columns."""
    models = {mapper.class_.__tablename__: mapper.class_ for mapper in Base.registry.mappers}
    parts = [_head("Data model", f"Every table's name begins with PARLEY_TABLE_PREFIX (default `{TABLE_PREFIX}`).")]
    for name, table in sorted(Base.metadata.tables.items()):
        about = (inspect.getdoc(models[name]) or "").replace("\n\n", "\n").strip()
        rows = [
            (f"`{column.name}`", _type(column), "yes" if column.nullable else "", _points_to(column), column.doc or "")
            for column in table.columns
        ]
        parts.append(f"## {_bare(name)}\n\n{about}\n\n{_table(('column', 'type', 'null', 'refers to', 'about'), rows)}")
    return _page(parts)


def settings(_app: Flask) -> str:
    """Every setting with its default and limits."""
    intro = (
        "Administrators change these at run time: by the settings of the web interface, `PUT /api/v1/settings`, or "
        "`python manage.py settings set NAME`. Everything that must be known before the database is reached is an "
        "environment variable (operators.md)."
    )
    rows = [
        (f"`{s.name}`", s.kind, "" if s.default is None else f"`{s.default}`", str(schema.limits(s)), str(s.about))
        for s in schema.SETTINGS
    ]
    return _page([_head("Settings", intro), _table(("setting", "kind", "default", "limits", "about"), rows)])


def commands(_app: Flask) -> str:
    """Every command with its arguments."""
    intro = (
        "`python manage.py COMMAND`. Each prints JSON with `--json`, ends with 0 only on success, reads secrets from "
        "stdin or a prompt, and acts on the database of a running server at once."
    )
    parts = [_head("Commands", intro)]
    for words, command in cli.leaves(manage.command_line()).items():
        parts.append(f"## {words}\n\n{(command.help or '').strip()}\n\n{_arguments(command)}".rstrip())
    return _page(parts)


def routes(app: Flask) -> str:
    """Every address with who may call it."""
    intro = (
        "`for` tells who may call it: everybody (public), people (user), administrators, operators. Programs send a "
        "bearer token; pages use a session and a CSRF token. `/api/v1/openapi.json` describes the same for programs."
    )
    rows = [
        (f"`{' '.join(sorted((rule.methods or set()) - openapi.QUIET_METHODS))} {rule.rule}`",)
        + (openapi.access_of(view), openapi.summary_of(view))
        for rule, view in openapi.routes(app.url_map, app.view_functions)
        if rule.endpoint != "static"
    ]
    return _page([_head("Routes", intro), _table(("address", "for", "about"), rows)])


def tools(_app: Flask) -> str:
    """Every built-in tool with its parameters."""
    intro = "What a model can call, when a bot has the tool. How to add one: developers.md."
    parts = [_head("Tools", intro)]
    for name, tool in sorted(registry.all_tools().items()):
        properties: Mapping[str, Mapping[str, object]] = tool.parameters.get("properties", {})
        required = tool.parameters.get("required", ())
        rows = [(f"`{key}`", "yes" if key in required else "", _limits(value)) for key, value in properties.items()]
        table = f"\n\n{_table(('parameter', 'required', 'about'), rows)}" if rows else ""
        parts.append(f"## {name}\n\n{tool.description}{table}")
    return _page(parts)


PAGES: Mapping[str, Callable[[Flask], str]] = {
    "data-model.md": data_model,
    "settings.md": settings,
    "commands.md": commands,
    "routes.md": routes,
    "tools.md": tools,
}


def main() -> None:
    """Writes every page."""
    with tempfile.TemporaryDirectory() as folder:
        values = {"PARLEY_DATA_DIR": folder, "PARLEY_SECRET_KEY": "for-the-documentation-only"}
        app = create_app(configuration.load(values))
        for name, render in PAGES.items():
            (DOCS / name).write_text(render(app), encoding="utf-8")
            print(f"docs/{name}")


def _head(title: str, intro: str) -> str:
    return f"# {title}\n\n{NOTE}\n\n{intro}"


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _bare(name: str) -> str:
    return name.removeprefix(TABLE_PREFIX)


def _type(column: object) -> str:
    kind = type(column.type).__name__  # type: ignore[attr-defined]
    length = getattr(column.type, "length", None)  # type: ignore[attr-defined]
    return f"{kind}({length})" if length else kind


def _points_to(column: object) -> str:
    return ", ".join(_bare(key.target_fullname) for key in column.foreign_keys)  # type: ignore[attr-defined]


def _arguments(command: click.Command) -> str:
    rows = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            rows.append(
                (f"`{(parameter.metavar or parameter.name or '').upper()}`", "needed" if parameter.required else "")
            )
        elif isinstance(parameter, click.Option):
            needed = " Needed." if parameter.required else ""
            rows.append((f"`{', '.join(parameter.opts)}`", f"{parameter.help or ''}{needed}".strip()))
    return _table(("argument", "about"), rows) if rows else ""


def _limits(value: Mapping[str, object]) -> str:
    known = (("minimum", "at least"), ("maximum", "at most"), ("default", "default"), ("enum", "one of"))
    told = [f"{words} {value[key]}" for key, words in known if key in value]
    return "; ".join([str(value.get("description", "")), *told]).strip("; ")


if __name__ == "__main__":
    main()
