"""How soon a process is there: the web process beside its libraries alone, and the first answer of `manage.py run`."""

from __future__ import annotations

import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from benchmarks.row import Row

ROOT = Path(__file__).resolve().parents[1]
OURS = "import app.server"
LIBRARIES = "import flask, flask_sqlalchemy, celery, requests, cryptography.fernet"
GOAL_IMPORT = 1.25
GOAL_ANSWER_SECONDS = 4.0


def run(rounds: int) -> list[Row]:
    """Imports in turn, then starts on an empty data directory."""
    ours, libraries = [], []
    for _ in range(rounds):
        ours.append(_imported(OURS))
        libraries.append(_imported(LIBRARIES))
    first = statistics.median(_first_answer() for _ in range(3))
    return [
        Row(
            "importing the web process / its libraries",
            statistics.median(ours),
            statistics.median(libraries),
            GOAL_IMPORT,
        ),
        Row("first answer of a fresh start / 4 s", first, GOAL_ANSWER_SECONDS, 1.0),
    ]


def _imported(statement: str) -> float:
    # CPU time: what else runs on the machine doesn't count.
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], cwd=ROOT, check=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


def _first_answer() -> float:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PARLEY_DATA_DIR": folder}
        words = [sys.executable, "manage.py", "run", "--port", str(port)]
        began = time.perf_counter()
        server = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        try:
            while not _answers(port):
                time.sleep(0.02)
            return time.perf_counter() - began
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(15)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
