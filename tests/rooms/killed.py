"""Parley, except that it kills itself and everything of it at one step of a message: `python -m tests.rooms.killed STEP [worker]`.

STEP is a name of failpoints.POINTS, or - for a process that lives on. `worker` is `manage.py worker` in place of `run`; with
PARLEY_TEST_LEASE it takes another for dead after so many seconds, so that a test need not wait for a minute.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from typing import Any

import manage
from app import config as configuration
from app import server
from app.inbox import claim, drain
from tests.rooms import failpoints


def die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def main(step: str, what: str = "run") -> int:
    def crossed(name: str, args: Any, result: Any) -> None:
        if name == step:
            die()

    assert step in ("-", *failpoints.POINTS, *failpoints.ASIDE)
    failpoints.install(crossed)
    lease = float(os.environ.get("PARLEY_TEST_LEASE", "0"))
    if lease:
        claim.LEASE, drain.RENEW_SECONDS = timedelta(seconds=lease), lease / 4
    if what == "run":
        server.serve(configuration.load())
    sys.argv[1:] = [what]
    return manage.main()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
