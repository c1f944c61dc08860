"""`talk simulate`: a person's message, as the webhook that Talk would send, and what came of it."""

from __future__ import annotations

import hashlib
import mimetypes
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from sqlalchemy import select

from app.accounts import instances, people
from app.accounts.models import Instance
from app.bots import store as bots
from app.inbox.models import Delivery
from app.inbox.reasons import meaning
from app.infra import cli, clock, http, netguard
from app.infra.db import reading
from app.infra.errors import BadInput, NotFound
from app.infra.http import HttpError
from app.infra.i18n import Sentence, say
from app.platforms import registrations, rooms
from app.platforms.base import BadPayload
from app.platforms.models import Registration
from app.platforms.nextcloud_talk import payload
from app.platforms.sandbox import server, talk
from app.platforms.sandbox.server import Request, SharedHere
from app.rooms.models import Answer, Part
from app.settings import address

ENDED = ("done", "ignored", "dead", "unknown", "waiting")
ACTOR_FORM = re.compile(r"(users|guests|emails|federated_users)/[^\x00-\x1f]{1,190}")
POLL_SECONDS = 0.1
OTHER = "application/octet-stream"


@click.group("talk")
def group() -> None:
    """Holds the command of the sandbox among those about Talk."""


@group.command("simulate")
@click.argument("room")
@click.argument("text")
@click.option("--as", "actor", default="users/ada", show_default=True, help="Who writes: users/UID or guests/ID.")
@click.option("--reply-to", type=int, metavar="ID", help="The message that this one replies to.")
@click.option("--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file to share.")
@click.option("--bot", metavar="NAME", help="Send it by this bot's own registration.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait for the end.")
@cli.instance_option
@cli.json_option
def simulate(
    room: str,
    text: str,
    *,
    actor: str,
    reply_to: int | None,
    path: Path | None,
    bot: str | None,
    timeout: float,
    instance: str | None,
    as_json: bool,
) -> None:
    """Writes TEXT into ROOM as a person, and prints what the running server made of it."""
    url = address.current()
    if url is None:
        cli.fail(_not_running())
    chosen = instances.chosen(instance)
    registration = _registration(chosen, bot)
    _check(room, actor)
    sent = _written(chosen, registration, room=room, actor=actor, text=text, reply_to=reply_to, path=path)
    _send(url, registration, sent)
    found = _ended(registration, sent, timeout)
    if found is None:
        cli.fail(say("The server took the event, but it does not stand in the inbox of this database."))
    result = {
        "event_id": found.id,
        "state": found.state,
        "reason": found.reason,
        "replies": _replies(chosen, room, sent.message_id, found.id),
        "message_id": sent.message_id,
    }
    cli.output(result, as_json, lambda: _print(result))
    if found.state not in ENDED:
        cli.fail(say("It was not over after {seconds} seconds.", seconds=f"{timeout:g}"))


def _registration(instance: Instance, bot: str | None) -> Registration:
    if bot is not None:
        found = bots.by_mention(instance.id, bot)
        if found is None or found.registration_id is None:
            raise NotFound(say("There is no bot named {name} with a registration of its own.", name=bot))
        return registrations.get(found.registration_id)
    shared = registrations.shared_of(instance.id) or next(iter(registrations.of_instance(instance.id)), None)
    if shared is None:
        raise NotFound(say("{name} has no registration yet: run `python manage.py talk register`.", name=instance.name))
    return shared


def _check(room: str, actor: str) -> None:
    if not payload.ROOM_FORM.fullmatch(room):
        raise BadInput(say("A room is named by its token: 1 to 64 letters and digits."))
    if not ACTOR_FORM.fullmatch(actor):
        raise BadInput(say("Say who writes as users/UID or guests/ID."))


def _written(
    instance: Instance,
    registration: Registration,
    *,
    room: str,
    actor: str,
    text: str,
    reply_to: int | None,
    path: Path | None,
) -> Request:
    """The webhook; in the sandbox the message also stands in the room."""
    shared = None if path is None else _shared(path)
    name = _person_name(instance, actor)
    quoted = None if reply_to is None else _quoted(instance, room, reply_to)
    if instance.kind == instances.SANDBOX:
        found = rooms.seen(instance.id, room, "" if rooms.get(instance.id, room) else room.capitalize())
        rooms.bind(found.id, registration.id)
        written = text if shared is None else text or shared.name
        message_id = talk.store(room, actor, name, text=written, reply_to=reply_to).id
    else:
        # Another server counts its own messages: this one only has to be new.
        message_id = time.time_ns() // 1_000_000
    known = rooms.get(instance.id, room)
    return server.request(
        instance,
        registration,
        room=room,
        room_name=known.name if known and known.name else room,
        message_id=message_id,
        actor=actor,
        name=name,
        text=text,
        shared=shared,
        quoted=quoted,
    )


def _shared(path: Path) -> SharedHere:
    return SharedHere(path.name, mimetypes.guess_type(path.name)[0] or OTHER, path.stat().st_size)


def _person_name(instance: Instance, actor: str) -> str:
    kind, _, uid = actor.partition("/")
    person = people.find(instance.id, uid) if kind == "users" else None
    return (person.display_name if person else "") or server.person_name(actor)


def _quoted(instance: Instance, room: str, message_id: int) -> dict[str, Any]:
    if instance.kind == instances.SANDBOX:
        found = talk.message(room, message_id)
        if found is not None:
            return server.quotation(message_id, found.actor, found.actor_name, found.text)
    query = select(Delivery.body).where(Delivery.instance_id == instance.id, Delivery.room == room)
    with reading() as session:
        body = session.scalar(query.where(Delivery.object_id == str(message_id)))
    try:
        event = payload.parse(body or b"")
    except BadPayload:
        raise NotFound(say("There is no message {id} in this room.", id=message_id)) from None
    return server.quotation(message_id, event.actor.key, event.actor.name, event.text)


def _send(url: str, registration: Registration, sent: Request) -> None:
    try:
        response = http.request(
            "POST",
            f"{url}{registrations.WEBHOOK_PATH}{registration.key}",
            guard=netguard.ADMIN,
            headers=sent.headers,
            data=sent.body,
            timeout=(5.0, 10.0),
        )
    except HttpError:
        cli.fail(_not_running())
    if response.status != 200:
        cli.fail(say("The server refused the event with status {status}.", status=response.status))


def _not_running() -> Sentence:
    return say("No server is running: start it with `make run`, or `python manage.py run`, and try again.")


def _ended(registration: Registration, sent: Request, timeout: float) -> Delivery | None:
    """The inbox's row of the event, as soon as it has ended or the time is over."""
    digest = hashlib.sha256(sent.headers["X-Nextcloud-Talk-Random"].encode()).hexdigest()
    query = select(Delivery).where(Delivery.registration_id == registration.id, Delivery.random_digest == digest)
    end = clock.monotonic() + timeout
    while True:
        with reading() as session:
            found = session.scalars(query).first()
        if found is None or found.state in ENDED or clock.monotonic() >= end:
            return found
        clock.sleep(POLL_SECONDS)


def _replies(instance: Instance, room: str, message_id: int, delivery_id: int) -> list[dict[str, Any]]:
    """What was answered: in the sandbox what stands in the room, elsewhere the parts that the server confirmed."""
    query = select(Part).join(Answer, Answer.id == Part.answer_id).where(Answer.delivery_id == delivery_id)
    with reading() as session:
        parts = session.scalars(query.order_by(Part.id)).all()
    if instance.kind != instances.SANDBOX:
        return [_reply(part.text, part.reply_to, part.reference_id) for part in parts if part.state == "sent"]
    ours = {part.reference_id for part in parts}
    return [
        _reply(found.text, found.reply_to, found.reference_id)
        for found in server.messages(room, after=message_id)
        if found.actor.startswith("bots/") and (found.reference_id in ours or found.reply_to == message_id)
    ]


def _reply(text: str, reply_to: int | None, reference_id: str | None) -> dict[str, Any]:
    return {"text": text, "reply_to": reply_to, "reference_id": reference_id}


def _print(result: Mapping[str, Any]) -> None:
    told = meaning(result["reason"])
    reason = f": {result['reason']}" if result["reason"] else ""
    click.echo(f"Event {result['event_id']}: {result['state']}{reason}")
    if told is not None and not result["replies"]:
        click.echo(str(told))
    for reply in result["replies"]:
        click.echo(f"\n{reply['text']}")


COMMANDS: list[click.Command] = [group]
