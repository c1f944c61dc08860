from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict

import pytest
from sqlalchemy import select

from app.inbox import claim, drain
from app.inbox.accept import accept
from app.inbox.base import Verdict
from app.inbox.models import Delivery
from app.inbox.reasons import Reason
from app.infra.db import reading
from tests.fakes import events

WORKERS = 4
ROOMS = 3
A_ROOM = 5
# Every moment between two steps of a worker at which it can die: kill -9, a paused machine, a lost disk.
POINTS = ("take_lane", "next_delivery", "running", "finish", "give_back", "release")


class World:
    """Workers in threads over one database. At a failpoint a worker may stop: for ever, or until long after it was
    taken for dead; then it goes on as if nothing had happened."""

    def __init__(self, app, registration, time, *, seed, raising):
        self.app, self.registration, self.time = app, registration, time
        self.random = random.Random(seed)
        self.raising = raising
        self.lock = threading.Lock()
        self.finished = []
        self.raised = set()
        self.sleepers = []
        self.threads = []
        self.crashes = 0
        self.over = False
        self.errors = []
        self.fenced = True

    def chance(self, probability):
        with self.lock:
            return not self.over and self.random.random() < probability

    def point(self):
        """Where a worker may stop between two steps. No transaction is open here."""
        if threading.current_thread() is threading.main_thread() or not self.chance(0.08):
            return
        wake = threading.Event()
        with self.lock:
            self.crashes += 1
            self.sleepers.append(wake)
            self.time.pass_(claim.LEASE.total_seconds() + 1)
        wake.wait(60)

    def watched(self, name, step):
        def run(*args, **named):
            self.point()
            result = step(*args, **named)
            if name == "finish" and result:
                with reading() as session:
                    found = session.get(Delivery, args[0].id)
                # Whoever closes a row is the last who claimed it: nobody else works on it meanwhile.
                self.fenced &= found.attempts == args[0].attempts
                with self.lock:
                    self.finished.append((args[0].id, args[1]))
            self.point()
            return result

        return run

    def handle(self, delivery, *, renew):
        if not claim.running(delivery):
            return Verdict("done", Reason.ANSWERED)  # refused by the fence whatever it says
        for _ in range(3):
            self.point()
            renew()
        if self.raising and self.chance(0.2):
            with self.lock:
                self.raised.add(delivery.id)
            raise RuntimeError("the handler failed")
        return Verdict("done", Reason.ANSWERED)

    def apologise(self, delivery):
        self.point()

    def work(self):
        try:
            with self.app.app_context():
                for number in self.random.sample(range(ROOMS), ROOMS):
                    instance_id = self.registration.instance_id
                    drain.run(instance_id, f"room{number}", handle=self.handle, apologise=self.apologise)
        except Exception as error:
            self.errors.append(error)

    def start(self):
        thread = threading.Thread(target=self.work, daemon=True)
        thread.start()
        self.threads.append(thread)

    def awake(self):
        with self.lock:
            asleep = len([sleeper for sleeper in self.sleepers if not sleeper.is_set()])
        return len([thread for thread in self.threads if thread.is_alive()]) - asleep

    def open(self):
        ended = ("done", "ignored", "dead", "unknown")
        with reading() as session:
            return len(session.scalars(select(Delivery.id).where(Delivery.state.not_in(ended))).all())

    def go(self):
        for _ in range(2000):
            if not self.open():
                break
            while self.awake() < WORKERS:
                self.start()
            if self.chance(0.2):
                self.time.pass_(1)
            if self.chance(0.1) and self.sleepers:
                self.random.choice(self.sleepers).set()  # one that was taken for dead goes on
            drain.recover()
            threading.Event().wait(0.002)
        self.end()

    def end(self):
        with self.lock:
            self.over = True
        for sleeper in self.sleepers:
            sleeper.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


def live(app, registration, time, monkeypatch, *, seed, raising):
    ids = defaultdict(list)
    for number in range(ROOMS * A_ROOM):
        room = f"room{number % ROOMS}"
        ids[room].append(accept(registration, random=f"{number}", body=b"{}", event=events.message(room)))
    world = World(app, registration, time, seed=seed, raising=raising)
    for name in POINTS:
        monkeypatch.setattr(claim, name, world.watched(name, getattr(claim, name)))
    world.go()
    assert not world.errors
    assert world.crashes
    assert world.fenced
    counts = Counter(delivery_id for delivery_id, _ in world.finished)
    assert set(counts) == {delivery_id for room in ids.values() for delivery_id in room}
    assert set(counts.values()) == {1}
    with reading() as session:
        states = dict(session.execute(select(Delivery.id, Delivery.state)).all())
    assert states == dict(world.finished)
    for room in ids.values():
        ended = [delivery_id for delivery_id, _ in world.finished if delivery_id in room]
        in_order = [delivery_id for delivery_id in ended if delivery_id not in world.raised]
        assert in_order == sorted(in_order)
    assert claim.orphaned() == []


@pytest.mark.parametrize("seed", range(6))
def test_whatever_dies_when_every_delivery_ends_once_and_in_order(app, registration, time, monkeypatch, seed):
    live(app, registration, time, monkeypatch, seed=seed, raising=False)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_dies_and_fails_every_delivery_ends_once(app, registration, time, monkeypatch, seed):
    live(app, registration, time, monkeypatch, seed=1000 + seed, raising=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_whatever_dies_two_hundred_times(app, registration, time, monkeypatch, seed):
    live(app, registration, time, monkeypatch, seed=5000 + seed, raising=seed % 2 == 0)


def test_whatever_dies_on_every_database(any_app, time, monkeypatch):
    live(any_app, events.registration(), time, monkeypatch, seed=7, raising=True)


def test_rows_put_in_while_workers_look_are_never_left_behind(any_app):
    """No sweep, no dying: each row's own wake-up and the look after each release must be enough."""
    registration = events.registration()
    handled = []

    def handle(delivery, *, renew):
        handled.append(delivery.id)
        return Verdict("done", Reason.ANSWERED)

    def one(thread):
        with any_app.app_context():
            for number in range(12):
                random_header = f"{thread}-{number}"
                accept(registration, random=random_header, body=b"{}", event=events.message("room"))
                drain.run(registration.instance_id, "room", handle=handle, apologise=handle)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with reading() as session:
        states = session.scalars(select(Delivery.state)).all()
    assert Counter(states) == {"done": 96}
    assert len(handled) == len(set(handled)) == 96
