"""What an administrator of the Nextcloud types to install the bot there."""

from __future__ import annotations

import shlex

from app.infra.i18n import say

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
