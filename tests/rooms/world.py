"""One installation in one thread, whose workers die, sleep and come back as a plan says.

A worker that died does nothing any more: neither what its `finally` blocks would do, nor anything in the database. One
that sleeps is taken for dead: another one works everything off meanwhile, and then it goes on as if nothing had happened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import event, select

from app.inbox import claim
from app.inbox.models import Delivery
from app.infra import clock
from app.infra.db import db, in_transaction, reading
from app.infra.jobs import jobs
from tests.fakes.house import House, message, php_json, signed
from tests.fakes.model_server import Asked as Request
from tests.fakes.model_server import Reply, chunk, completion, fitting, sse, tool_call
from tests.fakes.nextcloud import Nextcloud
from tests.fakes.talk_server import Fault
from tests.rooms import failpoints
from tests.rooms.conftest import Clock
from tests.rooms.plans import AMBIGUOUS, AT_THE_DOOR, LOOK_FAULTS, ONLY_WITH_EYES, POST_FAULTS, Asked, Plan

ROUNDS = 400
TAKEN_FOR_DEAD = claim.LEASE.total_seconds() + 1
# One attempt must be left: whoever is killed at every attempt gets an apology, which is another test.
MOST_ATTEMPTS = 2
CHUNK_SECONDS = 1.5
PIECES = 8


class Death(BaseException):
    """kill -9, as far as one thread can have it."""


@dataclass
class Worker:
    """Who works now: the delivery that it has claimed, the part that it is sending.

    `unaware`: it slept right after it had made sure that it may ask the model. Nothing can keep it from asking; what it
    hears it may not say.
    """

    dead: bool = False
    unaware: bool = False
    delivery: int | None = None
    part: str | None = None


@dataclass
class Cloud(Nextcloud):
    """A Nextcloud whose nth post and nth look meet what the plan says; `fault` is what the last post met."""

    plan: Plan | None = None
    eyes: bool = True
    fault: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.counts: Counter[str] = Counter()

    def _take(self, kind: str) -> Fault | None:
        with self.lock:
            number = self.counts[kind]
            self.counts[kind] += 1
        assert self.plan is not None
        if kind == "message":
            self.fault = self.plan.posts.get(number, "")
            if self.fault in ONLY_WITH_EYES and not self.eyes:
                self.fault = "504 of a proxy"
            return POST_FAULTS.get(self.fault)
        if kind == "other":
            return LOOK_FAULTS.get(self.plan.looks.get(number, ""))
        return None


@dataclass
class World:
    """See the module. `ambiguous` are the references of parts of which a worker without eyes can't know whether they stand;
    `asking` are the turns that asked the model for (delivery, bot), `late` those that did so for the first time when a part
    of the answer had been posted."""

    house: House
    cloud: Cloud
    plan: Plan
    time: Clock
    workers: list[Worker] = field(default_factory=list)
    crossed: Counter[str] = field(default_factory=Counter)
    interrupted: Counter[int] = field(default_factory=Counter)
    ambiguous: set[str] = field(default_factory=set)
    asking: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    posted: set[tuple[int, int]] = field(default_factory=set)
    late: list[tuple[int, int]] = field(default_factory=list)
    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    asked: int = 0
    happened: list[str] = field(default_factory=list)

    def go(self) -> None:
        """Everybody says what they have to say, and the workers work until everything has ended."""
        for asked in self.plan.messages:
            self.hear(asked)
            if asked.id in self.plan.works_between:
                self.work()
        for _ in range(ROUNDS):
            self.work()
            if self.ended():
                break
            self.pass_on()
        # What was held back stands by now; what was queued for nothing is worked off.
        self.time.pass_(120)
        self.pass_on()
        self.work()
        self.cloud.let_in()

    def hear(self, asked: Asked) -> None:
        """A webhook, and again as often as the plan says, and once more where the door died before it had the message."""
        for _ in range(1 + self.plan.repeats[asked.id]):
            self.post(asked)
        while not self.stored(asked):
            self.post(asked)

    def post(self, asked: Asked) -> None:
        body = php_json(message(asked.text, id=asked.id, room=asked.room))
        with self.worker():
            path = f"/webhook/talk/{self.house.registration.key}"
            headers = signed(body, self.house.talk.secrets[0])
            assert self.house.client.post(path, data=body, headers=headers).status_code == 200

    def stored(self, asked: Asked) -> bool:
        with reading() as session:
            return session.scalar(select(Delivery.id).where(Delivery.object_id == str(asked.id))) is not None

    def work(self) -> None:
        """A worker takes the jobs that are queued; when it dies, another one comes."""
        while self.house.sent:
            name, args, _ = self.house.sent.pop(0)
            self.run(name, *args)

    def run(self, name: str, *args: Any) -> None:
        with self.worker(), self.house.app.app_context():
            jobs.tasks[name].run(*args)

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A process of its own for what is done here."""
        self.workers.append(Worker())
        try:
            yield
        except Death:
            self.time.pass_(TAKEN_FOR_DEAD)
            if self.plan.loses_jobs:
                self.house.sent.clear()
        except Exception as error:
            self.happened.append(f"a job failed: {error!r}")
        finally:
            self.workers.pop()

    def pass_on(self) -> None:
        """Time passes until something is due, and the sweeps come."""
        with reading() as session:
            rows = session.execute(select(Delivery.state, Delivery.due_at)).all()
        waits = [due - clock.now() for state, due in rows if state == "queued"]
        if any(state in claim.UNFINISHED for state, _ in rows):
            waits.append(timedelta(seconds=TAKEN_FOR_DEAD))
        self.time.pass_(max(min(waits).total_seconds(), 0.0) + 2.5 if waits else 2.5)
        for sweep in ("inbox.sweep", "jobs.sweep"):
            self.run(sweep)

    def ended(self) -> bool:
        with reading() as session:
            states = session.scalars(select(Delivery.state)).all()
        return all(state not in ("queued", *claim.UNFINISHED) for state in states)

    def cross(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """A step: what is known of it is noted, then what the plan says happens."""
        if not self.workers or name in failpoints.ASIDE:
            return
        worker = self.workers[-1]
        if worker.dead:
            raise Death
        self.note(worker, name, args, result)
        self.crossed[name] += 1
        action = self.plan.actions.get((name, self.crossed[name]))
        if action is not None and not in_transaction():
            self.act(action, name, worker)

    def note(self, worker: Worker, name: str, args: tuple[Any, ...], result: Any) -> None:
        if name == "claimed":
            worker.delivery = result.id
        elif name in ("closed", "given back"):
            worker.delivery = None
        elif name == "model asked":
            question, turn_id = args[0]._question, args[0]._trace.turn_id
            owner = (question.delivery.id, question.bot.id)
            if owner in self.posted and turn_id not in self.asking[owner] and not worker.unaware:
                self.late.append(owner)
            worker.unaware = False
            self.asking[owner].add(turn_id)
        elif name == "part claimed":
            worker.part = result.reference_id
            if result.kind == "answer":
                self.posted.add((worker.delivery or 0, result.bot_id))
        elif name == "part posted" and self.cloud.fault in AMBIGUOUS:
            self.ambiguous.add(args[0].reference_id)
        elif name == "outcome noted":
            worker.part = None

    def act(self, action: str, name: str, worker: Worker) -> None:
        if action == "repeated":
            self.happened.append(f"repeated at {name}")
            self.post(self.plan.messages[0])
            return
        if worker.delivery is not None:
            if self.interrupted[worker.delivery] >= MOST_ATTEMPTS:
                return
            self.interrupted[worker.delivery] += 1
        if worker.part is not None:
            self.ambiguous.add(worker.part)
        self.happened.append(f"{action} at {name} (delivery {worker.delivery})")
        if action == "dies" or name in AT_THE_DOOR:
            worker.dead = True
            raise Death
        if action == "fails":
            raise RuntimeError(f"a fault at {name}")
        worker.unaware = name == "running"
        self.time.pass_(TAKEN_FOR_DEAD)
        # The first sweep puts back what the sleeping one had in hand, the second one wakes somebody for it.
        for _ in range(2):
            self.pass_on()
        self.work()

    def refuse_the_dead(self) -> Callable[[], None]:
        """No transaction begins for a worker that is dead; gives what ends this."""

        def begun(connection: Any) -> None:
            if self.workers and self.workers[-1].dead:
                raise Death

        event.listen(db.engine, "begin", begun)
        return lambda: event.remove(db.engine, "begin", begun)

    def answer(self, request: Request) -> Reply:
        """What the model says: words that tell question, bot, run and place, as the question's style wants it."""
        number, self.asked = self.asked, self.asked + 1
        texts = [entry["content"] for entry in request.body["messages"] if entry["role"] in ("system", "user")]
        bot = next(bot for bot in self.house.bots if f"You are {bot}." in texts[0])
        asked = next(each for each in self.plan.messages if f"{each.key}?" in texts[-1])
        if asked.style == "tool" and request.body["messages"][-1]["role"] != "tool":
            return fitting(request, completion(None, calls=[tool_call("current_time", {})]))
        fault = self.plan.models.get(number)
        if fault == "500":
            return Reply(500, json={"error": {"message": "out of order"}})
        self.runs[asked.key, bot] += 1
        text = words(asked, bot, self.runs[asked.key, bot])
        if asked.style == "slowly":
            return Reply(headers={"Content-Type": "text/event-stream"}, body=lambda: self.slowly(text))
        reply = fitting(request, completion(text))
        if fault == "cut":
            return Reply(**vars(reply) | {"cut_after": len(reply.body) // 2})  # type: ignore[arg-type]
        return Reply(**vars(reply) | {"delay_headers": 0.05}) if fault == "late" else reply

    def slowly(self, text: str) -> Iterator[bytes]:
        """The text in pieces, between which time passes for everybody."""
        size = len(text) // PIECES + 1
        for start in range(0, len(text), size):
            self.time.pass_(CHUNK_SECONDS)
            yield sse([chunk({"content": text[start : start + size]})], done=False)
        yield sse([chunk(finish_reason="stop")])


def words(asked: Asked, bot: str, run: int) -> str:
    """Every word of an answer tells where it belongs; a paragraph has thirty of them, a sentence ten."""
    made = [f"{asked.key}.{bot}.{run}.{number}{'.' if number % 10 == 9 else ''}" for number in range(asked.words)]
    return "\n\n".join(" ".join(made[start : start + 30]) for start in range(0, len(made), 30))
