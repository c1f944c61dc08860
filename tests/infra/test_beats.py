"""Several processes over one database, each with a beat: whatever is periodic runs once a slot."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app import config as configuration
from app.operate import migrations
from tests.fakes import databases, services
from tests.fakes.processes import environment
from tests.fakes.running import ROOT, kill_group
from tests.infra import beating

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
PROCESSES = 3
SECONDS = 9.0
REDIS = pytest.param(("postgresql", "redis"), marks=pytest.mark.services, id="redis")
WITHOUT = [pytest.param((kind.values[0], ""), marks=kind.marks, id=kind.id) for kind in databases.PARAMS]


@pytest.fixture(params=[*WITHOUT, REDIS])
def values(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of an installation on each database, and on Redis: there every worker hears every beat."""
    database, broker = request.param
    with ExitStack() as stack:
        found = {
            "PARLEY_SECRET_KEY": "a-secret-key-for-tests-only",
            "PARLEY_DATABASE_URL": stack.enter_context(databases.fresh(database, tmp_path)),
        }
        if broker:
            found["PARLEY_BROKER_URL"] = stack.enter_context(services.broker(broker))
        (tmp_path / "var").mkdir()
        migrations.upgrade(configuration.load({"PARLEY_DATA_DIR": str(tmp_path / "var"), **found}))
        yield found


def test_each_periodic_work_runs_once_a_slot(values: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "ran.txt"
    with ExitStack() as stack:
        started = [beats(tmp_path, file, values, stack) for _ in range(PROCESSES)]
        time.sleep(SECONDS)
        assert [process.poll() for process in started] == [None] * PROCESSES
    ran = [line.split() for line in file.read_text().splitlines()]
    twice = [slot for slot, count in Counter((name, slot) for name, slot, _ in ran).items() if count > 1]
    assert not twice
    slots = defaultdict(set)
    for name, slot, _ in ran:
        slots[name].add(int(slot))
    assert len(slots["test.second"]) >= SECONDS / 2
    assert {"jobs.sweep", "inbox.sweep", "inbox.blank", "rooms.forget", *beating.EVERY} <= set(slots)
    assert len(slots["inbox.sweep"]) > 1
    assert len({process for *_, process in ran}) > 1


def beats(folder: Path, file: Path, values: dict[str, str], stack: ExitStack) -> subprocess.Popen[bytes]:
    """A process that beats already."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.infra.beating", str(file)],
        cwd=ROOT,
        env=environment(folder / "var", values),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    stack.callback(kill_group, process)
    assert process.stdout is not None
    stack.callback(process.stdout.close)
    assert process.stdout.readline() == b"beats\n"
    return process
