"""Background work by name ("package.verb"): Celery is the wake-up, rows of ours are the durable truth.

A task is registered by its door (`@task`), enqueued by its name from anywhere (`enqueue`), and leaves after commit.
With a key at most one is queued per key on every broker: the unique row in `jobs` decides; whoever claims the work
deletes the row in the same transaction (`taken`), and the sweep sends again what stayed. Periodic work (`@periodic`)
runs once a slot however many beats tick: one row a task, advanced by a conditional UPDATE. Two queues: `turns`, `work`.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, cast

from celery import Celery
from celery.beat import EmbeddedService
from flask import Flask
from kombu.asynchronous import set_event_loop
from sqlalchemy import BigInteger, String, delete, func, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from app.config import Config
from app.infra import clock
from app.infra.db import Base, Id, Json, UtcDateTime, after_commit, changed, insert_once, prefixed, reading, transaction
from app.infra.errors import Unavailable
from app.infra.i18n import say

log = logging.getLogger(__name__)

TURNS = "turns"
WORK = "work"
WORK_SLOTS = 2
# A finished job is acknowledged up to a second later: with two slots and nothing in hand they would idle meanwhile.
PREFETCH = {TURNS: 1, WORK: 4}
RESEND_AFTER = timedelta(seconds=30)
SWEEP = "jobs.sweep"
SWEEP_SECONDS = 10
# A worker is taken for dead when the sweep, which it runs every ten seconds, has not come for this long.
SILENCE = timedelta(seconds=60)
# Beat looks at long periods this often: a daily job must also come where no process lives for a day.
LONGEST_BEAT = 60
# In memory: what is due is told by our own rows, and a file of beat's breaks by kill -9.
BEAT_SCHEDULER = "celery.beat:Scheduler"
START_TIMEOUT = 20.0
STOP_TIMEOUT = 5.0
# An embedded job begins this many seconds after it was sent, at the latest.
MEMORY_BROKER = "memory://localhost"
MEMORY_POLL = 0.02
# A web request may wait this long for a broker that doesn't answer; the sweep brings what was not sent.
BROKER_TIMEOUT = 1.0
# After a failure nobody waits for it again so soon.
BROKER_PAUSE = 2.0


class QueuedJob(Base):
    """A keyed job that is queued and not yet claimed."""

    __tablename__ = prefixed("jobs")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(String(190), unique=True)
    name: Mapped[str] = mapped_column(String(100))
    args: Mapped[list[Any]] = mapped_column(Json)
    due_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class PeriodicSlot(Base):
    """The last slot of a periodic task that some worker has won."""

    __tablename__ = prefixed("ticks")

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    slot: Mapped[int] = mapped_column(BigInteger, doc="seconds since 1970 divided by the task's period")
    done_at: Mapped[datetime] = mapped_column(UtcDateTime)


@dataclass(frozen=True)
class Task:
    """A function that a worker may run, and the queue it runs in; `every` is in seconds for periodic work."""

    name: str
    run: Callable[..., None]
    queue: str = WORK
    every: int | None = None


class Sender(Protocol):
    """Takes a wake-up to a worker. Never raises for a broker that is away: it logs, and the sweep comes later."""

    def __call__(self, name: str, args: list[Any], *, delay: float) -> None: ...


@dataclass(frozen=True)
class _Running:
    """An embedded worker or beat: its thread, and how it is stopped."""

    thread: threading.Thread
    stop: Callable[[], None]


@dataclass
class _State:
    """What one process runs: the tasks its doors registered, how it sends, and its embedded workers."""

    tasks: dict[str, Task] = field(default_factory=dict)
    sender: Sender | None = None
    celery: Celery | None = None
    running: list[_Running] = field(default_factory=list)
    broker_away_until: float = 0.0


jobs = _State()


def task(name: str, *, queue: str = WORK) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a function of a tasks.py as the job `name`; its arguments must be JSON values."""

    def register(run: Callable[..., None]) -> Callable[..., None]:
        jobs.tasks[name] = Task(name, run, queue)
        return run

    return register


def periodic(name: str, *, every: int, queue: str = WORK) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Registers a function that runs once in each slot of `every` seconds, whatever the number of beats."""

    def register(run: Callable[[], None]) -> Callable[[], None]:
        jobs.tasks[name] = Task(name, run, queue, every)
        return run

    return register


def enqueue(name: str, *args: Any, key: str | None = None, delay: float = 0.0) -> bool:
    """Sends the job `name` after the surrounding commit; False when its key is queued already."""
    values = list(args)
    if key is not None and not _win(name, key, values, delay):
        return False
    after_commit(lambda: _send(name, values, delay))
    return True


def taken(session: Session, key: str) -> bool:
    """Claims the keyed job inside the caller's transaction; False when somebody else has."""
    return changed(session.execute(delete(QueuedJob).where(QueuedJob.key == key))) == 1


def tick(name: str) -> None:
    """Runs the periodic task `name` unless its present slot was run, here or in another worker."""
    found = jobs.tasks[name]
    now = clock.now()
    slot = int(now.timestamp()) // (found.every or 1)
    later = update(PeriodicSlot).where(PeriodicSlot.name == name, PeriodicSlot.slot < slot)
    with transaction() as session:
        won = bool(changed(session.execute(later.values(slot=slot, done_at=now))))
        first = {"name": name, "slot": slot, "done_at": now}
        won = won or insert_once(session, table(PeriodicSlot), first) is not None
    if won:
        found.run()


def init_app(app: Flask, config: Config, *, sender: Sender | None = None) -> None:
    """Makes this process able to send jobs; call it after every tasks.py was loaded."""
    jobs.celery = make_celery(app, config)
    jobs.broker_away_until = 0.0
    jobs.sender = _celery_sender if sender is None else sender


def make_celery(app: Flask, config: Config) -> Celery:
    """The Celery application with every registered task, for this process or for `celery -A celery_worker`."""
    made = Celery("parley", broker=config.broker_url or MEMORY_BROKER)
    made.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options=_transport_options(config),
        task_routes={found.name: {"queue": found.queue} for found in jobs.tasks.values()},
        beat_scheduler=BEAT_SCHEDULER,
        broker_connection_max_retries=None,
        beat_schedule={
            name: {
                "task": name,
                "schedule": float(min(found.every, LONGEST_BEAT)),
                "options": {"queue": found.queue, "expires": min(found.every, LONGEST_BEAT)},
            }
            for name, found in jobs.tasks.items()
            if found.every
        },
    )
    for found in jobs.tasks.values():
        made.task(name=found.name, shared=False)(_in_context(app, found))
    return made


def start_embedded(*, turn_slots: int) -> None:
    """Starts the two workers and the beat inside this process; the second after the first, else neither runs."""
    celery = cast("Celery", jobs.celery)
    # The threads of a pool look their tasks up in the default application.
    celery.set_default()
    for queue, slots in ((TURNS, turn_slots), (WORK, WORK_SLOTS)):
        _start_worker(celery, queue, slots)
    beat = EmbeddedService(celery, thread=True, scheduler_cls=BEAT_SCHEDULER)
    beat.start()
    jobs.running.append(_Running(beat, beat.stop))


def stop_embedded(*, seconds: float = STOP_TIMEOUT) -> None:
    """Stops what `start_embedded` started, in at most `seconds`; what was running is found again by the sweeps."""
    stoppers = [threading.Thread(target=part.stop, daemon=True) for part in jobs.running]
    jobs.running.clear()
    deadline = clock.monotonic() + seconds
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join(max(0.0, deadline - clock.monotonic()))


def sign_off(*, alone: bool) -> None:
    """The workers of this process are stopped: with nobody else to run jobs, none is alive from now on.

    Where there may be others the sign of life ends within two sweeps, unless one of them gives it anew.
    """
    sign = PeriodicSlot.name == SWEEP
    soon = clock.now() - SILENCE + timedelta(seconds=2 * SWEEP_SECONDS)
    with transaction() as session:
        if alone:
            session.execute(delete(PeriodicSlot).where(sign))
        else:
            session.execute(update(PeriodicSlot).where(sign, PeriodicSlot.done_at > soon).values(done_at=soon))


def running() -> bool:
    """True while every embedded worker of this process runs."""
    return bool(jobs.running) and all(part.thread.is_alive() for part in jobs.running)


def alive() -> bool:
    """True while workers run, here or elsewhere: the sweep, which they run every ten seconds, came lately."""
    with reading() as session:
        done_at = session.scalar(select(PeriodicSlot.done_at).where(PeriodicSlot.name == SWEEP))
    return done_at is not None and done_at > clock.now() - SILENCE


def broker_answers() -> bool:
    """True when the broker can be reached now."""
    try:
        with cast("Celery", jobs.celery).connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_TIMEOUT)
    except Exception:  # kombu raises the errors of every transport
        return False
    return True


@periodic(SWEEP, every=SWEEP_SECONDS, queue=TURNS)
def sweep() -> None:
    """Sends keyed jobs again whose wake-up was lost."""
    resend(older_than=RESEND_AFTER)


def resend(*, older_than: timedelta = timedelta()) -> int:
    """Sends the keyed jobs that have been due for `older_than`; after a start nothing of an embedded broker is left."""
    now = clock.now()
    with transaction() as session:
        due = select(QueuedJob).where(QueuedJob.due_at <= now - older_than).order_by(QueuedJob.id).limit(1000)
        rows = session.scalars(due).all()
        session.execute(update(QueuedJob).where(QueuedJob.id.in_([row.id for row in rows])).values(due_at=now))
        for row in rows:
            after_commit(partial(_resend_one, row))
    return len(rows)


def queued() -> int:
    """How many keyed jobs wait."""
    with reading() as session:
        return session.scalar(select(func.count()).select_from(QueuedJob)) or 0


def table(model: type[Base]) -> Any:
    """The Core table of a model."""
    return model.__table__


def _win(name: str, key: str, args: list[Any], delay: float) -> bool:
    now = clock.now()
    row = {"key": key, "name": name, "args": args, "due_at": now + timedelta(seconds=delay), "created_at": now}
    with transaction() as session:
        return insert_once(session, table(QueuedJob), row) is not None


def _resend_one(row: QueuedJob) -> None:
    if row.name in jobs.tasks:
        _send(row.name, row.args, 0.0)
    else:
        log.warning("nothing runs the queued job %s: the part that made it is gone", row.name)


def _send(name: str, args: list[Any], delay: float) -> None:
    if jobs.sender is None:
        raise RuntimeError("jobs.init_app was not called")
    if name not in jobs.tasks:
        raise LookupError(f"no tasks.py registered the job {name}")
    jobs.sender(name, args, delay=delay)


def nobody(name: str, args: list[Any], *, delay: float) -> None:
    """The sender where no worker runs and none can be reached: the rows wait for one that looks."""


def _celery_sender(name: str, args: list[Any], *, delay: float) -> None:
    celery = cast("Celery", jobs.celery)
    if clock.monotonic() < jobs.broker_away_until:
        return
    try:
        # Looked up in the registry: send_task would ignore task_always_eager.
        celery.tasks[name].apply_async(args, countdown=delay or None, queue=jobs.tasks[name].queue, retry=False)
    except Exception:  # kombu raises the errors of every transport
        jobs.broker_away_until = clock.monotonic() + BROKER_PAUSE
        log.exception("the broker did not take %s; the sweep sends it again", name)


def _in_context(app: Flask, found: Task) -> Callable[..., None]:
    def run(*args: Any) -> None:
        with app.app_context():
            try:
                if found.every:
                    tick(found.name)
                else:
                    found.run(*args)
            except Exception:
                log.exception("the job %s failed", found.name)

    run.__name__ = found.name.replace(".", "_")
    return run


def _start_worker(celery: Celery, queue: str, slots: int) -> None:
    ready = threading.Event()
    # Two workers on kombu's one global loop would read each other's sockets.
    set_event_loop(None)
    worker = celery.WorkController(
        pool="threads",
        concurrency=slots,
        hostname=f"{queue}-{os.getpid()}@{socket.gethostname()}",
        queues=[queue],
        prefetch_multiplier=PREFETCH[queue],
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
        ready_callback=lambda _consumer: ready.set(),
    )
    thread = threading.Thread(target=worker.start, name=f"worker-{queue}", daemon=True)
    thread.start()
    if not ready.wait(START_TIMEOUT):
        raise Unavailable(say("The worker for {queue} did not start.", queue=queue))
    jobs.running.append(_Running(thread, worker.stop))


def _transport_options(config: Config) -> dict[str, Any]:
    if config.broker_url is None:
        return {"polling_interval": MEMORY_POLL}
    # Without these a producer waits for ever for a broker that is away.
    options = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "connect_retries_timeout": BROKER_TIMEOUT}
    if not config.broker_url.startswith("redis"):
        return {**options, "connect_timeout": BROKER_TIMEOUT}
    return {
        **options,
        "visibility_timeout": 3600,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "socket_connect_timeout": BROKER_TIMEOUT,
        "socket_timeout": 2 * BROKER_TIMEOUT,
    }
