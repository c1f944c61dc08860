"""Brokers for tests on real servers: a place of our own, emptied before and after. A missing server skips the test, or
fails it where PARLEY_REQUIRE_SERVICES is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kombu import Connection

from app.infra import jobs

REDIS = os.environ.get("PARLEY_TEST_REDIS", "redis://127.0.0.1:6379")
RABBITMQ = os.environ.get("PARLEY_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672//")
# Databases of Redis that are ours: one a worker of pytest-xdist, so that they don't empty each other's.
FIRST_REDIS_DATABASE = 10
BROKERS = ("redis", "rabbitmq")
PARAMS = [pytest.param(kind, marks=pytest.mark.services, id=kind) for kind in BROKERS]


@contextmanager
def broker(kind: str) -> Iterator[str]:
    """The address of an empty broker of this kind."""
    url = f"{REDIS}/{FIRST_REDIS_DATABASE + worker_number()}" if kind == "redis" else RABBITMQ
    empty(kind, url)
    try:
        yield url
    finally:
        empty(kind, url)


def empty(kind: str, url: str) -> None:
    try:
        with Connection(url, transport_options={"max_retries": 1, "interval_start": 0}, connect_timeout=3) as opened:
            opened.ensure_connection(max_retries=1, interval_start=0, timeout=3)
            channel: Any = opened.default_channel
            if kind == "redis":
                channel.client.flushdb()
            else:
                for queue in (jobs.TURNS, jobs.WORK):
                    channel.queue_delete(queue)
    except Exception as error:
        missing(kind, error)


def missing(server: str, error: Exception) -> None:
    message = f"{server} does not answer on this machine: {error}"
    if os.environ.get("PARLEY_REQUIRE_SERVICES"):
        pytest.fail(message)
    pytest.skip(message)


def worker_number() -> int:
    """0 for the only process of a test run, else the number of this worker of pytest-xdist."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 5
