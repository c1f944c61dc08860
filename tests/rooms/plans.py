"""What goes wrong in one interleaving, decided by its seed alone."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from tests.fakes.talk_server import Fault
from tests.rooms.failpoints import POINTS

Style = Literal["short", "long", "tool", "slowly"]
Action = Literal["dies", "sleeps", "fails", "repeated"]
ROOMS = ("r00mtok1", "an0ther1", "th1rd1")
BOTS = ("atlas", "muse")
# The web process dies there, not a worker.
AT_THE_DOOR = ("arrived", "accepted", "woken")
# Before a handler begins and after it ended an exception that is no death ends nothing but the job: also a kind of dying.
FAILING = [name for name in POINTS if name not in AT_THE_DOOR]


@dataclass(frozen=True)
class Asked:
    """One message: its id in the chat system, where it is said, whom it names, and how the model answers it."""

    id: int
    room: str
    bots: tuple[str, ...]
    style: Style
    words: int

    @property
    def key(self) -> str:
        return f"q{self.id}"

    @property
    def text(self) -> str:
        return f"{' and '.join('@' + bot for bot in self.bots)}: {self.key}?"


@dataclass(frozen=True)
class Plan:
    """All of it. Steps are counted over the whole run: (name, 3) is the third time that this step is crossed.

    `posts` and `looks` are what becomes of the nth post to the Talk server and of the nth question of the service user;
    `models` of the nth question to the model. `longest` is what the Talk server takes of one message.
    """

    seed: int
    messages: tuple[Asked, ...]
    actions: Mapping[tuple[str, int], Action]
    posts: Mapping[int, str]
    looks: Mapping[int, str]
    models: Mapping[int, str]
    repeats: Mapping[int, int]
    longest: int
    loses_jobs: bool
    works_between: frozenset[int] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return "\n".join(f"  {each.name} = {getattr(self, each.name)}" for each in fields(self))


POST_FAULTS: Mapping[str, Fault] = {
    "reply lost": Fault.lost(),
    "never stored": Fault.reset(),
    "held back": Fault.held(25.0),
    "maintenance": Fault.maintenance(),
    "502": Fault(502),
    "504 of a proxy": Fault(504),
    "504, and held back": Fault(504, stores=True, holds=25.0),
    "throttled": Fault.throttled(30),
    "late": Fault.late(0.02),
}
# Nobody without eyes can tell that it was stored: what the specification has sent again comes twice then.
ONLY_WITH_EYES = ("504, and held back",)
AMBIGUOUS = ("reply lost", "never stored", "held back")
LOOK_FAULTS: Mapping[str, Fault] = {
    "maintenance": Fault.maintenance(),
    "unreachable": Fault(ends="drop"),
    "a proxy": Fault(200, b"<html>", (("Content-Type", "text/html"),)),
    "throttled": Fault(429),
    "late": Fault.late(0.02),
}
MODEL_FAULTS = ("cut", "500", "late")


def plan(seed: int) -> Plan:
    """The plan of a seed: from a single death to many of everything."""
    rng = random.Random(seed)
    trouble = rng.choice((1, 2, 4, 8))
    messages = tuple(_asked(rng, 1501 + number) for number in range(rng.randint(3, 6)))
    actions = {
        _step(rng): rng.choices(("dies", "sleeps", "fails", "repeated"), (5, 3, 2, 2))[0] for _ in range(trouble)
    }
    return Plan(
        seed=seed,
        messages=messages,
        actions=actions,
        posts=_faults(rng, POST_FAULTS, trouble),
        looks=_faults(rng, LOOK_FAULTS, trouble // 2),
        models=_faults(rng, MODEL_FAULTS, trouble // 2),
        repeats={message.id: rng.randint(0, 2) for message in messages},
        longest=rng.choice((32_000, 32_000, 1_300)),
        loses_jobs=rng.random() < 0.5,
        works_between=frozenset(message.id for message in messages if rng.random() < 0.5),
    )


def _asked(rng: random.Random, id: int) -> Asked:
    style: Style = rng.choice(("short", "short", "long", "long", "tool", "slowly"))
    bots = rng.choice((("atlas",), ("atlas",), ("muse",), ("muse", "atlas")))
    words = {"short": 5, "tool": 5}.get(style, rng.randint(150, 400))
    return Asked(id, rng.choice(ROOMS[: rng.randint(1, 3)]), bots, style, words)


def _step(rng: random.Random) -> tuple[str, int]:
    return rng.choice(list(POINTS)), rng.choice((1, 1, 1, 2, 2, 3, 4, 6))


def _faults(rng: random.Random, known: Mapping[str, Fault] | tuple[str, ...], number: int) -> dict[int, str]:
    return {rng.randint(0, 9): rng.choice(list(known)) for _ in range(rng.randint(0, number))}
