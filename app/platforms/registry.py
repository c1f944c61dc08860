"""The chat systems of this installation, found by looking into the folders of this package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from app.infra import discover
from app.platforms.base import Platform, Reader

PACKAGE = "app.platforms"


def get(kind: str) -> Platform:
    """The platform of a kind, such as nextcloud_talk. Raises LookupError."""
    try:
        return platforms()[kind]
    except KeyError:
        raise LookupError(f"no folder of {PACKAGE} offers the platform {kind!r}") from None


@cache
def platforms() -> Mapping[str, Platform]:
    """Every platform by its kind: the PLATFORM of each folder that has a module `platform`."""
    found: dict[str, Platform] = {}
    for folder in discover.modules_in(PACKAGE):
        if not hasattr(folder, "__path__"):
            continue
        module = discover.submodule(folder.__name__, "platform")
        if module is not None:
            found[module.PLATFORM.kind] = module.PLATFORM
    return found


def reader(kind: str) -> Reader | None:
    """Whoever reads the rooms of a kind of platform; None where nobody can."""
    return readers().get(kind)


@cache
def readers() -> Mapping[str, Reader]:
    """Every reader by the kind of its platform: the READER of each folder that has a module `reader`."""
    found: dict[str, Reader] = {}
    for folder in discover.modules_in(PACKAGE):
        module = discover.submodule(folder.__name__, "reader") if hasattr(folder, "__path__") else None
        if module is not None:
            found[module.READER.kind] = module.READER
    return found
