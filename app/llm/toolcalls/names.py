"""Which tool a model means by a name: models add namespaces, counters and stray markup, and change case."""

from __future__ import annotations

import re

TAGS = re.compile(r"(?:<[^>]*>\s*)+")
NAMESPACE = re.compile(r"(?:functions?|tools?|default_api|api)[./:]+", re.IGNORECASE)
COUNTER = re.compile(r":\d{1,9}$")


def resolve(name: str, names: frozenset[str]) -> str | None:
    """The one of `names` that is meant: exactly that one, or the only one that fits; None rather than a guess."""
    if name in names:
        return name
    bare = _bare(name)
    if bare in names:
        return bare
    fits = [known for known in names if _folded(known) == _folded(bare)]
    return fits[0] if len(fits) == 1 else None


def _bare(name: str) -> str:
    name = name[:256].strip().strip("`\"'")
    tags = TAGS.match(name)
    name = name[tags.end() :] if tags else name
    name = COUNTER.sub("", name.partition("<")[0].strip())
    for _ in range(2):
        found = NAMESPACE.match(name)
        name = name[found.end() :] if found else name
    return name


def _folded(name: str) -> str:
    return name.replace("-", "_").casefold()
