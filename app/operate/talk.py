"""Looks at the connection to each Nextcloud, piece by piece, without posting anything (nextcloud.md 15).

Every question has a short end of its own, and a refused signature is not shown to the server again for an hour: each
one slows down everything that comes from our address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from app.accounts import instances, serviceuser
from app.accounts.models import Instance
from app.accounts.serviceuser import SENTENCES, Untold
from app.inbox.gaps import told
from app.inbox.gaps.told import NotedRoom
from app.infra.i18n import Sentence, say
from app.operate import inlets
from app.operate.health import Check
from app.platforms import probe, registry, rooms
from app.platforms.base import Reader, ServerState
from app.platforms.status import moment

LEAST_VERSION = (27, 1)
# From Talk 25 on a bot may ask what it may do.
TELLS_FEATURES = (35,)
BOTS = "bots-v1"
HOUR = timedelta(hours=1)


def servers() -> Sequence[Instance]:
    """The instances whose chat servers are asked; the sandbox is our own."""
    return [each for each in instances.all() if registry.reader(probe.KINDS.get(each.kind, "")) is not None]


def examine(instance: Instance) -> Iterator[Check]:
    """Everything about one Nextcloud and its registrations; where it does not answer, what is known without it."""
    reader = registry.reader(probe.KINDS.get(instance.kind, ""))
    if reader is None:
        return
    found, state = _server(instance, reader)
    yield found
    yield from _service_user(instance, reader) if state is not None else ()
    yield from inlets.examine(instance, asks_features=state is not None and _version(state) >= TELLS_FEATURES)
    yield from _downtime(instance)


def _server(instance: Instance, reader: Reader) -> tuple[Check, ServerState | None]:
    """What status.php says; the state only where it is worth asking on."""
    name = f"server {instance.name}"
    try:
        state = reader.server(instance.id)
    except Untold as error:
        told_ = say("{url} does not answer as a Nextcloud: {why}.", url=instance.url, why=SENTENCES[error.reason])
        return Check(name, False, told_, say("Open {url}/status.php from this machine.", url=instance.url)), None
    if state.maintenance or state.needs_upgrade:
        busy = say("Nextcloud {version} is in maintenance mode, or waits for its upgrade.", version=state.version)
        return Check(name, False, busy, say("Answers wait until it is over: `occ maintenance:mode --off`.")), None
    if _version(state) < LEAST_VERSION:
        old = say("Nextcloud {version} has no bots in Talk.", version=state.version)
        return Check(name, False, old, say("Update it: bots need Nextcloud 27.1 or newer.")), None
    return Check(name, True, say("Nextcloud {version} answers.", version=state.version)), state


def _service_user(instance: Instance, reader: Reader) -> Iterator[Check]:
    """Whether the service user works, what Talk can do, and which rooms it does not see."""
    set_it = say("Set one: `python manage.py instances service-user {name} --uid UID`.", name=instance.name)
    name = f"service user {instance.name}"
    if not serviceuser.exists(instance):
        yield Check(name, True, say("There is none: members of rooms are unknown."), set_it)
        yield from _rooms(instance, None)
        return
    tested = probe.tested(instance)
    again = say(
        "Give its app password: `python manage.py instances service-user {name} --uid UID`.", name=instance.name
    )
    yield Check(name, tested.ok, tested.message, None if tested.ok else again)
    if tested.ok:
        yield _abilities(instance, reader)
    yield from _rooms(instance, reader)


def _abilities(instance: Instance, reader: Reader) -> Check:
    name = f"talk {instance.name}"
    try:
        found = reader.abilities(instance.id)
    except Untold as error:
        return _untold(name, say("What Talk can do is unknown: {why}.", why=SENTENCES[error.reason]))
    if BOTS not in found.features:
        missing = say("Talk is not installed there, or it is older than 17.1 and has no bots.")
        return Check(name, False, missing, say("Install or update the app Talk on the Nextcloud."))
    longest = registry.get(probe.KINDS[instance.kind]).max_message
    if found.max_message is not None and found.max_message < longest:
        short = say("Talk there takes no more than {number} characters a message.", number=found.max_message)
        return Check(name, True, short, say("Longer answers are refused. Update Talk, or shorten what bots may say."))
    return Check(name, True, say("Talk there has bots."))


def _rooms(instance: Instance, reader: Reader | None) -> Iterator[Check]:
    """Which rooms the service user does not see: nothing that is missed there can be found again."""
    name = f"rooms {instance.name}"
    active = rooms.active(instance.id)
    if not active:
        return
    try:
        seen = frozenset() if reader is None else frozenset(each.token for each in reader.rooms(instance.id))
    except Untold as error:
        yield _untold(name, say("Which rooms the service user sees is unknown: {why}.", why=SENTENCES[error.reason]))
        return
    unseen = [NotedRoom(room.token, room.name) for room in active if room.token not in seen]
    if not unseen:
        yield Check(name, True, say("The service user is a member of every room in which a bot is active."))
        return
    sentence = say(
        "What is missed in these rooms can't be recovered, and their members are unknown: {rooms}.",
        rooms=told.listed(unseen),
    )
    add = say("Add {uid} to these conversations, where they still exist.", uid=instance.service_uid)
    yield Check(name, True, sentence, add if reader is not None else say("Set a service user, and add it to them."))


def _downtime(instance: Instance) -> Iterator[Check]:
    """What the last gap left."""
    name = f"downtime {instance.name}"
    last = told.last(instance.id)
    sentences = told.sentences(last, instance)
    for sentence in sentences:
        yield Check(name, True, sentence, say("Whoever still waits for an answer there must ask again."))
    if sentences:
        return
    if last is None:
        yield Check(name, True, say("No event was lost in the last day, as far as Parley knows."))
        return
    began, ended = moment(last.gap.began_at), moment(last.gap.ended_at)
    sentence = say(
        "From {began} to {ended} events may have been lost. Read from the rooms afterwards: {number}.",
        began=began,
        ended=ended,
        number=last.gap.recovered,
    )
    yield Check(name, True, sentence)


def _untold(name: str, sentence: Sentence) -> Check:
    return Check(name, True, sentence, say("Look again later with `python manage.py doctor`."))


def _version(state: ServerState) -> tuple[int, ...]:
    return tuple(int(part) for part in state.version.split(".") if part.isascii() and part.isdigit())
