"""Area d: every case of tests/cases/d_talk.jsonl through the real HTTP route, a fake Talk server and a scripted model."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.bots import access
from app.bots.models import Bot
from app.infra import clock
from app.infra.db import reading, transaction
from app.platforms import registrations, registry
from app.platforms.base import IncomingEvent
from app.rooms import modes
from app.rooms.models import Answer, Part
from app.rooms.neutral import digest
from tests.conftest import Sent
from tests.fakes.asserter import Asserter, Check
from tests.fakes.house import ROOM, House, built
from tests.fakes.model_server import Reply, completion, fitting
from tests.fakes.talk_server import Fault, Post
from tests.rooms.conftest import Clock, time_machine  # noqa: F401

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "cases" / "d_talk.jsonl").read_text("utf-8").splitlines()
]
BACKEND_HOST = "cloud.example.test"
UNTOLD = ("told_denied", "told_unsure", "denied", "outsider")
# Which person an action is done as is not seen from outside: no tool acts for anybody yet.
BLIND = {"acts_as_user"}
FILE = re.compile(r"\[File: (?P<name>.+), (?P<mimetype>[^,]+), [^,]+, id (?P<id>\S+)\]")
asserter = Asserter("d")


@dataclass
class Observed:
    """What a case left behind, read when it is over."""

    house: House
    case: Mapping[str, Any]
    statuses: list[int] = field(default_factory=list)
    ack_seconds: list[float] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    @property
    def posts(self) -> list[Post]:
        return self.house.talk.posts

    @property
    def user_texts(self) -> list[str]:
        """The newest user message of each request to the model."""
        chats = self.house.model.chats
        return [[m["content"] for m in chat.body["messages"] if m["role"] == "user"][-1] for chat in chats]

    @property
    def contexts(self) -> list[str]:
        return [json.dumps(chat.body["messages"], ensure_ascii=False) for chat in self.house.model.chats]

    def answers(self, *, with_denied: bool = False) -> list[tuple[str, list[str]]]:
        """The bots that were addressed and answered, in order, each with what stands in the room of it."""
        query = select(Answer, Bot.mention_name).join(Bot, Bot.id == Answer.bot_id).where(Answer.delivery_id > 0)
        with reading() as session:
            rows = session.execute(query.order_by(Answer.delivery_id, Answer.position)).all()
            parts = session.scalars(select(Part).order_by(Part.answer_id, Part.sequence)).all()
        stood = {post.reference_id: post.text for post in self.posts}
        found = []
        for answer, name in rows:
            mine = [part.reference_id for part in parts if part.answer_id == answer.id]
            if with_denied or answer.reason not in UNTOLD:
                found.append((name, [stood[reference] for reference in mine if reference in stood]))
        return found

    def event(self) -> IncomingEvent:
        return registry.get("nextcloud_talk").parse(self.case["requests"][0]["body"].encode())


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every host that somebody tries to reach; only this machine is reached."""
    tried: set[str] = set()
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def resolving(host: Any, *rest: Any, **more: Any) -> Any:
        if str(host) != "127.0.0.1":
            tried.add(str(host))
            raise socket.gaierror("no names are resolved in a test")
        return resolve(host, *rest, **more)

    def connecting(this: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] != "127.0.0.1":
            tried.add(str(address[0]))
            raise ConnectionRefusedError("nobody is reached in a test")
        connect(this, address)

    monkeypatch.setattr(socket, "getaddrinfo", resolving)
    monkeypatch.setattr(socket.socket, "connect", connecting)
    return tried


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any], app: Flask, sent: Sent, hosts: set[str], time_machine: Clock) -> None:  # noqa: F811
    given = case["input"]
    with built(
        app, sent, secret=given["secret"], webhook_url=given.get("webhook_url"), backend=given["backend"]
    ) as house:
        _furnish(house, given)
        observed = Observed(house, given, hosts=hosts)
        _play(observed, given, time_machine)
        asserter.compare(case["id"], case["expect"], _checks(observed, time_machine), blind=BLIND)


def test_what_was_not_observed_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\n" + asserter.summary())


def _furnish(house: House, given: Mapping[str, Any]) -> None:
    for name in given["bots"]:
        house.bot(name)
    if given["room_mode"] == "always":
        first = house.bots[given["bots"][0]]
        modes.choose(house.instance.id, ROOM, bot_id=first.id, mode="always")
    if given.get("service_user"):
        house.change_instance(service_uid=given["service_user"])
    for number, part in enumerate(given.get("sent", ()), start=1):
        _was_sent(house, house.bots[part["bot"]], part["text"], number)
    _script(house, given)
    for status in _listed(given.get("post_status")):
        house.talk.fail(Fault(status, of="message"))


def _was_sent(house: House, bot: Bot, text: str, number: int) -> None:
    answer = Answer(delivery_id=-number, bot_id=bot.id, position=0, state="done", attempts=1, created_at=clock.now())
    with transaction() as session:
        session.add(answer)
        session.flush()
        session.add(
            Part(
                answer_id=answer.id,
                sequence=0,
                registration_id=house.registration.id,
                instance_id=house.instance.id,
                room=ROOM,
                bot_id=bot.id,
                text=text,
                text_digest=digest(text),
                reference_id=f"{number:064}",
                state="sent",
                created_at=clock.now(),
            )
        )


def _script(house: House, given: Mapping[str, Any]) -> None:
    text = _answer(given)
    delay = float(given.get("model_delay_s", 0))
    if given.get("provider_down"):
        house.model.close()
        return
    house.model.answer(lambda asked: _delayed(fitting(asked, completion(text)), delay))


def _delayed(reply: Reply, seconds: float) -> Reply:
    return Reply(reply.status, reply.headers, reply.body, reply.json, delay_headers=seconds)


def _answer(given: Mapping[str, Any]) -> str:
    answer = given.get("model_answer") or {"parts": ["ok"]}
    if "repeat" in answer:
        return str(answer["repeat"][0]) * int(answer["repeat"][1])
    return "".join(part if isinstance(part, str) else part["repeat"][0] * part["repeat"][1] for part in answer["parts"])


def _play(observed: Observed, given: Mapping[str, Any], machine: Clock) -> None:
    house = observed.house

    def post(request: Mapping[str, Any]) -> None:
        begun = time.monotonic()
        path = f"/webhook/talk/{house.registration.key}"
        with house.app.app_context():
            answer = house.app.test_client().post(
                path, data=request["body"].encode(), headers=[(k, _latin(v)) for k, v in request["headers"].items()]
            )
        observed.ack_seconds.append(time.monotonic() - begun)
        observed.statuses.append(answer.status_code)

    if given.get("parallel"):
        threads = [threading.Thread(target=post, args=(request,)) for request in given["requests"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for number, request in enumerate(given["requests"]):
            if number and given.get("second_request_after_s"):
                house.work()
                machine.pass_(float(given["second_request_after_s"]))
            post(request)
    house.work()
    _an_hour(house, machine)


def _an_hour(house: House, machine: Clock) -> None:
    """What is due within an hour is done."""
    for _ in range(12):
        if not house.sent:
            return
        machine.pass_(300)
        house.work_later()


def _latin(value: str) -> str:
    return value.encode("utf-8").decode("latin-1")


def _listed(value: Any) -> list[int]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _checks(seen: Observed, machine: Clock) -> Mapping[str, Check]:
    house = seen.house

    def every(texts: list[str], wanted: list[str], *, present: bool) -> None:
        assert texts or not present
        for text in texts:
            for piece in wanted:
                assert (piece in text) is present, (piece, text)

    def http_status(wanted: list[int]) -> None:
        assert all(status in wanted for status in seen.statuses), seen.statuses

    def triggered(wanted: list[str]) -> None:
        assert [name for name, _ in seen.answers()] == wanted
        assert all(texts for _, texts in seen.answers())

    def attachments(wanted: list[dict[str, str]]) -> None:
        found = [match.groupdict() for text in seen.user_texts for match in FILE.finditer(text)]
        for one in wanted:
            assert any(one.items() <= each.items() for each in found), (one, seen.user_texts)

    def actor(wanted: dict[str, str]) -> None:
        assert house.last().actor == f"{wanted['kind']}/{wanted['id']}"

    def personal_bot_allowed(wanted: bool) -> None:
        author = seen.event().actor
        bot = house.bot("personal", scope="personal", owner=author.id)
        assert access.may_use(bot, author, house.instance.id).allowed is wanted

    def in_reply_to(wanted: int) -> None:
        parent = seen.event().parent
        assert parent is not None
        assert parent.message_id == wanted

    def name_prefix(wanted: bool) -> None:
        for name, texts in seen.answers():
            assert texts[0].startswith(f"**{name}:** ") is wanted, texts[0][:80]

    def state(wanted: str | list[str]) -> None:
        assert house.last().state in ([wanted] if isinstance(wanted, str) else wanted)

    def wait_after_401(wanted: float) -> None:
        posts = [one for one in house.talk.requests if one.kind == "message"]
        refused = [one.at for one in posts if one.status == 401]
        assert refused
        # The breaker keeps the next one back; the fake's clock is the real one, ours has moved.
        assert registrations.get(house.registration.id).blocked_until is not None
        assert machine.ahead >= wanted or len(posts) == len(refused)

    def joined(wanted: bool) -> None:
        def squeezed(text: str) -> str:
            return "".join(text.split())

        assert (squeezed("".join(house.talk.texts)) == squeezed(_answer(seen.case))) is wanted

    def fences_balanced(wanted: bool) -> None:
        for text in house.talk.texts:
            assert (sum(line.startswith("```") for line in text.splitlines()) % 2 == 0) is wanted

    def in_order(wanted: list[str]) -> None:
        text, at = "\n".join(house.talk.texts), 0
        for piece in wanted:
            at = text.index(piece, at) + len(piece)

    def first_tool(wanted: str | None) -> None:
        choices = [chat.body.get("tool_choice") for chat in house.model.chats]
        names = [choice["function"]["name"] if isinstance(choice, dict) else None for choice in choices]
        assert names[0] == wanted
        assert not any(names[1:])

    def outbound_hosts(wanted: list[str]) -> None:
        reached = {BACKEND_HOST} if house.talk.requests else set()
        assert seen.hosts | reached <= set(wanted), seen.hosts

    def outbound_paths(wanted: str) -> None:
        assert all(re.search(wanted, one.path) for one in house.talk.requests)

    def posts(wanted: list[dict[str, Any]]) -> None:
        messages = [one for one in house.talk.requests if one.kind == "message"]
        for one, each in zip(messages, wanted, strict=True):
            _check_post(one, each)

    def reply_absent(wanted: list[str]) -> None:
        every(house.talk.texts, wanted, present=False)

    def no_crash(wanted: bool) -> None:
        assert wanted
        assert all(status < 500 for status in seen.statuses)
        assert all(row.state in ("done", "ignored") for row in house.deliveries())

    replies = sum(bool(texts) for _, texts in seen.answers(with_denied=True))
    count = len(house.talk.posts)
    return {
        "http_status": http_status,
        "triggered": triggered,
        "clean_contains": lambda wanted: every(seen.user_texts, wanted, present=True),
        "clean_absent": lambda wanted: every(seen.user_texts, wanted, present=False),
        "attachments": attachments,
        "actor": actor,
        "personal_bot_allowed": personal_bot_allowed,
        "in_reply_to": in_reply_to,
        "context_contains": lambda wanted: every(seen.contexts, wanted, present=True),
        "user_words_absent": lambda wanted: every(seen.user_texts, wanted, present=False),
        "llm_calls": lambda wanted: _same(len(house.model.chats), wanted),
        "llm_calls_max": lambda wanted: _most(len(house.model.chats), wanted),
        "replies": lambda wanted: _same(replies, wanted),
        "replies_max": lambda wanted: _most(replies, wanted),
        "posts_min": lambda wanted: _most(wanted, count),
        "posts_max": lambda wanted: _most(count, wanted),
        "posts": posts,
        "name_prefix": name_prefix,
        "state": state,
        "wait_after_401_min_s": wait_after_401,
        "each_post_max_chars": lambda wanted: _most(max(map(len, house.talk.texts)), wanted),
        "joined_equals_answer": joined,
        "fences_balanced_in_each_post": fences_balanced,
        "contains_in_order": in_order,
        "no_empty_post": lambda wanted: _same(all(text.strip() for text in house.talk.texts), wanted),
        "ack_max_s": lambda wanted: _most(max(seen.ack_seconds), wanted),
        "first_step_tool_choice": first_tool,
        "outbound_hosts_subset_of": outbound_hosts,
        "outbound_paths_regex": outbound_paths,
        "reply_absent": reply_absent,
        "no_crash": no_crash,
    }


def _check_post(one: Any, wanted: Mapping[str, Any]) -> None:
    headers = {name.lower(): value for name, value in one.headers.items()}
    for key, value in wanted.items():
        if key == "path":
            assert one.path == value
        elif key == "headers_present":
            assert all(name.lower() in headers for name in value)
        elif key == "header_equals":
            assert all(headers.get(name.lower()) == text for name, text in value.items())
        elif key == "random_min_chars":
            assert len(headers["x-nextcloud-talk-bot-random"]) >= value
        elif key == "signature_over":
            # The fake recomputes the HMAC over random + message and answers 401 where it differs.
            assert value == "random+message"
            assert one.status == 201
        elif key == "success_status":
            assert one.status == value
        else:
            raise AssertionError(f"nobody knows posts[].{key}")


def _same(found: Any, wanted: Any) -> None:
    assert found == wanted


def _most(found: float, most: float) -> None:
    assert found <= most
