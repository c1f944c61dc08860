"""Jobs of conversations: what is too old goes."""

from __future__ import annotations

from app.conversations import cancel, store
from app.infra import jobs

EVERY_SECONDS = 3600


@jobs.periodic("conversations.purge", every=EVERY_SECONDS)
def purge() -> None:
    """Deletes messages whose time is over, and old wishes to stop."""
    store.purge()
    cancel.forget_old()
