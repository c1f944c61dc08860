"""The rules of the house as functions over syntax trees: each gives the sentences of what breaks it (architecture 3)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RANKS = {
    **dict.fromkeys(("infra",), 0),
    **dict.fromkeys(("accounts", "settings"), 1),
    **dict.fromkeys(
        ("llm", "files", "platforms", "documents", "realtime", "conversations", "traces", "usage"),
        2,
    ),
    **dict.fromkeys(("rag", "wiki", "bots", "inbox"), 3),
    **dict.fromkeys(("tools",), 4),
    **dict.fromkeys(("agent",), 5),
    **dict.fromkeys(("rooms", "assistants", "indexing", "surface", "operate"), 6),
}
DOORS = ("routes", "pages", "tasks", "commands")
# What stands above all packages: it may import anything, and only doors import it.
TOP = ("app", "app.server")
FREE = ("app.config",)
SHAPELESS = ("services", "utils", "helpers", "common", "manager", "service", "util", "helper", "misc")
AGENT_MAY = ("app.llm.base", "app.tools", "app.infra.errors", "app.infra.clock", "app.infra.logs", "app.infra.i18n")
# Folders in which a plugin is one file or one folder, and the base that it may import.
PLUGIN_FOLDERS = (
    "app.tools.builtin",
    "app.platforms",
    "app.files.storages",
    "app.files.extractors",
    "app.rag.engines",
)
HOMES = {
    "requests": ("app.infra.http", "app.infra.netguard"),
    "urllib3": ("app.infra.http", "app.infra.netguard"),
    "celery": ("app.infra.jobs",),
    "kombu": ("app.infra.jobs",),
    "importlib": ("app.infra.discover",),
    "pkgutil": ("app.infra.discover",),
    "gunicorn": ("app.server",),
    "alembic": ("app.operate.migrations",),
}
FLASK_HOMES = ("app", "app.server", "app.infra.auth", "app.infra.db", "app.infra.errors", "app.infra.jobs")
FLASK_HOMES += ("app.accounts.login", "app.realtime.websocket")
NETWORK_CALLS = ("request", "exchange", "post", "react", "unreact", "stream", "urlopen", "create_connection")
QUEUE_NAMES = re.compile(r"(queue|inbox|feed|pipe|results|events)$")
BLOCKS = ("reading", "transaction", "core_transaction")
MOST_FILES = 16
# Registrations: who listens is said once, in app/__init__.
REGISTRATIONS = {"app.infra.changes": ("_subscribers",)}
MUTABLE_CALLS = ("list", "dict", "set", "defaultdict", "deque", "OrderedDict", "WeakValueDictionary")


@dataclass(frozen=True)
class Source:
    """One module: its dotted name, and its text."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def package(self) -> str:
        """The package of a rank: `platforms` for app.platforms.sandbox.server, "" above the packages."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 and parts[1] in RANKS else ""

    @property
    def is_door(self) -> bool:
        return bool(self.package) and self.name.rpartition(".")[2] in DOORS


def sources(folder: Path = ROOT / "app") -> list[Source]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Source(name, path.read_text(encoding="utf-8")))
    return found


def imported(source: Source, known: frozenset[str] = frozenset()) -> Iterator[tuple[str, int]]:
    """(dotted module, line) of every import; `from a import b` gives a.b where that is a module or may be one."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield (full if full in known or node.module == "app" else node.module), node.lineno


def plugin_of(module: str, known: frozenset[str]) -> str:
    """The dotted name of the plugin that a module belongs to, or "". A platform is a folder; other plugins may be files."""
    for folder in PLUGIN_FOLDERS:
        if not module.startswith(f"{folder}."):
            continue
        plugin = f"{folder}.{module.removeprefix(f'{folder}.').partition('.')[0]}"
        if folder != "app.platforms" or any(name.startswith(f"{plugin}.") for name in known):
            return plugin
    return ""


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "app" and len(parts) > 1 and parts[1] in RANKS else ""


def rule_1(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Imports only go down."""
    if source.is_door or not source.package:
        return
    for module, line in imported(source, known):
        if not module.startswith("app") or module in FREE or package_of(module) == source.package:
            continue
        other = package_of(module)
        if not other:
            if module.partition(".")[0] == "app" and module.startswith(("app.", "app")):
                yield f"{source.name}:{line} imports {module}, which stands above all packages"
        elif RANKS[other] >= RANKS[source.package]:
            yield f"{source.name}:{line} (rank {RANKS[source.package]}) imports {module} (rank {RANKS[other]})"


def rule_2(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Nobody imports a door."""
    for module, line in imported(source, known):
        parts = module.split(".")
        if parts[0] == "app" and len(parts) > 2 and parts[-1] in DOORS:
            yield f"{source.name}:{line} imports the door {module}"
        elif parts[0] == "app" and len(parts) > 3 and parts[-2] in DOORS:
            yield f"{source.name}:{line} imports from the door {module}"


def rule_3(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Jobs have a name "package.verb", are registered in tasks.py, and are enqueued by that name."""
    for node in calls(source.tree):
        called = dotted(node.func)
        if called in ("jobs.task", "jobs.periodic") and not names_constant(node):
            name = literal(node, 0)
            if not source.name.endswith(".tasks"):
                yield f"{source.name}:{node.lineno} registers a job outside tasks.py"
            if name is None or name.partition(".")[0] != source.package:
                yield f"{source.name}:{node.lineno} registers {name!r}, not '{source.package}.<verb>'"
        if called in ("jobs.enqueue", "enqueue") and not names_constant(node) and "." not in (literal(node, 0) or ""):
            yield f"{source.name}:{node.lineno} enqueues something that is not a literal 'package.verb'"
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in ("apply_async", "send_task", "delay") and source.name != "app.infra.jobs":
            yield f"{source.name}:{node.lineno} sends a job past infra/jobs"


def rule_4(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Only app/__init__ says who listens to changes."""
    for node in calls(source.tree):
        if dotted(node.func) in ("changes.subscribe", "subscribe") and source.name not in ("app", "app.infra.changes"):
            yield f"{source.name}:{node.lineno} subscribes to changes"


def rule_5(source: Source, known: frozenset[str]) -> Iterator[str]:
    """The agent knows models and tools by their base, and nothing of databases, rooms and platforms."""
    if source.package != "agent" or source.is_door:
        return
    for module, line in imported(source, known):
        fine = module.startswith("app.agent") or any(module == m or module.startswith(f"{m}.") for m in AGENT_MAY)
        if module.startswith("app") and not fine:
            yield f"{source.name}:{line} imports {module}"


def rule_6(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Models are reached through llm.base.ChatModel, search engines through rag.base.Engine, and by no third seam."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ClassDef) or not any(dotted(base) == "Protocol" for base in node.bases):
            continue
        methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        if "stream" in methods and (source.name, node.name) != ("app.llm.base", "ChatModel"):
            yield f"{source.name}:{node.lineno} {node.name} is a second seam for models"
        if {"index", "search"} <= methods and (source.name, node.name) != ("app.rag.base", "Engine"):
            yield f"{source.name}:{node.lineno} {node.name} is a second seam for search"


def rule_7(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Every blocking wait has an end: no sleep but the clock's, no wait, join, get or result without a time."""
    if source.name == "app.infra.clock":
        return
    for node in calls(source.tree):
        called = dotted(node.func)
        if called in ("time.sleep", "sleep"):
            yield f"{source.name}:{node.lineno} sleeps past infra/clock"
        owner, _, method = called.rpartition(".")
        waits = method in ("wait", "join", "result") or (method == "get" and QUEUE_NAMES.search(owner))
        if waits and not node.args and not node.keywords and not source.is_door:
            yield f"{source.name}:{node.lineno} {called}() may wait for ever"


def rule_8(source: Source, known: frozenset[str]) -> Iterator[str]:
    """rag knows no bots, rooms or assistants; llm knows no tools."""
    forbidden = {"rag": ("bots", "rooms", "assistants"), "llm": ("tools", "rag")}.get(source.package, ())
    for module, line in imported(source, known):
        if package_of(module) in forbidden and not source.is_door:
            yield f"{source.name}:{line} imports {module}"


def rule_9(source: Source, known: frozenset[str]) -> Iterator[str]:
    """One home each."""
    for module, line in imported(source, known):
        top = module.partition(".")[0]
        homes = HOMES.get(top)
        if homes is not None and not source.name.startswith(homes):
            yield f"{source.name}:{line} imports {module}; its home is {', '.join(homes)}"
        if top.startswith("flask") and not source.is_door and source.name not in FLASK_HOMES:
            yield f"{source.name}:{line} imports {module}"
    for node in ast.walk(source.tree):
        if dotted(node) in ("os.environ", "os.getenv", "os.putenv") and source.name != "app.config":
            yield f"{source.name}:{getattr(node, 'lineno', 0)} reads the environment past app/config"


def rule_10(source: Source, known: frozenset[str]) -> Iterator[str]:
    """A plugin is found, it finds nobody: it imports no registry of its package, and no other plugin."""
    plugin = plugin_of(source.name, known)
    if not plugin or source.is_door:
        return
    for module, line in imported(source, known):
        if module == f"app.{source.package}.registry":
            yield f"{source.name}:{line} imports the registry that finds it"
        elif plugin_of(module, known) not in ("", plugin):
            yield f"{source.name}:{line} imports another plugin, {module}"


def rule_11(source: Source, known: frozenset[str]) -> Iterator[str]:
    """A name says what a module is about."""
    if source.name.rpartition(".")[2] in SHAPELESS:
        yield f"{source.name}: a module named {source.name.rpartition('.')[2]} is about everything"


def rule_12(source: Source, known: frozenset[str]) -> Iterator[str]:
    """No network call stands inside a database block (a fixture of every test watches the calls themselves)."""
    for block in ast.walk(source.tree):
        if not isinstance(block, ast.With):
            continue
        if not any(dotted(called.func).rpartition(".")[2] in BLOCKS for item in block.items for called in calls(item)):
            continue
        for node in (called for statement in block.body for called in calls(statement)):
            owner, _, name = dotted(node.func).rpartition(".")
            if (
                owner.rpartition(".")[2] in ("http", "requests", "client", "platform", "socket")
                and name in NETWORK_CALLS
            ):
                yield f"{source.name}:{node.lineno} calls {dotted(node.func)} inside a database block"


def rule_13(source: Source, known: frozenset[str]) -> Iterator[str]:
    """No import inside a function, no work at import, no state in a module."""
    for function in ast.walk(source.tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield f"{source.name}:{node.lineno} imports inside {function.name}"
                if isinstance(node, ast.Global):
                    yield f"{source.name}:{node.lineno} changes a global"
    for statement in source.tree.body:
        yield from _at_import(source, statement)


def _at_import(source: Source, statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.For | ast.While | ast.With | ast.Try | ast.AugAssign | ast.Delete):
        known_sum = isinstance(statement, ast.AugAssign)
        if not known_sum:
            yield f"{source.name}:{statement.lineno} works at import"
    if isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant):
        yield f"{source.name}:{statement.lineno} calls something at import"
    target = _assigned(statement)
    if target is None:
        return
    name, value = target
    mutable = isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
    mutable = mutable or (isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] in MUTABLE_CALLS)
    constant = name.strip("_").isupper() or name.startswith("__")
    if mutable and not constant and name not in REGISTRATIONS.get(source.name, ()):
        yield f"{source.name}:{statement.lineno} {name} is state of a module"


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        return statement.target.id, statement.value
    return None


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a name or attribute; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else node.attr
    return ""


def names_constant(call: ast.Call) -> bool:
    """True when the first argument is the name of a constant."""
    return bool(call.args) and dotted(call.args[0]).rpartition(".")[2].isupper()


def literal(call: ast.Call, position: int) -> str | None:
    """The text given as this argument, or None where it is no literal."""
    if len(call.args) <= position:
        return None
    value = call.args[position]
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


Rule = Callable[[Source, frozenset[str]], Iterator[str]]
RULES: tuple[Rule, ...] = (
    rule_1, rule_2, rule_3, rule_4, rule_5, rule_6, rule_7, rule_8, rule_9, rule_10, rule_11, rule_12, rule_13,
)  # fmt: skip
