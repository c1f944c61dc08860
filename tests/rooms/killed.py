"""The server, except that it kills itself and everything of it at one moment of a turn: `python -m tests.rooms.killed MOMENT`.

The moments that a fake server can see from outside (a model that is asked, a message that is posted) are decided there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from app import config as configuration
from app import server
from app.inbox import claim, drain
from app.rooms import deliver, parts
from app.rooms.thinking import memory
from app.tools import call

AFTER: dict[str, tuple[Any, str]] = {
    "claimed": (claim, "next_delivery"),
    "before_the_first_model_call": (memory, "remember"),
    "parts_written": (parts, "write"),
    "between_parts": (deliver, "_settle"),
    "all_parts_sent": (deliver, "over"),
}
BEFORE: dict[str, tuple[Any, str]] = {
    "accepted": (drain, "run"),
    "model_answered": (parts, "write"),
    "a_tool_runs": (call, "_outcome"),
}


def die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def dying(original: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    def run(*args: Any, **more: Any) -> Any:
        if not after:
            die()
        result = original(*args, **more)
        # A claim of nothing is no claim.
        if result is not None or original.__name__ != "next_delivery":
            die()
        return result

    return run


def main(moment: str) -> None:
    module, name = (AFTER | BEFORE)[moment]
    setattr(module, name, dying(getattr(module, name), after=moment in AFTER))
    server.serve(configuration.load())


if __name__ == "__main__":
    main(sys.argv[1])
