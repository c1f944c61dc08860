"""Where the running server can be reached: `run` records it, commands and the sandbox read it."""

from __future__ import annotations

from app.infra import clock
from app.infra.db import reading, transaction
from app.settings.models import SettingValue

# A row beside those of the settings; nobody changes it by hand.
NAME = "server_address"


def remember(url: str) -> None:
    """Records the address of this process, such as http://127.0.0.1:8000."""
    with transaction() as session:
        session.merge(SettingValue(name=NAME, value=url.rstrip("/"), sealed=None, updated_at=clock.now()))


def current() -> str | None:
    """The address that a server last recorded, without a slash at the end; it may have stopped since. None: never."""
    with reading() as session:
        row = session.get(SettingValue, NAME)
        return str(row.value) if row is not None and row.value else None
