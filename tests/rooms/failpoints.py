"""Every step of a message from its arrival to its end, by a name, so that a test may stop a worker there.

A test installs a function that is called with the name whenever a step is crossed: it may kill the process, raise, or
let another worker go on meanwhile. Nothing of this is in the application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.agent.events import ModelAnswered, ModelAsked, ToolFinished, ToolStarted
from app.bots import access
from app.inbox import accept, claim, drain
from app.rooms import answer, deliver, events, guard, parts
from app.rooms.sending import lookup
from app.rooms.thinking import listen, memory, run, steps
from app.tools import call

Crossed = Callable[..., None]


@dataclass(frozen=True)
class Point:
    """Before or after a function; `counts` tells from its arguments and result whether this call is that step."""

    module: Any
    function: str
    when: Literal["before", "after"] = "after"
    counts: Callable[[tuple[Any, ...], Any], bool] = lambda *_: True


def something(_: tuple[Any, ...], result: Any) -> bool:
    return result is not None


def event(kind: type) -> Callable[[tuple[Any, ...], Any], bool]:
    return lambda args, _: isinstance(args[1], kind)


POINTS: Mapping[str, Point] = {
    "arrived": Point(accept, "_insert", "before"),
    "accepted": Point(accept, "_insert", counts=something),
    "woken": Point(accept, "_wake"),
    "worker begun": Point(drain, "run", "before"),
    "lane taken": Point(claim, "take_lane", counts=something),
    "claimed": Point(claim, "next_delivery", counts=something),
    "read": Point(answer, "_read"),
    "noted": Point(events, "noted"),
    "not silent": Point(guard, "silence", counts=lambda _, result: result is None),
    "listened": Point(listen, "note"),
    "addressed": Point(answer, "_addressed"),
    "owed": Point(parts, "owe"),
    "allowed": Point(access, "may_use"),
    "turn begun": Point(run, "_begin"),
    "question remembered": Point(memory, "remember"),
    "model asked": Point(steps.Steps, "note", counts=event(ModelAsked)),
    "running": Point(claim, "running"),
    "model answered": Point(steps.Steps, "note", counts=event(ModelAnswered)),
    "tool started": Point(steps.Steps, "note", counts=event(ToolStarted)),
    "tool finished": Point(steps.Steps, "note", counts=event(ToolFinished)),
    "before a piece": Point(parts, "add", "before"),
    "piece written": Point(parts, "add"),
    "before parts": Point(parts, "write", "before"),
    "parts written": Point(parts, "write"),
    "before a claim": Point(deliver, "_claim", "before"),
    "part claimed": Point(deliver, "_claim", counts=something),
    "part posted": Point(deliver, "_post"),
    "outcome noted": Point(deliver, "_noted"),
    "post settled": Point(deliver, "_settle"),
    "looked": Point(lookup, "look"),
    "sought": Point(deliver, "_seek"),
    "answer over": Point(deliver, "over"),
    "before the end": Point(claim, "finish", "before"),
    "closed": Point(claim, "finish"),
    "given back": Point(claim, "give_back"),
    "before the release": Point(claim, "release", "before"),
    "released": Point(claim, "release"),
}
# On a thread of its own, where nothing that a test raises would end the worker.
ASIDE: Mapping[str, Point] = {"tool runs": Point(call, "_outcome", "before")}


def install(crossed: Crossed, patch: Callable[[Any, str, Any], object] = setattr) -> None:
    """From now on `crossed(name, args, result)` is called at each step; `result` is None before a function."""
    for name, point in (POINTS | ASIDE).items():
        patch(point.module, point.function, _watched(name, point, crossed))


def _watched(name: str, point: Point, crossed: Crossed) -> Callable[..., Any]:
    original = getattr(point.module, point.function)

    def watched(*args: Any, **more: Any) -> Any:
        if point.when == "before":
            crossed(name, args, None)
        result = original(*args, **more)
        if point.when == "after" and point.counts(args, result):
            crossed(name, args, result)
        return result

    watched.__name__ = original.__name__
    return watched
