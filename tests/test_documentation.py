from __future__ import annotations

import ast
import gettext
import hashlib
import io
import re
import tomllib
from pathlib import Path
from string import Formatter

import click
import pytest
from flask import Flask
from jinja2 import Environment

import manage
from app.config import Config
from app.infra import cli
from app.operate import openapi
from tests import house
from tools import documentation, messages

ROOT = house.ROOT
HAND_WRITTEN = ("users.md", "administrators.md", "operators.md", "developers.md")
BY_HAND = [ROOT / "README.md", *(ROOT / "docs" / name for name in HAND_WRITTEN)]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
COMMAND = re.compile(r"manage\.py ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)((?: +[^\s`|>]+| +\"[^\"]*\")*)")
TARGET = re.compile(r"`make ([a-z-]+)")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# Words with which we would tell how this was made, and places that exist on one machine only.
NEVER = re.compile(r"/work/|/root/|\.pyenv|/tmp/bash_jobs|pypi\.org|files\.pythonhosted")  # noqa: S108

# What a template shows without translation: names, not sentences.
UNTRANSLATED = {"Parley"}
SHOWN_ATTRIBUTES = re.compile(r"\s(?:placeholder|title|alt|aria-label)=\"([^\"{]*[A-Za-z]{2}[^\"{]*)\"")


@pytest.mark.parametrize("name", sorted(documentation.PAGES))
def test_the_generated_page_says_what_the_code_says(app: Flask, name: str) -> None:
    written = (documentation.DOCS / name).read_text(encoding="utf-8")
    assert written == documentation.PAGES[name](app), f"docs/{name} is stale: run `make docs`"


@pytest.mark.parametrize("path", BY_HAND, ids=lambda path: path.name)
def test_every_page_by_hand_exists_and_its_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", BY_HAND, ids=lambda path: path.name)
def test_every_command_that_is_shown_exists_with_its_options(path: Path) -> None:
    known = cli.leaves(manage.command_line())
    for line in path.read_text(encoding="utf-8").splitlines():
        for words, rest in COMMAND.findall(line):
            command = longest_match(words, known)
            assert command is not None or is_group(words), f"{path.name}: {line.strip()}"
            if command is not None:
                options = {name for parameter in command.params for name in parameter.opts}
                unknown = [word for word in re.findall(r"--[a-z-]+", rest) if word not in options | {"--help"}]
                assert not unknown, f"{path.name}: {line.strip()} has no {unknown}"


def test_every_make_target_that_is_shown_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in BY_HAND:
        for target in TARGET.findall(path.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path.name}: make {target}"


def test_the_two_commands_stand_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make run" in text
    assert "make test" in text


def test_every_variable_of_the_environment_is_documented() -> None:
    named = set(re.findall(r"PARLEY_[A-Z_]*[A-Z]", (ROOT / "app" / "config.py").read_text(encoding="utf-8")))
    text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert not {name for name in named if f"`{name}`" not in text}
    assert len(Config.__dataclass_fields__) <= len(named) + 1


def test_every_command_has_a_description_and_prints_json() -> None:
    for words, command in cli.leaves(manage.command_line()).items():
        assert command.help, f"{words} has no description"
        assert any("--json" in parameter.opts for parameter in command.params), f"{words} has no --json"


def test_no_command_takes_a_secret_as_an_argument() -> None:
    for words, command in cli.leaves(manage.command_line()).items():
        for parameter in command.params:
            takes_value = isinstance(parameter, click.Argument) or not getattr(parameter, "is_flag", False)
            name = parameter.name or ""
            assert not (takes_value and re.search(r"password|secret|^key$|api_key", name)), f"{words} {name}"


def test_every_route_under_the_api_has_a_description(app: Flask) -> None:
    for rule, view in openapi.routes(app.url_map, app.view_functions):
        if rule.endpoint != "static":
            assert openapi.summary_of(view), f"{rule.rule} has no description"


def test_every_route_says_who_may_call_it(app: Flask) -> None:
    for rule, view in openapi.routes(app.url_map, app.view_functions):
        assert openapi.access_of(view) != "nobody", f"{rule.rule} has no mark of access"


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_names_no_host_and_hashes_everything(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    pins = [line for line in text.splitlines() if re.match(r"[A-Za-z0-9]", line)]
    assert pins
    assert all(" \\" in line for line in pins)
    assert text.count("--hash=sha256:") >= len(pins)


def test_the_locks_hold_what_the_project_pins() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for names, lock in (
        (project["dependencies"], "requirements.lock"),
        (project["dependencies"] + project["optional-dependencies"]["dev"], "requirements-dev.lock"),
    ):
        locked = (ROOT / lock).read_text(encoding="utf-8").lower()
        for requirement in names:
            name, _, version = re.sub(r"\[[^\]]*\]", "", requirement).lower().partition("==")
            assert re.search(rf"^{re.escape(name)}=={re.escape(version)}", locked, re.MULTILINE), (
                f"{requirement}: {lock}"
            )


def test_every_vendored_file_is_named_with_its_hash() -> None:
    folder = ROOT / "static" / "vendor"
    if not folder.exists():
        pytest.skip("nothing is vendored")
    listed = (folder / "VENDOR.txt").read_text(encoding="utf-8")
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "VENDOR.txt":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            assert re.search(rf"^{re.escape(path.relative_to(folder).as_posix())}\b.*{digest}", listed, re.MULTILINE)


def test_nothing_tells_of_one_machine() -> None:
    wanted = [ROOT / "README.md", ROOT / "Makefile", ROOT / ".ci" / "run", *(ROOT / "docs").rglob("*.md")]
    wanted += [path for folder in ("app", "migrations", "tools", "templates") for path in (ROOT / folder).rglob("*.*")]
    for path in wanted:
        if path.suffix in (".py", ".md", ".html", ".txt", ".ini", "") and path.is_file():
            found = NEVER.search(path.read_text(encoding="utf-8"))
            assert not found, f"{path.relative_to(ROOT)} names {found and found.group()}"


def test_no_sentence_for_a_person_is_a_literal() -> None:
    told = [sentence for source in house.sources() for sentence in literals(source)]
    assert not told, "\n".join(told)


def test_the_test_for_literals_notices_one() -> None:
    bad = "cli.fail('This is wrong.')\nclick.echo('Done it.')\nraise BadInput('Not so.')\nflash(f'Hello {x} there.')"
    assert len(list(literals(house.Source("app.x.commands", bad)))) == 4
    assert not list(literals(house.Source("app.x.commands", "cli.fail(say('This is wrong.'))\nclick.echo('a')")))


def test_no_template_shows_a_sentence_without_a_translation() -> None:
    shown = []
    for path in sorted((ROOT / "templates").rglob("*.html")):
        for line, text in visible(path.read_text(encoding="utf-8")):
            if text not in UNTRANSLATED:
                shown.append(f"{path.relative_to(ROOT)}:{line} {text!r}")
    assert not shown, "\n".join(shown)


def test_the_test_for_templates_notices_a_sentence() -> None:
    assert [text for _, text in visible('<p class="a b">{{ t("Fine") }} Not fine</p><img alt="A cat">')] == [
        "Not fine",
        "A cat",
    ]


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_the_catalog_holds_the_sentences_of_the_code_and_nothing_else(language: str) -> None:
    if not messages.path(language).exists():
        pytest.skip(f"no catalog for {language} yet")
    held = {message.id for message in messages.load(language) if message.id}
    ids = messages.message_ids()
    assert held == ids, f"run `make messages`: missing {sorted(ids - held)[:3]}, gone {sorted(held - ids)[:3]}"


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_the_compiled_catalog_is_that_of_its_source(language: str) -> None:
    if not messages.path(language).exists():
        pytest.skip(f"no catalog for {language} yet")
    compiled = gettext.GNUTranslations(io.BytesIO(messages.path(language, "mo").read_bytes()))
    for message in messages.load(language):
        if message.id and message.string:
            assert compiled.gettext(message.id) == message.string, "run `make messages`"


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_every_sentence_is_translated_with_its_values(language: str) -> None:
    if not messages.path(language).exists():
        pytest.skip(f"no catalog for {language} yet")
    wrong = []
    for message in messages.load(language):
        if message.id and (not message.string or message.fuzzy):
            wrong.append(f"without a translation: {message.id}")
        elif message.id and values_in(message.id) != values_in(message.string):
            wrong.append(f"other values: {message.id}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:20])


def longest_match(words: str, known: object) -> click.Command | None:
    """The command whose words begin `words`; what follows them are arguments."""
    assert isinstance(known, dict)
    parts = words.split(" ")
    for number in range(len(parts), 0, -1):
        if " ".join(parts[:number]) in known:
            found = known[" ".join(parts[:number])]
            assert isinstance(found, click.Command)
            return found
    return None


def is_group(words: str) -> bool:
    return any(name.startswith(f"{words.split(' ')[0]} ") for name in cli.leaves(manage.command_line()))


def literals(source: house.Source) -> list[str]:
    """Texts of two words or more that are shown to a person without `say`."""
    shown = ("click.echo", "cli.fail", "fail", "flash", "abort", "cli.output")
    errors = ("BadInput", "NotAllowed", "NotFound", "Conflict", "TooMany", "Unavailable", "NotSignedIn", "ToolError")
    found = []
    for call in house.calls(source.tree):
        name = house.dotted(call.func)
        if name not in shown and name.rpartition(".")[2] not in errors:
            continue
        for argument in call.args:
            if re.search(r"[A-Za-z]{2,}[^A-Za-z]* [A-Za-z]{2,}", constant_text(argument)):
                found.append(f"{source.name}:{call.lineno} {constant_text(argument)!r}")
    return found


def constant_text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)  # type: ignore[misc]
    return ""


def visible(template: str) -> list[tuple[int, str]]:
    """(line, text) of what a template shows as it stands: text between tags, and attributes that are read out."""
    found = []
    html = "".join(
        text if kind == "data" else "\x00"
        for _, kind, text in Environment(autoescape=True).lex(template)
        if kind != "comment"
    )
    bare = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    for match in re.finditer(r">([^<]*)<", f">{bare}<"):
        for text in re.split("\x00+", match.group(1)):
            if re.search(r"[A-Za-z]{2}", re.sub(r"&\w+;", "", text)):
                found.append((bare.count("\n", 0, match.start()) + 1, " ".join(text.split()).strip("·:.,() ")))
    found += [(bare.count("\n", 0, match.start()) + 1, match.group(1)) for match in SHOWN_ATTRIBUTES.finditer(bare)]
    return found


def values_in(text: object) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(str(text)) if name}
