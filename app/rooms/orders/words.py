"""Which words are an order. An order is all that a message says besides the bot's name; anything longer is a question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Name = Literal["help", "stop", "setup", "memory", "usage", "mode", "language", "reset"]

NAMES: Mapping[str, Name] = {
    **dict.fromkeys(("help", "hilfe", "aide"), "help"),
    **dict.fromkeys(("stop", "stopp", "stoppe", "halt", "arrête", "arrêter", "arrêtez"), "stop"),
    **dict.fromkeys(("setup", "einrichten", "einrichtung", "configurer", "configuration"), "setup"),
    **dict.fromkeys(("memory", "gedächtnis", "mémoire"), "memory"),
    **dict.fromkeys(("usage", "verbrauch", "nutzung", "utilisation", "consommation"), "usage"),
    **dict.fromkeys(("mode", "modus"), "mode"),
    **dict.fromkeys(("language", "sprache", "langue"), "language"),
}
ARGUMENTS: Mapping[Name, Mapping[str, str]] = {
    "memory": {
        **dict.fromkeys(("on", "an", "ein", "activer"), "on"),
        **dict.fromkeys(("off", "aus", "désactiver"), "off"),
        **dict.fromkeys(("forget", "vergessen", "vergiss", "oublier"), "forget"),
    },
    "mode": {
        **dict.fromkeys(("mention", "erwähnung"), "mention"),
        **dict.fromkeys(("thread", "thema", "fil"), "thread"),
        **dict.fromkeys(("always", "immer", "toujours"), "always"),
    },
    "language": {
        **dict.fromkeys(("en", "english", "englisch", "anglais"), "en"),
        **dict.fromkeys(("de", "german", "deutsch", "allemand"), "de"),
        **dict.fromkeys(("fr", "french", "französisch", "français"), "fr"),
    },
}
RESET = re.compile(r"\s*\(\(\s*reset\s*\)\)", re.IGNORECASE)
LONGEST = 40
PUNCTUATION = " \t\n.!…。！:"


@dataclass(frozen=True)
class Order:
    """What somebody wants a bot to do; `argument` is "" where they only ask how it stands."""

    name: Name
    argument: str = ""


def read(text: str) -> Order | None:
    """The order that a text is; None for a text that only contains one."""
    if RESET.match(text):
        return Order("reset")
    if len(text) > LONGEST:
        return None
    words = unicodedata.normalize("NFC", text).casefold().strip(PUNCTUATION).split()
    name = NAMES.get(words[0]) if words else None
    if name is None or len(words) > 2:
        return None
    if len(words) == 1:
        return Order(name)
    argument = ARGUMENTS.get(name, {}).get(words[1])
    return None if argument is None else Order(name, argument)
