"""Sentences for people: an English message id now, the reader's language when it is shown (stdlib gettext)."""

from __future__ import annotations

import gettext
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "de", "fr")
DOMAIN = "parley"
LOCALE_DIR = Path(__file__).resolve().parent.parent / "locale"


@dataclass(frozen=True)
class Sentence:
    """A message id with its values: what travels until somebody reads it. Values are named as in str.format."""

    msgid: str
    values: Mapping[str, object] = field(default_factory=dict)

    def text(self, language: str = "en") -> str:
        """The sentence in `language`, English where no translation exists; values that are sentences go along."""
        values = {
            name: value.text(language) if isinstance(value, Sentence) else value for name, value in self.values.items()
        }
        translated = catalog(language).gettext(self.msgid)
        try:
            return translated.format(**values)
        except (KeyError, IndexError, ValueError):
            # A translator's slip must not silence what the English says.
            return self.msgid.format(**values)

    def __str__(self) -> str:
        return self.text()


def say(msgid: str, **values: object) -> Sentence:
    """Marks `msgid` for translation and binds its values."""
    return Sentence(msgid, values)


def best_language(wanted: Iterable[tuple[str, float]]) -> str:
    """The first of ours among the languages that a reader takes (tags such as de-AT with their weights), else English."""
    for tag, weight in wanted:
        known = tag.replace("_", "-").partition("-")[0].lower()
        if known in LANGUAGES and weight > 0:
            return known
    return LANGUAGES[0]


@cache
def catalog(language: str) -> gettext.NullTranslations:
    return gettext.translation(DOMAIN, LOCALE_DIR, languages=[language], fallback=True)
