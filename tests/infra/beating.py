"""A worker with a beat of its own that writes down which periodic work it ran: `python -m tests.infra.beating FILE`.

A line is the name of the work, its slot, and the number of this process. What the work does is left out.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

from app import config as configuration
from app import create_app
from app.infra import clock, jobs

EVERY = {"test.second": 1, "test.other": 2}


def main(file: str) -> None:
    create_app_with(lambda name, slot: write(file, f"{name} {slot} {os.getpid()}\n"))
    jobs.start_embedded(turn_slots=4)
    # What is rare comes only after a minute: here every beat brings it at once.
    for name in [name for name, found in jobs.jobs.tasks.items() if found.every]:
        jobs.tick(name)
    print("beats", flush=True)
    threading.Event().wait()


def create_app_with(ran: Callable[[str, int], None]) -> None:
    this = threading.local()
    now, tick = clock.now, jobs.tick

    def ticked(name: str) -> None:
        # One moment for the whole of a tick: what is written down is the slot that was won, not the next one.
        this.moment = now()
        try:
            tick(name)
        finally:
            del this.moment

    clock.now = lambda: getattr(this, "moment", None) or now()
    jobs.tick = ticked
    for name, every in EVERY.items():
        jobs.periodic(name, every=every, queue=jobs.TURNS)(lambda: None)
    made = create_app(configuration.load())
    for name, found in list(jobs.jobs.tasks.items()):
        if found.every:
            jobs.jobs.tasks[name] = replace(found, run=noted(name, found.every, ran))
    made.app_context().push()


def noted(name: str, every: int, ran: Callable[[str, int], None]) -> Callable[[], None]:
    return lambda: ran(name, int(clock.now().timestamp()) // every)


def write(file: str, line: str) -> None:
    """Short lines that are appended whole, whoever else writes."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


if __name__ == "__main__":
    main(sys.argv[1])
