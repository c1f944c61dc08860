"""What there is to see of a registration: for `talk status`, the API and the setup checks. Never its secret."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any

from app.accounts.models import Instance
from app.infra import clock
from app.infra.i18n import Sentence, say
from app.platforms import backends
from app.platforms.models import Registration


def shown(registration: Registration, instance: Instance) -> dict[str, Any]:
    """A registration as JSON; `problems` are sentences for an administrator, empty when nothing is known to be wrong."""
    open_until = registration.blocked_until
    is_open = open_until is not None and open_until > clock.now()
    return {
        "id": registration.id,
        "instance": instance.name,
        "platform": registration.platform,
        "name": registration.name,
        "shared": registration.shared,
        "webhook_url": registration.webhook_url,
        "actor_id": f"bots/bot-{registration.actor_hash}",
        "created_at": registration.created_at.isoformat(),
        "last_event_at": _iso(registration.last_event_at),
        "last_post_at": _iso(registration.last_post_at),
        "last_post_status": registration.last_post_status,
        "blocked_until": _iso(open_until) if is_open else None,
        "blocked_reason": registration.blocked_reason if is_open else None,
        "refused_at": _iso(registration.refused_at),
        "throttled_at": _iso(registration.throttled_at),
        "rotating_until": _iso(registration.previous_until),
        "backend_seen": registration.backend_seen,
        "backends": [instance.url, *instance.backends],
        "problems": [str(problem) for problem in problems(registration, instance)],
    }


def problems(registration: Registration, instance: Instance) -> list[Sentence]:
    """What is known to be wrong, and what to do about it."""
    told = (waiting(registration), misnamed(registration, instance), paused(registration))
    return [sentence for sentence in told if sentence is not None]


def waiting(registration: Registration) -> Sentence | None:
    """That the chat system has never called us: only its first event proves that it can."""
    if registration.last_event_at is not None:
        return None
    return say(
        "No event has come yet. Install the bot in Nextcloud with the command that `python manage.py talk register` "
        "prints, and switch it on in a room."
    )


def misnamed(registration: Registration, instance: Instance) -> Sentence | None:
    """That events are refused, because the server calls itself by an address that we don't know."""
    seen = registration.backend_seen or ""
    if backends.fits(seen, [instance.url, *instance.backends]):
        return None
    return say(
        "Nextcloud calls itself {seen}, but the instance's address is {url}; its events are refused. Correct "
        "overwrite.cli.url there, or accept the name: "
        "`python manage.py talk register --instance {instance} --backend {name}`.",
        seen=seen,
        name=shlex.quote(seen),
        url=instance.url,
        instance=instance.name,
    )


def paused(registration: Registration) -> Sentence | None:
    """That nothing is posted, because our signature was refused."""
    if registration.blocked_until is None or registration.blocked_until <= clock.now():
        return None
    return say(
        "Nextcloud refused the last post ({status}); nothing is posted until {until}. Check that the bot has the "
        "secret there that `python manage.py talk register` shows, is switched on in the room, and has the "
        "feature response; then run `python manage.py talk resume`.",
        status=registration.last_post_status or registration.blocked_reason,
        until=moment(registration.blocked_until),
    )


def moment(at: datetime) -> str:
    """A moment as people read it."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _iso(moment: Any) -> str | None:
    return None if moment is None else str(moment.isoformat())
