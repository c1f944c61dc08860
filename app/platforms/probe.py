"""Whether the service user of an instance works, in one sentence for an administrator."""

from __future__ import annotations

from dataclasses import dataclass

from app.accounts import serviceuser
from app.accounts.models import Instance
from app.accounts.serviceuser import SENTENCES, Untold
from app.infra.i18n import Sentence, say
from app.platforms import registry

KINDS = {"nextcloud": "nextcloud_talk"}


@dataclass(frozen=True)
class Tested:
    """The outcome of a test; `message` says what to do where it is not ok."""

    ok: bool
    message: Sentence


def tested(instance: Instance) -> Tested:
    """Asks the server once as whom it knows us. A password that it refused is not tried again."""
    reader = registry.reader(KINDS.get(instance.kind, ""))
    if reader is None:
        return Tested(False, say("The rooms of {name} can't be read by a service user.", name=instance.name))
    try:
        uid = reader.whoami(instance.id)
        expected = serviceuser.login(instance.id).uid
    except Untold as error:
        why = SENTENCES[error.reason]
        return Tested(False, say("The service user of {name} does not work: {why}.", name=instance.name, why=why))
    if uid != expected:
        # Its own messages would be taken for somebody's, and answered.
        return Tested(False, say("The app password is that of {uid}. Set the service user with --uid {uid}.", uid=uid))
    return Tested(True, say("The server knows the service user {uid}.", uid=uid))
