"""What may be written into a bot: one check a field, one sentence a wrong field."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app.bots import folding, mentions
from app.bots.questions import tree
from app.infra.db import clean_text
from app.infra.errors import BadInput
from app.infra.i18n import Sentence, say

LONGEST_NAME = 200
LONGEST_MENTION = mentions.LONGEST_NAME
LONGEST_KEY = 200
LONGEST_DESCRIPTION = 4000
LONGEST_PROMPT = 100_000
LONGEST_MODEL = 255
LONGEST_TOOL = 128
LONGEST_GROUP = 190
MOST_TOOLS = 64
MOST_GROUPS = 200
SCOPES = ("personal", "groups", "teams", "global")
STATES = ("draft", "approved")
# What a bot may lower, each with its least and most (product.md K7).
LIMITS = {"model_calls": (1, 50), "tool_calls": (0, 100), "seconds": (10, 900), "output_tokens": (1, 131_072)}
JOINTS = "._-"
SPACES = re.compile(r"[^\S\r\n]+")


class _Wrong(Exception):
    """A field's value that can't be taken; `sentence` says what can."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(str(sentence))
        self.sentence = sentence


def read(values: Mapping[str, Any]) -> dict[str, Any]:
    """The checked form of `values`, by column. Raises BadInput with one sentence a wrong or unknown field."""
    checked: dict[str, Any] = {}
    wrong: dict[str, Sentence] = {}
    for name, value in values.items():
        try:
            checked[name] = CHECKS.get(name, _unknown)(value)
        except _Wrong as error:
            wrong[name[:64]] = error.sentence
    refuse(wrong)
    return checked


def refuse(wrong: Mapping[str, Sentence]) -> None:
    """Raises BadInput when there is anything in `wrong`: a sentence a field."""
    if wrong:
        raise BadInput(next(iter(wrong.values())), fields={name: str(sentence) for name, sentence in wrong.items()})


def together(checked: dict[str, Any], *, assigned: Sequence[str] = (), known: Collection[str] | None = None) -> None:
    """Checks fields against each other, and empties the lists of other scopes in `checked`, which has the scope.

    `assigned` are the bot's tools, `known` those that exist, where the caller knows them. Raises BadInput.
    """
    wrong: dict[str, Sentence] = {}
    for scope in ("groups", "teams"):
        if checked.get("scope") != scope:
            checked[scope] = []
        elif not checked.get(scope):
            wrong[scope] = say("Name at least one.")
    missing = [name for name in assigned if known is not None and name not in known]
    if missing:
        there = ", ".join(sorted(known or ()))
        wrong["tools"] = say("There is no tool {names}. There are: {known}.", names=", ".join(missing), known=there)
    refuse(wrong)


def paging(given: Mapping[str, str], *, usual: int, most: int) -> dict[str, Any]:
    """The `words`, `limit` and `offset` that a list is asked with (q, limit, offset). Raises BadInput."""
    limit, offset = given.get("limit", str(usual)), given.get("offset", "0")
    if not _number(limit, least=1, most=most) or not _number(offset, least=0, most=1_000_000):
        raise BadInput(say("limit is a number from 1 to {most}, offset a number from 0.", most=most))
    return {"words": given.get("q", ""), "limit": int(limit), "offset": int(offset)}


def _number(text: str, *, least: int, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most


def mention(value: Any) -> str:
    """A mention name, without its @: 1 to 100 letters and digits, with dots, dashes, underscores, single spaces inside.

    Raises BadInput.
    """
    return str(read({"mention_name": value})["mention_name"])


def _name(value: Any) -> str:
    text = SPACES.sub(" ", _text(value)).strip()
    if not 0 < len(text) <= LONGEST_NAME or not text.isprintable():
        raise _Wrong(say("A name has 1 to {most} characters on one line.", most=LONGEST_NAME))
    return text


def _mention(value: Any) -> str:
    text = unicodedata.normalize("NFC", _text(value).strip()).removeprefix("@")
    if not _may_be_mentioned(text):
        raise _Wrong(
            say(
                "A mention name has 1 to {most} letters and digits, and between them dots, dashes, underscores and "
                "single spaces; it begins with a letter or a digit.",
                most=LONGEST_MENTION,
            )
        )
    if folding.key(text) == mentions.EVERYONE:
        raise _Wrong(say("@all calls everyone in a room; a bot can't have that name."))
    return text


def _may_be_mentioned(text: str) -> bool:
    if not 0 < len(text) <= LONGEST_MENTION or not 0 < len(folding.key(text)) <= LONGEST_KEY:
        return False
    if unicodedata.category(text[0])[0] not in "LN" or text[-1] in " ." or "  " in text:
        return False
    return all(
        character in JOINTS or character == " " or (folding.is_word(character) and not folding.is_unseen(character))
        for character in text
    )


def _description(value: Any) -> str | None:
    text = "" if value is None else _text(value).strip()
    if len(text) > LONGEST_DESCRIPTION:
        raise _Wrong(say("A description has at most {most} characters.", most=LONGEST_DESCRIPTION))
    return text or None


def _prompt(value: Any) -> str:
    text = _text(value)
    if not text.strip() or len(text) > LONGEST_PROMPT:
        raise _Wrong(say("A prompt has 1 to {most} characters.", most=LONGEST_PROMPT))
    return text


def _model(value: Any) -> str | None:
    text = "" if value is None else _text(value).strip()
    if len(text) > LONGEST_MODEL or not text.isprintable():
        raise _Wrong(
            say("A model is written endpoint:model, in at most {most} characters; nothing means the default model.",
                most=LONGEST_MODEL)
        )  # fmt: skip
    return text or None


def _temperature(value: Any) -> float | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _Wrong(say("The temperature is a number from 0 to 1; nothing means the default."))
    return round(float(value), 2)


def _scope(value: Any) -> str:
    return _one_of(value, SCOPES)


def _state(value: Any) -> str:
    return _one_of(value, STATES)


def _active(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(say("This is true or false."))
    return value


def _groups(value: Any) -> list[str]:
    return _names(value, most=MOST_GROUPS, longest=LONGEST_GROUP)


def _tools(value: Any) -> list[str]:
    return _names(value, most=MOST_TOOLS, longest=LONGEST_TOOL)


def _limits(value: Any) -> dict[str, int]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _Wrong(say("Limits are an object of {names}.", names=", ".join(LIMITS)))
    for name, number in value.items():
        least, most = LIMITS.get(name, (1, 0))
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise _Wrong(say("Limits are: {limits}.", limits=_limit_words()))
    return dict(value)


def _limit_words() -> str:
    return ", ".join(f"{name} {least}-{most}" for name, (least, most) in LIMITS.items())


def _onboarding(value: Any) -> dict[str, Any] | None:
    try:
        return tree.checked(value)
    except tree.Wrong as error:
        raise _Wrong(error.sentence) from None


def _registration(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**63):
        raise _Wrong(say("A registration is named by its number."))
    return value


def _names(value: Any, *, most: int, longest: int) -> list[str]:
    given = [] if value is None else value
    if not isinstance(given, list | tuple) or len(given) > most:
        raise _Wrong(say("This is a list of at most {most} names.", most=most))
    names = [_text(name).strip() for name in given]
    if not all(0 < len(name) <= longest and name.isprintable() for name in names):
        raise _Wrong(say("Each name has 1 to {most} characters.", most=longest))
    return list(dict.fromkeys(names))


def _one_of(value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _Wrong(say("This is one of: {choices}.", choices=", ".join(choices)))
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong(say("This must be a text."))
    return clean_text(value)


def _unknown(value: Any) -> Any:
    raise _Wrong(say("There is no field of this name."))


CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "name": _name,
    "mention_name": _mention,
    "description": _description,
    "system_prompt": _prompt,
    "model": _model,
    "temperature": _temperature,
    "scope": _scope,
    "groups": _groups,
    "teams": _groups,
    "state": _state,
    "is_active": _active,
    "tools": _tools,
    "limits": _limits,
    "onboarding": _onboarding,
    "registration_id": _registration,
}
