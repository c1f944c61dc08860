"""Looks at each registration: whether events come, from whom, whether posts are taken, and whether our address answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

from app.accounts.models import Instance
from app.infra import clock, http, netguard
from app.infra.http import HttpError, Response
from app.infra.i18n import Sentence, say
from app.operate.health import Check
from app.platforms import backends, registrations, registry, rooms, status
from app.platforms.models import Registration
from app.settings import address

LATELY = timedelta(hours=1)
PROBE_TIMEOUT = (3.0, 5.0)
PROBE_BYTES = 64 * 1024
REFUSAL = "bad_signature"
NEEDED = frozenset({"webhook", "response"})
FORBIDDEN = "event"
UNAUTHORISED = 401


def examine(instance: Instance, *, asks_features: bool) -> Iterator[Check]:
    """The checks of an instance's registrations; `asks_features`: its server tells a bot what it may do."""
    found = registrations.of_instance(instance.id)
    if not found:
        register = say("Run `python manage.py talk register --instance {name}`.", name=instance.name)
        yield Check(f"registration {instance.name}", True, say("Nothing is registered there yet."), register)
    for registration in found:
        yield _events(registration)
        yield from _backend(registration, instance)
        yield _posts(registration)
    yield from _addresses(found, instance)
    if asks_features:
        yield from _features(found, instance)


def _events(registration: Registration) -> Check:
    name = f"events {registration.id}"
    waiting = status.waiting(registration)
    if waiting is not None:
        return Check(name, True, waiting, _compare(registration))
    last = registration.last_event_at or clock.now()
    return Check(
        name,
        True,
        say("{name}: the last event came at {moment}.", name=registration.name, moment=status.moment(last)),
    )


def _backend(registration: Registration, instance: Instance) -> Iterator[Check]:
    """Whether the server's own name for itself fits; nothing to say before it named itself."""
    seen = registration.backend_seen
    if seen is None:
        return
    name = f"backend {registration.id}"
    misnamed = status.misnamed(registration, instance)
    if misnamed is not None:
        yield Check(name, False, misnamed, _renamed(seen, instance))
    elif seen in backends.NAMELESS:
        nameless = say("{name}: Nextcloud does not know its own address.", name=registration.name)
        set_it = say("Set it there: `occ config:system:set overwrite.cli.url --value {url}`.", url=instance.url)
        yield Check(name, True, nameless, set_it)
    else:
        yield Check(name, True, say("{name}: Nextcloud calls itself {seen}.", name=registration.name, seen=seen))


def _renamed(seen: str, instance: Instance) -> Sentence:
    there, here = urlsplit(seen), urlsplit(instance.url)
    if (there.hostname, there.path.rstrip("/")) == (here.hostname, here.path.rstrip("/")):
        return say("Only http, https or the port differ: set overwrite.cli.url there to {url}.", url=instance.url)
    return say("Another server than {url} calls with this secret, or it has got another name.", url=instance.url)


def _posts(registration: Registration) -> Check:
    name = f"posts {registration.id}"
    paused = status.paused(registration)
    if paused is not None:
        return Check(name, False, paused, _compare(registration))
    if registration.refused_at is not None:
        at = status.moment(registration.refused_at)
        refused = say("{name}: Nextcloud refused our signature at {moment}.", name=registration.name, moment=at)
        return Check(name, False, refused, _compare(registration))
    if registration.throttled_at is not None and clock.now() - registration.throttled_at < LATELY:
        at = status.moment(registration.throttled_at)
        slow = say("{name}: Nextcloud slowed us down at {moment}.", name=registration.name, moment=at)
        free = say("It does so after refused requests: `occ security:bruteforce:reset` with the address of Parley.")
        return Check(name, True, slow, free)
    if registration.last_post_at is None:
        return Check(name, True, say("{name}: nothing was posted yet.", name=registration.name))
    at = status.moment(registration.last_post_at)
    outcome = registration.last_post_status or ""
    last = say("{name}: the last post, at {moment}: {outcome}.", name=registration.name, moment=at, outcome=outcome)
    return Check(name, True, last, None if outcome.startswith("2") else say("`inbox list` tells what became of it."))


def _compare(registration: Registration) -> Sentence:
    return say(
        "Compare on the Nextcloud server: `occ talk:bot:list` must show {name} with the features webhook and response, "
        "never event, and the state 1 or 2; `occ talk:bot:list TOKEN` shows the bots of a room. "
        "`python manage.py talk register` prints the line that installs it.",
        name=registration.name,
    )


def _features(found: Sequence[Registration], instance: Instance) -> Iterator[Check]:
    """Proves the secrets without posting; after the first that is refused no other is shown to the server."""
    for registration in found:
        lately = registration.refused_at is not None and clock.now() - registration.refused_at < LATELY
        if lately or registrations.blocked(registration):
            return
    active = rooms.active(instance.id)
    for registration in found:
        room = next((r for r, b in active.items() if registration.id in [each.registration_id for each in b]), None)
        if room is None:
            continue
        check, refused = _granted(registration, room.token)
        yield check
        if refused:
            return


def _granted(registration: Registration, room: str) -> tuple[Check, bool]:
    name = f"features {registration.id}"
    granted = registry.get(registration.platform).granted(registrations.address(registration), room)
    if granted.outcome.status == UNAUTHORISED:
        registrations.refused(registration.id)
        refused = say(
            "{name}: Nextcloud does not know our secret in the room {room}.", name=registration.name, room=room
        )
        return Check(name, False, refused, _compare(registration)), True
    if granted.outcome.kind != "success":
        reason = granted.outcome.reason
        unknown = say(
            "{name}: what the bot may do could not be asked ({reason}).", name=registration.name, reason=reason
        )
        return Check(name, True, unknown, say("Look again later with `python manage.py doctor`.")), False
    features = ", ".join(sorted(granted.features)) or "-"
    may = say("{name}: Nextcloud knows our secret; the bot has {features}.", name=registration.name, features=features)
    fine = granted.features >= NEEDED and FORBIDDEN not in granted.features
    return Check(name, fine, may, None if fine else _compare(registration)), False


def _addresses(found: Sequence[Registration], instance: Instance) -> Iterator[Check]:
    """Asks each of our own addresses once, as Talk would, but without a signature: the answer must be our 401."""
    by_origin = {each.webhook_url.partition(registrations.WEBHOOK_PATH)[0]: each for each in reversed(found)}
    for origin, registration in sorted(by_origin.items()):
        yield _address(origin, registration.webhook_url, instance)


def _address(origin: str, url: str, instance: Instance) -> Check:
    name = f"address {instance.name}"
    here = address.of_this_machine(url)
    try:
        answer = http.request(
            "POST",
            url,
            guard=netguard.ADMIN,
            headers={"Content-Type": "application/json"},
            data=b"{}",
            timeout=PROBE_TIMEOUT,
            max_bytes=PROBE_BYTES,
        )
    except HttpError as error:
        unheard = say("Nobody answers at {url} from here: {why}", url=origin, why=error.sentence)
        look = say("Nextcloud must reach Parley there. Start Parley, or correct PARLEY_BASE_URL and the web server.")
        return Check(name, not here, unheard, look)
    problem = _misrouted(answer, origin)
    if problem is not None:
        passing = say("The web server in front must pass POST requests to Parley as they come, without redirects.")
        return Check(name, False, problem, passing)
    answers = say("Parley answers at {url}.", url=origin)
    if not here or address.of_this_machine(instance.url):
        return Check(name, True, answers)
    local = say(
        "{url} leads to Parley from this machine only. Where Nextcloud runs on another one, set PARLEY_BASE_URL to "
        "an address that it can open, and run this again.",
        url=origin,
    )
    return Check(name, True, answers, local)


def _misrouted(answer: Response, origin: str) -> Sentence | None:
    """What answers instead of our own refusal; None where it is that."""
    if 300 <= answer.status < 400:
        return say("{url} redirects what Talk sends; Talk does not send it again.", url=origin)
    try:
        code = json.loads(answer.body)["code"]
    except (ValueError, RecursionError, KeyError, TypeError):
        code = None
    if (answer.status, code) == (UNAUTHORISED, REFUSAL):
        return None
    return say("Something else than Parley answers at {url} (status {status}).", url=origin, status=answer.status)
