"""Finding plugins: modules in a folder, entry points of distributions, and optional libraries."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

log = logging.getLogger(__name__)


def modules_in(package: str) -> list[ModuleType]:
    """Imports every direct module or package inside `package` (a dotted name), sorted by name."""
    parent = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.iter_modules(parent.__path__))
    return [importlib.import_module(f"{package}.{name}") for name in names]


def submodule(package: str, name: str) -> ModuleType | None:
    """Imports `package.name`, or gives None where no such module exists; an error inside it is raised."""
    dotted = f"{package}.{name}"
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError as error:
        if error.name in (dotted, package):
            return None
        raise


def optional(name: str) -> ModuleType | None:
    """A library that this installation may lack."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def plugins(group: str) -> list[Any]:
    """What distributions offer under an entry-point group; one that fails to load is logged and left out."""
    found = []
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            found.append(point.load())
        except Exception:
            log.exception("the plugin %s of %s can't be loaded", point.name, group)
    return found
