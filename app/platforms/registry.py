"""The chat systems of this installation, found by looking into the folders of this package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from app.infra import discover
from app.platforms.base import Platform

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
