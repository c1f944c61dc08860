"""Every setting with its type, default, limits and meaning: the one table that store, API, commands and docs follow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.infra import crypto
from app.infra.errors import BadInput
from app.infra.i18n import LANGUAGES, Sentence, say

Kind = Literal["int", "float", "bool", "text", "choice", "list", "map", "rates", "secret"]

OFFLINE_REFERENCE = "offline:quote"
LONGEST_REFERENCE = 255
MOST_ENTRIES = 500
LONGEST_SECRET = 4096
MOST_OUTPUT_TOKENS = 131_072
ENDPOINT = re.compile(r"\*|[a-z][a-z0-9-]{0,31}")
WINDOWS = ("second", "minute", "hour", "day")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Setting:
    """One setting. `least` and `most` bound numbers, the UTF-8 bytes of texts, and the values of maps.

    `optional` allows None as a value of its own; `blank` tells that an empty text means "back to the default".
    """

    name: str
    kind: Kind
    default: Any
    about: Sentence
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    blank: bool = False


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "default_model",
        "text",
        OFFLINE_REFERENCE,
        say("The model of every bot that names none, as endpoint:model. Unset: that of the oldest endpoint with one."),
        least=1,
        most=LONGEST_REFERENCE,
        blank=True,
    ),
    Setting(
        "default_temperature",
        "float",
        0.2,
        say("How freely a model answers where a bot doesn't say. null leaves it to the model."),
        least=0,
        most=1,
        optional=True,
    ),
    Setting("allow_multiple_models", "bool", True, say("Whether a bot may use another model than the default one.")),
    Setting("allowed_models", "list", [], say("The models that bots may use, as endpoint:model. Empty: all of them.")),
    Setting(
        "max_output_tokens",
        "int",
        32_768,
        say("The most tokens of one model answer."),
        least=1,
        most=MOST_OUTPUT_TOKENS,
    ),
    Setting(
        "model_output_tokens",
        "map",
        {},
        say("The most tokens of one answer of single models, by endpoint:model."),
        least=1,
        most=MOST_OUTPUT_TOKENS,
    ),
    Setting(
        "conversation_context_tokens",
        "int",
        8000,
        say("How many tokens of prompt, tools and history one model call gets."),
        least=1000,
        most=1_000_000,
    ),
    Setting("chat_timeout", "int", 90, say("Seconds until a model must have answered at once."), least=1, most=900),
    Setting("stream_timeout", "int", 240, say("Seconds that a streamed model answer may take."), least=1, most=900),
    Setting("models_timeout", "int", 20, say("Seconds that listing models may take."), least=1, most=120),
    Setting(
        "fallback_model",
        "text",
        None,
        say("The model that answers where the chosen one can't be had, as endpoint:model. Unset: none."),
        least=1,
        most=LONGEST_REFERENCE,
        optional=True,
        blank=True,
    ),
    Setting(
        "fallback_on",
        "choice",
        "availability",
        say(
            "When the fallback model is asked: where nobody answers (connection), or also at errors of the server, rate "
            "limits and missing models (availability)."
        ),
        choices=("connection", "availability"),
    ),
    Setting(
        "max_retry_wait",
        "int",
        60,
        say(
            "The most seconds that a model call waits where its server or a rate limit asks for it. 0: it never waits."
        ),
        least=0,
        most=300,
    ),
    Setting(
        "max_model_attempts",
        "int",
        24,
        say("The most requests to model servers of one turn, repeated ones included."),
        least=1,
        most=48,
    ),
    Setting(
        "rate_limits",
        "rates",
        {},
        say(
            "The most model calls in a second, minute, hour and day, by endpoint; * is every endpoint that has none of its "
            "own. Empty: no limits."
        ),
        least=1,
        most=100_000_000,
    ),
    Setting("stream_answers", "bool", True, say("Whether an answer that takes long is sent piece by piece.")),
    Setting(
        "stream_after_seconds",
        "int",
        6,
        say("Seconds after which an answer that is not complete is sent piece by piece."),
        least=0,
        most=120,
    ),
    Setting(
        "link_hosts",
        "list",
        [],
        say("Hosts that answers may always link to. All other links are plain text, unless somebody showed them."),
    ),
    Setting("max_model_calls", "int", 24, say("The most model calls of one turn."), least=1, most=50),
    Setting("max_tool_calls", "int", 24, say("The most tool calls of one turn."), least=0, most=200),
    Setting("turn_seconds", "int", 300, say("The most seconds of one turn."), least=10, most=900),
    Setting(
        "tool_result_chars",
        "int",
        16_000,
        say("How many characters of a tool's result the model sees."),
        least=500,
        most=1_000_000,
    ),
    Setting(
        "heard_reaction",
        "choice",
        "remove",
        say("The reaction that shows that a mention was heard: removed with the answer, kept, or off."),
        choices=("remove", "keep", "off"),
    ),
    Setting("heard_emoji", "text", "\N{EYES}", say("The emoji of that reaction."), least=1, most=32),
    Setting(
        "turns_per_room_minute",
        "int",
        20,
        say("The most turns a minute in one room; more have to wait. 0: any number."),
        least=0,
        most=10_000,
        blank=True,
    ),
    Setting(
        "turns_per_person_minute",
        "int",
        10,
        say("The most turns a minute of one person; more have to wait. 0: any number."),
        least=0,
        most=10_000,
        blank=True,
    ),
    Setting(
        "turn_wait_minutes",
        "int",
        60,
        say("The most minutes that a turn waits for a limit; then its person is told to ask again later."),
        least=1,
        most=720,
        blank=True,
    ),
    Setting(
        "turn_slots",
        "int",
        200,
        say("How many turns one process runs at the same time, from its next start on."),
        least=1,
        most=1000,
    ),
    Setting(
        "inbox_body_hours",
        "int",
        24,
        say("Hours until the text of events that mentioned nobody is blanked."),
        least=1,
        most=720,
    ),
    Setting("conversation_days", "int", 30, say("Days that conversations are kept."), least=1, most=3650),
    Setting("trace_days", "int", 30, say("Days that traces are kept."), least=1, most=3650),
    Setting("parts_days", "int", 30, say("Days that the parts of sent answers are kept."), least=1, most=3650),
    Setting("language", "choice", "en", say("The language where nobody chose another."), choices=LANGUAGES),
    Setting("branding_name", "text", "Parley", say("The name on every page."), least=1, most=64),
    Setting(
        "metrics_token", "secret", None, say("A monitoring system that sends it as a bearer token may read /metrics.")
    ),
)
BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


def find(name: str) -> Setting:
    """The setting of that name. Raises BadInput for an unknown one."""
    found = BY_NAME.get(name)
    if found is None:
        sentence = say("There is no setting named {name}.", name=name[:64])
        raise BadInput(sentence, fields={name[:64]: str(sentence)})
    return found


def check(setting: Setting, value: object) -> Any:
    """`value` in its stored form. Raises BadInput whose field `setting.name` says the limits."""
    try:
        return _checked(setting, value)
    except (ValueError, TypeError, OverflowError):
        sentence = say("{name}: {limits}", name=setting.name, limits=limits(setting))
        raise BadInput(sentence, fields={setting.name: str(sentence)}) from None


def parse(setting: Setting, text: str) -> Any:
    """What a person typed on a command line, as the JSON value it stands for; not checked yet."""
    if setting.kind in ("text", "choice", "secret"):
        return text
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def written(value: Any) -> str:
    """The value as `parse` reads it back."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def limits(setting: Setting) -> Sentence:
    """What values the setting takes, as a sentence."""
    least, most = _number(setting.least), _number(setting.most)
    if setting.kind == "int":
        return say("Give a whole number from {least} to {most}.", least=least, most=most)
    if setting.kind == "float":
        return say("Give a number from {least} to {most}, or null.", least=least, most=most)
    if setting.kind == "bool":
        return say("Give true or false.")
    if setting.kind == "choice":
        return say("Give one of: {choices}.", choices=", ".join(setting.choices))
    if setting.kind == "list":
        return say("Give a list of at most {most} model references.", most=MOST_ENTRIES)
    if setting.kind == "map":
        return say("Give model references, each with a whole number from {least} to {most}.", least=least, most=most)
    if setting.kind == "rates":
        return say(
            "Give endpoints (or *), each with some of {windows} and a whole number from {least} to {most}.",
            windows=", ".join(WINDOWS),
            least=least,
            most=most,
        )
    if setting.kind == "secret":
        return say("Give at most {most} printable ASCII characters, or null to clear it.", most=LONGEST_SECRET)
    return say("Give a text of {least} to {most} bytes in one line.", least=least, most=most)


def _checked(setting: Setting, value: object) -> Any:
    if value is None and setting.optional:
        return None
    if setting.kind == "int":
        return _within(setting, _whole(value))
    if setting.kind == "float":
        return round(_within(setting, _real(value)), 2) + 0.0
    if setting.kind == "bool":
        return _typed(value, bool)
    if setting.kind == "choice":
        return setting.choices[setting.choices.index(_typed(value, str))]
    if setting.kind == "list":
        return list(dict.fromkeys(_reference(entry) for entry in _few(_typed(value, list))))
    if setting.kind == "map":
        return {_reference(key): _within(setting, _whole(entry)) for key, entry in _few(_typed(value, dict)).items()}
    if setting.kind == "rates":
        return {_endpoint(name): _windows(setting, given) for name, given in _few(_typed(value, dict)).items()}
    if setting.kind == "secret":
        return checked_secret(_typed(value, str))
    text = _line(_typed(value, str))
    _within(setting, len(text.encode()))
    return text


def keeps(text: str) -> bool:
    """True for what a form sends of a secret that nobody retyped: nothing, or the mask that it was shown."""
    text = text.strip()
    return not text or text == crypto.masked("short") or text.startswith(crypto.MASK)


def checked_secret(text: str) -> str:
    """A secret as it may stand in an HTTP header: printable ASCII, not blank. Raises ValueError."""
    text = text.strip()
    if not text or len(text) > LONGEST_SECRET or not text.isascii() or not text.isprintable():
        raise ValueError("no secret")
    return text


def _typed(value: object, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} is no {kind.__name__}")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise TypeError("no whole number")
    return int(value)


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("no number")
    return float(value)


def _within(setting: Setting, value: Any) -> Any:
    if setting.least is not None and value < setting.least or setting.most is not None and value > setting.most:
        raise ValueError("outside its limits")
    return value


def _line(text: str) -> str:
    text = text.strip()
    if CONTROL.search(text):
        raise ValueError("a control character")
    return text


def _reference(value: object) -> str:
    text = _line(_typed(value, str))
    if not text or len(text) > LONGEST_REFERENCE:
        raise ValueError("no model reference")
    return text


def _endpoint(name: object) -> str:
    text = _typed(name, str)
    if not ENDPOINT.fullmatch(text):
        raise ValueError("no endpoint")
    return str(text)


def _windows(setting: Setting, given: object) -> dict[str, int]:
    """The limits of one endpoint; no limits are a value of their own, which the general ones don't touch."""
    limits_ = _typed(given, dict)
    if not set(WINDOWS).issuperset(limits_):
        raise ValueError("no window")
    return {name: _within(setting, _whole(most)) for name, most in limits_.items() if most is not None}


def _few(entries: Any) -> Any:
    if len(entries) > MOST_ENTRIES:
        raise ValueError("too many entries")
    return entries


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if value < 1_000_000 else str(int(value))


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
