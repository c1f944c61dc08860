"""A server of this installation in a process of its own, with its embedded workers, that a test may kill at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app import config as configuration
from app.config import Config

ROOT = Path(__file__).resolve().parents[2]
RUN = ("manage.py", "run")


@dataclass(frozen=True)
class Answered:
    """What a request was answered; 0 when the connection broke."""

    status_code: int
    body: bytes = b""


@dataclass
class Running:
    """`start` waits until it answers; `kill` ends all of it at once, as a power cut would.

    `values` are further variables of its environment; `beside` starts another process of the same installation.
    """

    data_dir: Path
    port: int = field(default_factory=lambda: free_port())
    process: subprocess.Popen[bytes] | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PARLEY_DATA_DIR": str(self.data_dir),
            "PARLEY_SECRET_KEY": "a-secret-key-for-tests-only",
            "PARLEY_PORT": str(self.port),
            **self.values,
        }

    @property
    def config(self) -> Config:
        return configuration.load(self.environment)

    @property
    def log(self) -> str:
        return (self.data_dir / "server.log").read_text("utf-8", "replace")

    def start(self, command: Sequence[str] = RUN, *, seconds: float = 40.0, ready: str = "/readyz") -> None:
        self.process = self._begin(command)
        until = time.monotonic() + seconds
        while self.request("GET", ready).status_code != 200:
            assert time.monotonic() < until, self.log[-4000:]
            assert self.process.poll() is None, self.log[-4000:]
            time.sleep(0.05)

    def beside(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Another process of the same installation; ended with this one at the latest."""
        self.others.append(self._begin(command))
        return self.others[-1]

    def _begin(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with (self.data_dir / "server.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL to the whole group; returns when it is gone."""
        if self.process is not None:
            kill_group(self.process)
        self.process = None

    def died(self, *, seconds: float = 20.0) -> None:
        """Waits until it has ended by itself."""
        assert self.process is not None
        self.process.wait(seconds)
        self.process = None

    def post(self, path: str, *, data: bytes, headers: Mapping[str, str]) -> Answered:
        """As a test client's post: one request, no redirects followed, nothing raised."""
        return self.request("POST", path, data=data, headers=headers)

    def request(
        self, method: str, path: str, *, data: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Answered:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return Answered(response.status, response.read())
        except urllib.error.HTTPError as error:
            return Answered(error.code, error.read())
        except OSError:
            return Answered(0)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: Any) -> None:
        self.kill()
        for other in self.others:
            kill_group(other)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
