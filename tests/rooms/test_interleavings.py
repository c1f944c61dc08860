"""Whole turns while workers die, sleep and come back, webhooks come again, and replies of model and Talk come late or never.

Every seed is a plan (plans.py). A plan that fails is printed; it is run again by its number and mode alone, as in
pytest "tests/rooms/test_interleavings.py::test_two_hundred_times[17-with]".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.accounts import serviceuser
from app.conversations.models import RoomMessage
from app.inbox import claim
from app.inbox.models import Delivery, Lane
from app.infra import clock, jobs
from app.infra.db import reading
from app.platforms import registry
from app.rooms.models import Answer, Part
from app.settings import store
from tests.conftest import Sent
from tests.fakes.house import SECRET, built
from tests.rooms import failpoints, plans
from tests.rooms.conftest import Clock
from tests.rooms.plans import BOTS, ROOMS, Asked, Plan
from tests.rooms.world import Cloud, World, words

# A tenth of the seeds in every run, in turns with a service user and without; all of them both ways in a long one.
QUICK, ALL = 22, 220
MODES = ("with", "without")
# Short messages, so that an answer has many parts.
LONGEST_PART = 2500


@pytest.fixture
def live(
    app: Flask, sent: Sent, time_machine: Clock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Plan, str], World]]:
    """Lives through a plan, with a service user or without."""
    yield from living(app, sent, time_machine, monkeypatch)


def living(
    app: Flask, sent: Sent, time_machine: Clock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Plan, str], World]]:
    monkeypatch.setattr(type(registry.get("nextcloud_talk")), "max_message", LONGEST_PART)

    def run(plan: Plan, mode: str) -> World:
        def server(secret: str) -> Cloud:
            tells = {"longest": plan.longest, "plan": plan, "eyes": mode == "with"}
            return Cloud(secret, clock=lambda: clock.now().timestamp(), **tells)

        with built(app, sent, secret=SECRET, server=server) as house, monkeypatch.context() as patch:
            cloud = house.talk
            assert isinstance(cloud, Cloud)
            cloud.user("parley", "an-app-password")
            for room in ROOMS:
                cloud.conversation(room, users=["mira", "parley"])
            if mode == "with":
                serviceuser.give(house.instance.id, "parley", "an-app-password")
            for bot in BOTS:
                house.bot(bot)
            for name, value in {"turns_per_person_minute": 9999, "turns_per_room_minute": 9999}.items():
                store.set(name, value)
            store.set("heard_reaction", "off")
            world = World(house, cloud, plan, time_machine)
            house.model.answer(world.answer)
            failpoints.install(world.cross, patch.setattr)
            stop = world.refuse_the_dead()
            try:
                world.go()
            finally:
                stop()
            return world

    yield run


def lived(run: Callable[[Plan, str], World], seed: int, mode: str) -> None:
    plan = plans.plan(seed)
    print(f"seed {seed}, {mode} a service user:\n{plan}")
    world = run(plan, mode)
    print("happened:", *world.happened, sep="\n  ")
    check(world, told=mode == "with")


@pytest.mark.parametrize(("seed", "mode"), [(seed, MODES[seed % 2]) for seed in range(QUICK)])
def test_every_message_has_one_outcome_whatever_happens(live: Callable[..., World], seed: int, mode: str) -> None:
    lived(live, seed, mode)


@pytest.mark.parametrize("seed", [8, 17])
def test_every_message_has_one_outcome_on_every_database(
    any_app: Flask, sent: Sent, time_machine: Clock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for run in living(any_app, sent, time_machine, monkeypatch):
        lived(run, seed, "with")


@pytest.mark.parametrize("step", ["claimed", "worker begun", "read"])
def test_a_worker_that_slept_through_it_all_does_not_open_again_what_another_has_closed(
    live: Callable[..., World], step: str
) -> None:
    one = Asked(1501, ROOMS[0], ("atlas",), "short", 5)
    slept = replace(plans.plan(0), messages=(one,), posts={0: "reply lost"}, looks={}, models={}, repeats={1501: 0})
    world = live(replace(slept, actions={(step, 1): "sleeps"}), "without")
    check(world, told=False)
    assert [row.state for row in deliveries()] == ["unknown"]
    assert [part.state for part in all_parts()] == ["unknown"]


def test_no_step_is_left_out(live: Callable[..., World]) -> None:
    two = (Asked(1501, ROOMS[0], ("atlas",), "tool", 5), Asked(1502, ROOMS[0], ("atlas",), "slowly", 200))
    repeats = {1501: 1, 1502: 0}
    calm = replace(
        plans.plan(0), messages=two, actions={}, posts={0: "never stored"}, looks={}, models={}, repeats=repeats
    )
    world = live(calm, "with")
    assert set(world.crossed) == set(failpoints.POINTS)
    check(world, told=True)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(ALL))
def test_two_hundred_times(live: Callable[..., World], seed: int, mode: str) -> None:
    lived(live, seed, mode)


def check(world: World, *, told: bool) -> None:
    """What must hold at the end; `told` where a service user can look."""
    rows = deliveries()
    assert [row.object_id for row in rows] == [str(asked.id) for asked in said_in_order(world, rows)]
    assert len(rows) == len(world.plan.messages)
    references = Counter(post.reference_id for post in world.cloud.posts)
    assert not [reference for reference, count in references.items() if count > 1], "a message stands twice"
    assert set(references) <= {part.reference_id for part in all_parts()}, "a message stands that nobody wrote"
    for row in rows:
        asked = next(each for each in world.plan.messages if str(each.id) == row.object_id)
        found = answers(row)
        assert [bot_name(world, answer) for answer, _ in found] == list(asked.bots)
        lost = [each for _, its_parts in found for each in its_parts if each.reference_id in world.ambiguous]
        if told or not lost:
            assert (row.state, {answer.state for answer, _ in found}) == ("done", {"done"}), row.detail
        else:
            assert row.state in ("done", "unknown")
        for answer, its_parts in found:
            check_answer(world, asked, answer, its_parts, told=told)
    assert not world.late, "the model was asked again after a part of its answer was sent"
    assert nothing_is_left_over()


def check_answer(world: World, asked: Asked, answer: Answer, its_parts: list[Part], *, told: bool) -> None:
    assert its_parts, "silence"
    assert [part.sequence for part in its_parts] == list(range(len(its_parts)))
    stands = {post.reference_id: post for post in world.cloud.posts}
    for part in its_parts:
        if told or part.reference_id not in world.ambiguous:
            assert part.state == "sent"
        assert part.state in ("sent", "unknown")
        assert part.reference_id in stands or part.state == "unknown"
    posts = [stands[part.reference_id] for part in its_parts if part.reference_id in stands]
    if told:
        assert [post.id for post in posts] == sorted(post.id for post in posts), "the parts stand in another order"
    replies = [part.reply_to for part in its_parts]
    assert replies == [None if was_told_to_wait(answer) else asked.id, *[None] * (len(replies) - 1)]
    check_text(world, asked, answer, its_parts)


def check_text(world: World, asked: Asked, answer: Answer, its_parts: list[Part]) -> None:
    """The parts together are what the model said in one run, whole where it is not called incomplete, or our own words."""
    name = bot_name(world, answer)
    together = " ".join(part.text for part in its_parts).split()
    from_the_model = [word for word in together if word.startswith(f"{asked.key}.{name}.")]
    assert not [word for word in together if word[:1] == "q" and word not in from_the_model], "another answer's words"
    if not from_the_model:
        assert answer.reason in ("told_error", "reply_lost")
        return
    run = int(from_the_model[0].split(".")[2])
    whole = words(asked, name, run).split()
    assert from_the_model == whole[: len(from_the_model)]
    assert answer.reason in ("answered", "answered_incomplete", "told_interrupted", "reply_lost")
    assert len(from_the_model) == len(whole) or answer.reason != "answered"
    remembered = memory(answer)
    assert [row.role for row in remembered] == ["user", "assistant"]
    assert remembered[1].text.split() == from_the_model


def was_told_to_wait(answer: Answer) -> bool:
    """Whether a notice is the reply, and the answer follows it."""
    with reading() as session:
        mine = select(Part.id).where(Part.answer_id == answer.id, Part.kind == "thinking")
        return session.scalar(mine) is not None


def said_in_order(world: World, rows: list[Delivery]) -> list[Asked]:
    """The messages in the order in which they were stored."""
    order = [row.object_id for row in rows]
    return sorted(world.plan.messages, key=lambda asked: order.index(str(asked.id)))


def bot_name(world: World, answer: Answer) -> str:
    return next(name for name, bot in world.house.bots.items() if bot.id == answer.bot_id)


def deliveries() -> list[Delivery]:
    with reading() as session:
        return list(session.scalars(select(Delivery).order_by(Delivery.id)))


def all_parts() -> list[Part]:
    with reading() as session:
        return list(session.scalars(select(Part)))


def answers(row: Delivery) -> list[tuple[Answer, list[Part]]]:
    """What a delivery was owed, in order, and the parts of it, notices left out."""
    with reading() as session:
        owed = session.scalars(select(Answer).where(Answer.delivery_id == row.id).order_by(Answer.position)).all()
        mine = select(Part).where(Part.kind == "answer").order_by(Part.sequence)
        return [(answer, list(session.scalars(mine.where(Part.answer_id == answer.id)))) for answer in owed]


def memory(answer: Answer) -> list[Any]:
    mine = select(RoomMessage).where(RoomMessage.delivery_id == answer.delivery_id)
    with reading() as session:
        return list(session.scalars(mine.where(RoomMessage.bot_id == answer.bot_id).order_by(RoomMessage.id)))


def nothing_is_left_over() -> bool:
    with reading() as session:
        held = session.scalars(select(Lane).where(Lane.holder.is_not(None), Lane.lease_until > clock.now())).all()
        waiting = session.scalars(select(jobs.QueuedJob)).all()
    return not held and not waiting and claim.orphaned() == []
