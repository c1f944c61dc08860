"""What an administrator of the Nextcloud types to install the bot there."""

from __future__ import annotations

import hashlib
import shlex

from app.accounts.models import Instance
from app.infra.db import transaction
from app.infra.i18n import Sentence, say
from app.platforms import registrations
from app.platforms.models import Registration
from app.settings import address

FEATURES = ("webhook", "response")
WARNING = say(
    "The secret on this command line lands in the shell's history; begin the line with a space, or clear the history."
)


def occ_command(name: str, secret: str, webhook_url: str, *, description: str = "") -> str:
    """The line for a shell on the Nextcloud server, every value quoted.

    Exactly these features: with `event` among them Talk never calls a webhook, and `reaction` sends us our own.
    """
    features = [part for feature in FEATURES for part in ("-f", feature)]
    values = [name, secret, webhook_url, *([description] if description else [])]
    # What begins with a dash would be read as an option.
    end = ["--"] if any(value.startswith("-") for value in values) else []
    return shlex.join(["occ", "talk:bot:install", *features, *end, *values])


def setup_command() -> str:
    """How the installed bot comes into a room, where a moderator does not switch it on there."""
    return "occ talk:bot:setup BOT_ID ROOM_TOKEN"


def at_our_address(registration: Registration) -> Registration:
    """The registration at the address that we have now, where it had another one and no event ever came to it.

    One that is in use keeps its address, because Nextcloud knows the bot by it; so does one that others reach, when
    ours is only known to this machine.
    """
    url = address.public() + registrations.WEBHOOK_PATH + registration.key
    known = registration.last_event_at is not None or url == registration.webhook_url
    if known or (address.of_this_machine(url) and not address.of_this_machine(registration.webhook_url)):
        return registration
    with transaction() as session:
        moved = session.get_one(Registration, registration.id)
        moved.webhook_url = url
        moved.actor_hash = hashlib.sha1(url.encode()).hexdigest()
    return moved


def hint(registration: Registration, instance: Instance) -> Sentence | None:
    """What may make the command useless where it is typed, and what to do first."""
    if instance.kind == registrations.SANDBOX:
        return say(
            "This is the sandbox, where nothing has to be installed. Connect a Nextcloud first: "
            "`python manage.py instances add NAME --url URL`."
        )
    if address.of_this_machine(registration.webhook_url) and not address.of_this_machine(instance.url):
        return say(
            "{url} leads to Parley from this machine only. Where Nextcloud runs on another one, set PARLEY_BASE_URL to "
            "an address that it can open, and run this again.",
            url=registration.webhook_url.partition(registrations.WEBHOOK_PATH)[0],
        )
    return None
