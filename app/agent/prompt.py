"""What the model is told besides the conversation itself: templates/prompts/*.txt, rendered strictly.

Names, quotes and texts of people are data: they go in quoted or under a heading line of ours, which no text can imitate.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.llm.base import Message

FOLDER = Path(__file__).resolve().parent.parent.parent / "templates" / "prompts"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LONGEST_NAME = 80
LONGEST_QUOTE = 4000
# A line that looks like our heading over an earlier message.
IMITATION = re.compile(r"^(?=[ \t]*\[[^\]\n]*\d{4}-\d\d-\d\d \d\d:\d\d\])", re.MULTILINE)


@dataclass(frozen=True)
class Told:
    """What people answered to a first question of a bot: one of its choices, or something in their `own_words`."""

    question: str
    answer: str
    own_words: bool


@dataclass(frozen=True)
class Scene:
    """Where and when a bot speaks. `now` is in the time zone that `timezone` names; `room` and `speaker` are as shown."""

    bot_name: str
    bot_prompt: str
    now: datetime
    timezone: str
    room: str
    speaker: str
    one_to_one: bool = False
    has_tools: bool = False
    told: tuple[Told, ...] = ()


def system(scene: Scene) -> Message:
    """The first message: the bot's own prompt, then the facts of this conversation."""
    return Message("system", render("system.txt", scene=scene))


def said(speaker: str, text: str, *, at: datetime, quoted: tuple[str, str] | None = None) -> Message:
    """An earlier message of a person, under a heading that says who wrote it and when (`at` in the scene's time zone)."""
    return Message("user", render("said.txt", speaker=speaker, text=text, at=at, quoted=quoted))


def answered(text: str) -> Message:
    """An earlier answer of the bot itself."""
    return Message("assistant", text)


def newest(text: str, *, quoted: tuple[str, str] | None = None) -> Message:
    """The message that is answered now; `quoted` is (speaker, text) of the one it replies to."""
    return Message("user", render("newest.txt", text=text, quoted=quoted))


def last_call(reason: str) -> Message:
    """Tells the model to answer now, without tools; `reason` is an EndReason."""
    return Message("user", render("last_call.txt", reason=reason))


def render(template: str, **values: object) -> str:
    """A template of templates/prompts with its values; a value that is missing is an error."""
    return _environment().get_template(template).render(values).strip("\n")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(name=_name, line=_line, quote=_quote, words=_words, moment=_moment, weekday=_weekday)
    return made


def _name(name: str) -> str:
    """A name on one line, without what could pass for markup of ours."""
    kept = "".join(" " if unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cf") else char for char in name)
    kept = " ".join(kept.replace("[", "(").replace("]", ")").split())
    return kept[:LONGEST_NAME] or "somebody"


def _line(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def _quote(text: str) -> str:
    """A text as a JSON string: one line, which nothing in it can end."""
    short = text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"
    return json.dumps(short, ensure_ascii=False)


def _words(text: str) -> str:
    """The words of a person, unchanged but for lines that imitate a heading."""
    return IMITATION.sub(r"\\", text)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _weekday(at: datetime) -> str:
    # strftime would speak the language of the server's locale.
    return WEEKDAYS[at.weekday()]
