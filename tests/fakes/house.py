"""A whole installation for a test: a fake Talk server, a scripted model, bots, and people who write signed messages.

house.bot("atlas")
house.hear("@atlas which berth is free?")       # a signed webhook through the real HTTP route
house.work()                                    # the jobs, as a worker would
house.talk.texts == ["ok"]
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flask import Flask
from sqlalchemy import select, update
from werkzeug.test import TestResponse

from app.accounts import instances, people
from app.accounts.models import Instance
from app.bots import store
from app.bots.models import Bot
from app.inbox.models import Delivery
from app.infra.db import reading, transaction
from app.platforms import registrations
from app.platforms.models import Registration
from app.settings import endpoints
from tests.conftest import Sent
from tests.fakes.model_server import ModelServer
from tests.fakes.talk_server import TalkServer

SECRET = "house-secret-" + "s" * 51
BACKEND = "https://cloud.example.test/"
ROOM = "r00mtok1"
ATTACHMENT_TOOLS = ("attachment_analyze_image", "attachment_transcribe_audio")
numbers = itertools.count(1501)


@dataclass
class House:
    """See the module. `registration` is the shared one; every message is for it unless another is named."""

    app: Flask
    sent: Sent
    talk: TalkServer
    model: ModelServer
    instance: Instance
    registration: Registration
    client: Any = None
    bots: dict[str, Bot] = field(default_factory=dict)

    def bot(self, mention_name: str, **values: Any) -> Bot:
        """An approved bot for everyone, owned by bob."""
        owner = people.ensure(self.instance.id, values.pop("owner", "bob"))
        given = {"name": mention_name, "mention_name": mention_name, "system_prompt": f"You are {mention_name}."}
        given |= {"scope": "global", "tools": list(ATTACHMENT_TOOLS)}
        made = store.create(self.instance.id, owner.id, given | values)
        self.bots[mention_name] = made
        return made

    def hear(self, text: str, **how: Any) -> TestResponse:
        """A person's message as Talk would send it; see `message` for what may be said of it."""
        return self.post(message(text, **how))

    def post(self, body: Mapping[str, Any] | bytes, *, registration: Registration | None = None) -> TestResponse:
        raw = body if isinstance(body, bytes) else php_json(body)
        to = registration or self.registration
        headers = signed(raw, registrations.secret(to))
        return self.client.post(f"/webhook/talk/{to.key}", data=raw, headers=headers)

    def work(self) -> None:
        """Works off every job, in this thread, without waiting for what is due later."""
        later = [job for job in self.sent if job[2] > 0]
        self.sent[:] = [job for job in self.sent if job[2] <= 0]
        while self.sent:
            self.sent.run(self.app, limit=1)
            later += [job for job in self.sent if job[2] > 0]
            self.sent[:] = [job for job in self.sent if job[2] <= 0]
        self.sent.extend(later)

    def work_later(self) -> None:
        """Works off what was to be done later, as if its time had come; the time itself does not move."""
        self.sent[:] = [(name, args, 0.0) for name, args, _ in self.sent]
        self.work()

    def settled(self, *, seconds: float = 30.0) -> Sequence[Delivery]:
        """The deliveries, as soon as a server of its own has ended every one of them."""
        until = time.monotonic() + seconds
        while any(row.state in ("queued", "claimed", "running") for row in self.deliveries()):
            assert time.monotonic() < until, [(row.id, row.state, row.reason, row.detail) for row in self.deliveries()]
            time.sleep(0.05)
        return self.deliveries()

    def deliveries(self) -> Sequence[Delivery]:
        with reading() as session:
            return session.scalars(select(Delivery).order_by(Delivery.id)).all()

    def last(self) -> Delivery:
        return self.deliveries()[-1]

    def asked(self, number: int = -1) -> dict[str, Any]:
        """The body of a request to the model."""
        body: dict[str, Any] = self.model.chats[number].body
        return body

    def change_instance(self, **values: Any) -> None:
        with transaction() as session:
            session.execute(update(Instance).where(Instance.id == self.instance.id).values(**values))


@contextmanager
def built(
    app: Flask,
    sent: Sent,
    *,
    secret: str = SECRET,
    webhook_url: str | None = None,
    backend: str = BACKEND,
    client: Any = None,
    server: type[TalkServer] = TalkServer,
) -> Iterator[House]:
    """A house without bots; the endpoint `primary` leads to the scripted model."""
    with server(secret) as talk, ModelServer() as model:
        instance = instances.add("cloud", talk.url)
        with transaction() as session:
            session.get_one(Instance, instance.id).backends = [backend]
        key = webhook_url.rsplit("/", 1)[1] if webhook_url else None
        registration = registrations.create(
            instance.id,
            "Talk AI",
            secret=secret,
            key=key,
            webhook_url=webhook_url,
            base_url="https://parley.example.test",
        )
        endpoints.save("primary", url=model.url, model="case-model")
        house = House(app, sent, talk, model, instance, registration, client=client or app.test_client())
        yield house
        talk.check()


def message(
    text: str,
    *,
    actor: str = "users/mira",
    name: str = "Mira Sund",
    role: str | None = "3",
    room: str = ROOM,
    room_name: str = "Harbour crew",
    id: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    quoted: tuple[str, str, str] | None = None,
    kind: str = "Create",
    object_name: str = "message",
) -> dict[str, Any]:
    """The JSON of a message; `quoted` is (actor id, name, text) of what it replies to."""
    who = {"type": "Person", "id": actor, "name": name}
    if role is not None and kind == "Create":
        who["talkParticipantType"] = role
    thing = note(id or next(numbers), object_name, text, parameters)
    if quoted is not None:
        quoted_actor = {"type": "Person", "id": quoted[0], "name": quoted[1]}
        thing["inReplyTo"] = {"type": "Note", "actor": quoted_actor, "object": note(1490, "message", quoted[2])}
    return {
        "type": kind,
        "actor": who,
        "object": thing,
        "target": {"type": "Collection", "id": room, "name": room_name},
    }


def shared_file(
    text: str = "{file}", *, mimetype: str = "application/pdf", file_name: str = "plan.pdf", **how: Any
) -> Any:
    """The JSON of a file that somebody shares, with a caption or without."""
    file = {"type": "file", "id": "4711", "name": file_name, "size": "20480", "mimetype": mimetype, "path": file_name}
    return message(text, parameters={"file": file}, kind="Activity", object_name="", **how)


def note(id: int, name: str, text: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    content = json.dumps({"message": text, "parameters": parameters or []})
    return {"type": "Note", "id": str(id), "name": name, "content": content, "mediaType": "text/markdown"}


def php_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/").encode()


def signed(body: bytes, secret: str, *, random: str | None = None) -> dict[str, str]:
    """The headers of a webhook over exactly these bytes."""
    random = random or hashlib.sha256(body + str(next(numbers)).encode()).hexdigest()
    signature = hmac.new(secret.encode(), random.encode() + body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Nextcloud-Talk-Random": random,
        "X-Nextcloud-Talk-Signature": signature,
        "X-Nextcloud-Talk-Backend": BACKEND,
        "OCS-APIRequest": "true",
    }
