from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest
from flask import Flask

from app.infra import jobs
from tests import house
from tests.house import Source

SOURCES = house.sources()
KNOWN = frozenset(source.name for source in SOURCES)
SUPPOSED = KNOWN | {"app.bots.routes", "app.inbox.tasks", "app.tools.registry"}

# One snippet a rule and a way to break it: a rule that finds nothing here guards nothing.
BAD = [
    (1, "app.accounts.people", "from app.rooms import answer"),
    (1, "app.accounts.people", "from app.settings import store"),
    (1, "app.llm.chat", "import app.usage.record"),
    (1, "app.infra.db", "from app import create_app"),
    (1, "app.bots.store", "from app.server import serve"),
    (2, "app.rooms.answer", "from app.bots import routes"),
    (2, "app.rooms.answer", "from app.bots.commands import add"),
    (2, "app.rooms.tasks", "import app.inbox.tasks"),
    (3, "app.rooms.answer", "@jobs.task('rooms.answer')\ndef f(): ..."),
    (3, "app.rooms.tasks", "@jobs.task('inbox.drain')\ndef f(): ..."),
    (3, "app.rooms.answer", "jobs.enqueue(name)"),
    (3, "app.rooms.answer", "jobs.enqueue('resume')"),
    (3, "app.rooms.answer", "celery.send_task('rooms.resume')"),
    (4, "app.wiki.roots", "changes.subscribe(listen)"),
    (5, "app.agent.loop", "from app.infra.db import reading"),
    (5, "app.agent.loop", "from app.llm import endpoints"),
    (5, "app.agent.loop", "from app.traces import record"),
    (6, "app.agent.turn", "class Brain(Protocol):\n    def stream(self): ..."),
    (6, "app.wiki.search", "class Finder(Protocol):\n    def index(self): ...\n    def search(self): ..."),
    (7, "app.llm.chat", "import time\ntime.sleep(1)"),
    (7, "app.llm.chat", "item = self.queue.get()"),
    (7, "app.tools.call", "thread.join()"),
    (7, "app.tools.call", "future.result()"),
    (8, "app.rag.retrieve", "from app.rooms import members"),
    (8, "app.llm.offline", "from app.tools import registry"),
    (9, "app.llm.chat", "import requests"),
    (9, "app.rooms.answer", "from celery import shared_task"),
    (9, "app.tools.registry", "import importlib"),
    (9, "app.tools.registry", "from importlib.metadata import entry_points"),
    (9, "app.rooms.answer", "from flask import request"),
    (9, "app.rooms.answer", "import os\nx = os.environ['HOME']"),
    (9, "app.rooms.answer", "import os\nx = os.getenv('HOME')"),
    (10, "app.tools.builtin.clock", "from app.tools import registry"),
    (10, "app.tools.builtin.clock", "from app.tools.builtin.room_search import TOOLS"),
    (10, "app.platforms.sandbox.talk", "from app.platforms.nextcloud_talk import client"),
    (11, "app.rooms.utils", "x = 1"),
    (12, "app.rooms.deliver", "with transaction() as session:\n    http.request('POST', url)"),
    (12, "app.rooms.deliver", "with db.reading():\n    if x:\n        self.platform.post(address)"),
    (13, "app.rooms.answer", "def f():\n    from app.bots import store"),
    (13, "app.rooms.answer", "cache = {}"),
    (13, "app.rooms.answer", "seen: set[str] = set()"),
    (13, "app.rooms.answer", "connect()"),
    (13, "app.rooms.answer", "for x in y:\n    print(x)"),
    (13, "app.rooms.answer", "def f():\n    global x\n    x = 1"),
]
GOOD = [
    (
        1,
        "app.rooms.answer",
        "from app.bots import store\nfrom app.infra.db import reading\nfrom app.config import Config",
    ),
    (1, "app.settings.commands", "from app.llm import catalog"),
    (3, "app.rooms.answer", "jobs.enqueue('rooms.resume', 1, key=f'a{b}')"),
    (5, "app.agent.loop", "from app.llm.base import Message\nfrom app.tools import call\nfrom app.infra import clock"),
    (7, "app.llm.chat", "item = self.queue.get(timeout=0.2)\ntext = ', '.join(parts)\nx = settings.get('a')"),
    (9, "app.rooms.routes", "from flask import request"),
    (10, "app.tools.builtin.clock", "from app.tools.base import Tool"),
    (12, "app.rooms.deliver", "with reading() as session:\n    session.get(x, 1)\nhttp.request('POST', url)"),
    (13, "app.rooms.answer", "from x import y\nLIMITS = {}\nlog = logging.getLogger(__name__)\nNAMES: list[str] = []"),
]


@pytest.mark.parametrize("number", range(1, 14))
def test_the_rule_holds_in_every_module(number: int) -> None:
    rule = house.RULES[number - 1]
    broken = [sentence for source in SOURCES for sentence in rule(source, KNOWN)]
    assert not broken, f"rule {number}: {rule.__doc__}\n" + "\n".join(broken)


@pytest.mark.parametrize(("number", "name", "text"), BAD)
def test_the_rule_notices_what_breaks_it(number: int, name: str, text: str) -> None:
    assert list(house.RULES[number - 1](Source(name, text), SUPPOSED))


@pytest.mark.parametrize(("number", "name", "text"), GOOD)
def test_the_rule_lets_pass_what_is_fine(number: int, name: str, text: str) -> None:
    assert not list(house.RULES[number - 1](Source(name, text), KNOWN))


def test_every_rule_has_a_snippet_that_breaks_it() -> None:
    assert {number for number, _, _ in BAD} == set(range(1, len(house.RULES) + 1))


def test_every_package_has_a_rank_and_says_what_it_is() -> None:
    for source in SOURCES:
        parts = source.name.split(".")
        if len(parts) == 2 and source.name not in house.FREE + house.TOP:
            assert parts[1] in house.RANKS, f"{source.name} has no rank"


def test_no_package_is_crowded() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for source in SOURCES:
        path = (house.ROOT / source.name.replace(".", "/")).with_suffix(".py")
        folder = source.name.rpartition(".")[0] if path.exists() else source.name
        sizes[folder] += 1
    crowded = {folder: number for folder, number in sizes.items() if number > house.MOST_FILES}
    assert not crowded, f"more than {house.MOST_FILES} files are two subjects: {crowded}"


def test_no_module_is_imported_by_what_it_imports() -> None:
    graph = {
        source.name: {module for module, _ in house.imported(source, KNOWN) if module in KNOWN} for source in SOURCES
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name] - {name}):
                visit(other, (*path, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_every_enqueued_job_is_registered(app: Flask) -> None:
    constants = {name: text for source in SOURCES for name, text in string_constants(source)}
    for source in SOURCES:
        for call in house.calls(source.tree):
            if house.dotted(call.func) in ("jobs.enqueue", "enqueue"):
                name = house.literal(call, 0) or constants.get(house.dotted(call.args[0]).rpartition(".")[2])
                assert name in jobs.jobs.tasks, f"{source.name}:{call.lineno} {name}"


def test_every_job_bears_the_name_of_its_package(app: Flask) -> None:
    for name, task in jobs.jobs.tasks.items():
        if task.run.__module__.startswith("app."):
            assert name.partition(".")[0] in task.run.__module__.split("."), f"{name} stands in {task.run.__module__}"


def string_constants(source: Source) -> Iterator[tuple[str, str]]:
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield house.dotted(node.targets[0]), node.value.value


def test_every_module_and_public_function_has_a_docstring() -> None:
    silent = []
    for source in SOURCES:
        if not ast.get_docstring(source.tree):
            silent.append(source.name)
        for node in source.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                short = isinstance(node, ast.FunctionDef) and len(node.body) == 1
                if (
                    not ast.get_docstring(node)
                    and not short
                    and "Protocol" not in map(house.dotted, getattr(node, "bases", []))
                ):
                    silent.append(f"{source.name}.{node.name}")
    assert not silent, silent
