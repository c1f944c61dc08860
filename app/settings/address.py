"""Where the running server can be reached: `run` records it, commands and the sandbox read it."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from app import config
from app.infra import auth, clock
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


def public() -> str:
    """Where a chat system reaches us: PARLEY_BASE_URL, and where nobody set it, what a server recorded."""
    configured = auth.base_url()
    return (current() or configured) if configured == config.load({}).base_url else configured


def of_this_machine(url: str) -> bool:
    """True when `url` leads to this machine from this machine, and from any other one to itself."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
