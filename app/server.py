"""One command serves everything: gunicorn with one worker of many threads, and the job workers inside it.

The application, its database pool and Celery are made after the fork, in the worker. Durable rows are the truth of all
work, so that the worker may end at any moment.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import struct
import sys
import threading
from dataclasses import dataclass
from typing import IO, Any, NoReturn

import click
from flask import Flask
from gunicorn import util
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers import gthread

import app as parley
from app.bots import guide
from app.config import Config
from app.inbox import claim
from app.inbox.gaps import watch
from app.infra import clock, jobs
from app.infra.errors import Conflict, ParleyError, TooSlow
from app.infra.i18n import say
from app.platforms.sandbox import server as sandbox
from app.settings import address, store

log = logging.getLogger(__name__)

SOCKETS = 128
"""Websockets and event streams that may be open at once; each holds a thread."""
THREADS = SOCKETS + 64
BACKLOG = 2048
# How long a running request may go on after the signal to stop.
GRACE = 2
STOP_JOBS = 2.5
SIGN_OFF = 1.0
# The arbiter kills a worker that is not gone by then; Ctrl-C must end everything within ten seconds.
LAST_MOMENT = 6
STUCK = 120

RECEIVE_SECONDS = 10
"""The longest silence of a sender in the middle of a request."""
LINGER_SECONDS = 1.0
LINGER_BYTES = 64 * 1024
RECEIVE_GRACE = 20.0
RECEIVE_RATE = 2048
"""Bytes a second, on average, after the grace: a sender that drips is not waited for either."""

LOCK_FILE = "server.lock"
LOCK_WAIT = 3.0


@dataclass(frozen=True)
class Serving:
    """What one `run` serves: where it listens, and whether jobs run inside it."""

    config: Config
    url: str
    workers: bool

    @property
    def alone(self) -> bool:
        """True when nobody else can run jobs on this data: leases of a dead process are then void."""
        return self.workers and self.config.embedded_worker


def serve(config: Config, *, workers: bool = True) -> None:
    """Serves until a signal ends it; does not return. Raises Conflict when the port or the data is in use."""
    listener = listen(config.host, config.port)
    lock = lock_data(config) if workers and config.embedded_worker else None
    serving = Serving(config, reachable(listener), workers)
    try:
        Server(serving, listener.detach()).run()
    finally:
        if lock is not None:
            lock.close()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises Conflict."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise Conflict(
            say(
                "Parley can't listen on {host}, port {port}: {reason}. Choose another with --port.",
                host=host,
                port=port,
                reason=reason,
            )
        ) from None
    return listener


def reachable(listener: socket.socket) -> str:
    """The address at which this machine reaches the listener."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def lock_data(config: Config) -> IO[str]:
    """Holds the data directory for this process; two servers with embedded workers would run the same jobs twice."""
    file = (config.data_dir / LOCK_FILE).open("w")
    deadline = clock.monotonic() + LOCK_WAIT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            if clock.monotonic() > deadline:
                file.close()
                raise Conflict(say("Another Parley runs on {folder}; stop it first.", folder=config.data_dir)) from None
        # The worker of a server that was just killed needs a moment to notice.
        clock.sleep(0.2)


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn, told everything in Python: no file and no variable of its own changes it."""

    def __init__(self, serving: Serving, listener: int) -> None:
        self.serving = serving
        self.listener = listener
        super().__init__()

    def load_config(self) -> None:
        settings: dict[str, Any] = {
            "bind": f"fd://{self.listener}",
            "workers": 1,
            "worker_class": PatientWorker,
            "threads": THREADS,
            "worker_connections": 2 * THREADS,
            "backlog": BACKLOG,
            "keepalive": 5,
            "timeout": STUCK,
            "graceful_timeout": LAST_MOMENT,
            "loglevel": "warning",
            "proc_name": "parley",
            # gunicorn would otherwise open a socket in the home directory.
            "control_socket_disable": True,
            "post_worker_init": self._begin,
            "worker_exit": self._end,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        config = self.serving.config
        idle = not self.serving.workers and config.embedded_worker
        return parley.create_app(config, sender=jobs.nobody if idle else None)

    def run(self) -> None:
        PatientArbiter(self).run()

    def _begin(self, worker: Any) -> None:
        # This is the worker's own copy: it must be done before the arbiter loses its patience.
        worker.cfg.set("graceful_timeout", GRACE)
        begin = threading.Thread(target=_begin, args=(worker.wsgi, self.serving), name="begin", daemon=True)
        begin.start()

    def _end(self, _arbiter: Any, worker: Any) -> None:
        if not worker.booted:
            # gunicorn's own exit code tells the arbiter to give up rather than to try for ever.
            return
        end_now(worker.wsgi, alone=self.serving.alone)


class PatientArbiter(Arbiter):  # type: ignore[misc]
    """The parent process: it only keeps the one worker alive, and ends with its terminal."""

    def handle_hup(self) -> None:
        raise StopIteration

    def _ignored(self) -> None:
        """A second worker would run the same jobs beside the first."""

    handle_usr2 = handle_ttin = handle_ttou = _ignored


class PatientWorker(gthread.ThreadWorker):  # type: ignore[misc]
    """gthread has no read timeout: a sender that falls silent, or drips, is answered with 408 here."""

    def handle(self, conn: Any) -> Any:
        if not conn.initialized and not conn.data_ready and not conn.wait_for_data(gthread.DEFAULT_WORKER_DATA_TIMEOUT):
            return gthread._DEFER
        conn.sock.setblocking(True)
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", RECEIVE_SECONDS, 0))
        conn.init()
        conn.parser.unreader.sock = conn.reader = PacedSocket(conn.sock)
        kept = super().handle(conn)
        if kept is False:
            linger(conn.sock)
        return kept

    def handle_quit(self, sig: int, frame: Any) -> None:
        # A terminal signals the arbiter too, which signals again: the second one must not break into the ending. Not by
        # SIG_IGN: Python complains of a signal that came just before.
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        super().handle_quit(sig, frame)

    def _keepalive_after(self, conn: Any, keepalive: bool) -> bool:
        if conn.reader.given_up:
            return False
        # The answer is sent; gunicorn drains what is left of the body by its own short clock.
        conn.parser.unreader.sock = conn.sock
        return bool(super()._keepalive_after(conn, keepalive))

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        if isinstance(exc, TooSlow):
            util.write_error(client, exc.status, "Request Timeout", str(exc.sentence))
        else:
            super().handle_error(req, client, addr, exc)


def linger(sock: socket.socket) -> None:
    """Says goodbye to a peer that may still send, in this worker thread and for a second at most.

    gunicorn would wait for the peer in its main thread, two seconds a connection: ten peers that never close would
    stop everybody. The socket is left open, because gunicorn counts its connections when it closes them.
    """
    deadline = clock.monotonic() + LINGER_SECONDS
    try:
        sock.shutdown(socket.SHUT_WR)
        left = LINGER_BYTES
        while left > 0 and (wait := deadline - clock.monotonic()) > 0:
            sock.settimeout(wait)
            data = sock.recv(min(left, 8192))
            if not data:
                break
            left -= len(data)
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        # The peer is gone, which is what was waited for.
        return


class PacedSocket:
    """The receiving side of one request's socket. Raises TooSlow when it is silent, or slower than the least rate."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.began = clock.monotonic()
        self.received = 0
        self.given_up = False

    def recv(self, size: int) -> bytes:
        """Like socket.recv."""
        allowed = RECEIVE_GRACE + self.received / RECEIVE_RATE
        if clock.monotonic() - self.began > allowed:
            raise self._give_up()
        try:
            data = self.sock.recv(size)
        except BlockingIOError:
            raise self._give_up() from None
        self.received += len(data)
        return data

    def _give_up(self) -> TooSlow:
        self.given_up = True
        return TooSlow(detail=f"{self.received} bytes came in {clock.monotonic() - self.began:.0f} s")


def end_now(app: Flask, *, alone: bool) -> NoReturn:
    """Stops the workers of this process and ends it; `alone`: nobody else runs jobs on this data.

    Threads of open sockets and of running turns would be joined for ever; their rows tell what is left to do.
    """
    worked = jobs.running()
    jobs.stop_embedded(seconds=STOP_JOBS)
    if worked:
        # A database that does not answer is not waited for.
        last = threading.Thread(target=_sign_off, args=(app, alone), daemon=True)
        last.start()
        last.join(SIGN_OFF)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def _sign_off(app: Flask, alone: bool) -> None:
    try:
        with app.app_context():
            jobs.sign_off(alone=alone)
    except Exception:
        log.exception("the workers' end was not noted")


def _watch(app: Flask) -> None:
    """Tells every few seconds that events are taken here, as long as the process lives."""
    watcher = watch.Watcher()
    while True:
        with app.app_context():
            watcher.look()
        clock.sleep(watch.SECONDS)


def _begin(app: Flask, serving: Serving) -> None:
    try:
        with app.app_context():
            _prepare(serving)
        threading.Thread(target=_watch, args=(app,), name="watch", daemon=True).start()
        if serving.workers:
            with app.app_context():
                turn_slots = store.get("turn_slots")
            jobs.start_embedded(turn_slots=turn_slots)
            with app.app_context():
                # The first sign of life, which others would else see ten seconds later.
                jobs.tick(jobs.SWEEP)
    except Exception as error:
        log.exception("Parley can't start its workers")
        click.echo(str(error.sentence if isinstance(error, ParleyError) else say("Parley can't start.")), err=True)
        sys.stderr.flush()
        # The arbiter reads this code: it ends too, and with an error.
        os._exit(Arbiter.WORKER_BOOT_ERROR)
    if serving.alone:
        with app.app_context():
            jobs.resend()
    _announce(serving)


def _prepare(serving: Serving) -> None:
    """What must stand before the first job runs."""
    address.remember(serving.url)
    if serving.alone:
        claim.release_all()
    sandbox.ensure(serving.url)
    guide.ensure_guide()


def _announce(serving: Serving) -> None:
    """Says in plain words where it runs and how to try it."""
    simulate = f'{_python()} manage.py talk simulate sandbox "@guide What is Parley?"'
    connect = f"{_python()} manage.py endpoints set primary --url URL --model MODEL"
    lines = [
        say("Parley runs at {url} - Ctrl-C stops it.", url=serving.url),
        say("Try it in a second terminal:  {command}", command=simulate),
        say("Connect a model:  {command}", command=connect),
    ]
    if not serving.workers and serving.config.embedded_worker:
        lines.append(say("No worker runs here: messages are stored, and answered by the next `run` with a worker."))
    click.echo("\n" + "\n".join(str(line) for line in lines) + "\n")


def _python() -> str:
    """How this interpreter is called from the folder of Parley."""
    here = os.path.relpath(sys.executable)
    return here if not here.startswith("..") else "python"
