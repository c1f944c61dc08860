"""Real processes of Parley for tests: `manage.py run` and `worker`, started, waited for, and always ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import requests

from tests.house import ROOT

ANSWER_SECONDS = 30.0


@dataclass
class Process:
    """One running `manage.py`: what it says goes to `log`; it leads a process group of its own."""

    popen: subprocess.Popen[bytes]
    log: Path
    url: str = ""
    seconds_to_answer: float = field(default=0.0)

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def says(self, text: str, *, seconds: float = ANSWER_SECONDS) -> bool:
        """True as soon as it has said `text`."""
        deadline = time.monotonic() + seconds
        while text not in self.said:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def signal(self, number: int) -> None:
        """To the whole group, as a terminal does."""
        os.killpg(self.popen.pid, number)

    def ended_after(self, number: int, *, seconds: float = 30) -> float:
        """Sends a signal and gives the seconds until the process was gone."""
        began = time.monotonic()
        self.signal(number)
        self.popen.wait(seconds)
        return time.monotonic() - began

    def kill(self) -> None:
        """Everything of it, at once, without a word: a power cut."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.popen.wait(10)


def environment(folder: Path, values: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
    return {**kept, "PARLEY_DATA_DIR": str(folder), "PYTHONUNBUFFERED": "1", **(values or {})}


@contextmanager
def manage(folder: Path, *words: str, values: Mapping[str, str] | None = None) -> Iterator[Process]:
    """`manage.py WORDS` in the background; killed at the end where it still runs."""
    log = folder.parent / f"{folder.name}-{words[0]}-{time.monotonic_ns()}.log"
    with log.open("wb") as out:
        popen = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), *words],
            cwd=ROOT,
            env=environment(folder, values),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process = Process(popen, log)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def server(folder: Path, *words: str, values: Mapping[str, str] | None = None, ready: bool = True) -> Iterator[Process]:
    """A running server on a free port, waited for until it answers, or until its workers run."""
    port = free_port()
    began = time.monotonic()
    with manage(folder, "run", "--port", str(port), *words, values=values) as process:
        process.url = f"http://127.0.0.1:{port}"
        await_answer(process, "/healthz")
        process.seconds_to_answer = time.monotonic() - began
        if ready:
            await_answer(process, "/readyz")
        yield process


def await_answer(process: Process, path: str) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        assert process.popen.poll() is None, process.said
        try:
            if requests.get(process.url + path, timeout=2).status_code == 200:
                return
        except requests.RequestException:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{path} did not answer: {process.said}")


def command(
    folder: Path, *words: str, values: Mapping[str, str] | None = None, stdin: str = "", seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs `manage.py WORDS` to its end."""
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *words],
        cwd=ROOT,
        env=environment(folder, values),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])
