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
    for spelling in (str, str.casefold, _folded):
        fits = [known for known in names if spelling(known) == spelling(bare)]
        if fits:
            return fits[0] if len(fits) == 1 else None
    return None


def _bare(name: str) -> str:
    name = without_markup(name[:256].strip().strip("`\"'"))
    name = COUNTER.sub("", name)
    for _ in range(2):
        found = NAMESPACE.match(name)
        name = name[found.end() :] if found else name
    return name


def without_markup(name: str) -> str:
    """A name without the tags that leaked into it, before or after."""
    tags = TAGS.match(name)
    return name[tags.end() if tags else 0 :].partition("<")[0].strip()


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()
