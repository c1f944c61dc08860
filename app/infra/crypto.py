"""Secrets at rest: sealed with MultiFernet under the keys of this installation, masked wherever they are shown."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidKey
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from app.config import DATA_DIR_MODE, BadConfig, Config
from app.infra import logs
from app.infra.errors import ParleyError
from app.infra.i18n import say

KEY_FILE = "secret.key"
MASK = "set, ends in …"
SHORTEST_KEY = 16
ARGON2_ITERATIONS = 2
ARGON2_LANES = 4
ARGON2_KIB = 19 * 1024


class BrokenSeal(ParleyError):
    """A sealed value can't be opened with any key of this installation."""

    code = "broken_seal"

    def __init__(self, detail: str = "a sealed value does not open with the present keys") -> None:
        sentence = say(
            "A stored secret does not open with the present key. Restore the key it was stored with, or set it anew."
        )
        super().__init__(sentence, detail=detail)


class Vault:
    """The keys of this installation, newest first, and the file they came from; an extension object."""

    keys: tuple[str, ...] = ()
    path: Path | None = None
    stamp: tuple[int, int] = (0, 0)


vault = Vault()


def init_app(config: Config) -> None:
    """Loads the keys; the first call on a data directory makes one, readable by its owner only."""
    vault.path = None if config.secret_key else config.data_dir / KEY_FILE
    keys = keys_of(config)
    _load(keys, stamp=_stamp(vault.path) if vault.path else (0, 0))


def session_key() -> str:
    """The key that signs browser sessions; changing the newest key signs everybody out."""
    return derive(vault.keys[0], "session").hex()


def keys_of(config: Config) -> list[str]:
    """The installation's secrets, newest first: one a line in the key file, comma-separated in PARLEY_SECRET_KEY."""
    text = config.secret_key or _key_file(config.data_dir / KEY_FILE)
    keys = _split(text)
    if not keys or any(len(key) < SHORTEST_KEY for key in keys):
        raise BadConfig(f"PARLEY_SECRET_KEY needs at least {SHORTEST_KEY} characters.")
    return keys


def store_keys(path: Path, keys: Sequence[str]) -> None:
    """Replaces the key file as a whole; whoever reads it sees the old one or the new one, also after a crash."""
    fresh = _written_beside(path, keys)
    os.replace(fresh, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def seal(plain: str) -> str:
    """Encrypts with the newest key."""
    logs.register_secret(plain)
    return _fernet().encrypt(plain.encode()).decode()


def unseal(sealed: str) -> str:
    """Decrypts with whichever key fits. Raises BrokenSeal."""
    try:
        plain = _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise BrokenSeal from None
    logs.register_secret(plain)
    return plain


def opens_with_newest(sealed: str) -> bool:
    """True when the newest key alone opens it: the older keys are not needed for this value."""
    try:
        MultiFernet(_ferns()[:1]).decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True


def reseal(sealed: str) -> str:
    """The same secret under the newest key. Raises BrokenSeal."""
    try:
        return _fernet().rotate(sealed.encode()).decode()
    except InvalidToken:
        raise BrokenSeal from None


def masked(plain: str | None) -> str:
    """How a secret is shown: its last three characters when it is long enough, else only that it is set."""
    if not plain:
        return ""
    return MASK + plain[-3:] if len(plain) >= 12 else "set"


def derive(key: str, purpose: str) -> bytes:
    """32 bytes for one purpose, independent of those for other purposes."""
    return hashlib.blake2b(purpose.encode(), key=hashlib.sha256(key.encode()).digest(), digest_size=32).digest()


def new_secret(length: int = 48) -> str:
    """A fresh URL-safe secret of `length` random bytes."""
    return secrets.token_urlsafe(length)


def hash_password(password: str) -> str:
    """Argon2id in PHC form."""
    kdf = Argon2id(
        salt=os.urandom(16), length=32, iterations=ARGON2_ITERATIONS, lanes=ARGON2_LANES, memory_cost=ARGON2_KIB
    )
    return kdf.derive_phc_encoded(password.encode())


def password_fits(password: str, phc: str) -> bool:
    """True when the password is that of the hash; a damaged hash fits no password."""
    try:
        Argon2id.verify_phc_encoded(password.encode(), phc)
    except (InvalidKey, ValueError):
        return False
    return True


def _fernet() -> MultiFernet:
    return MultiFernet(_ferns())


def _ferns() -> list[Fernet]:
    # `keys rotate` in another process takes effect here at once.
    if vault.path is not None and _stamp(vault.path) != vault.stamp:
        # The stamp first: what replaces the file while it is read is noticed the next time.
        stamp = _stamp(vault.path)
        _load(_split(_key_file(vault.path)), stamp=stamp)
    return [Fernet(base64.urlsafe_b64encode(derive(key, "seal"))) for key in vault.keys]


def _load(keys: list[str], *, stamp: tuple[int, int]) -> None:
    for key in keys:
        logs.register_secret(key)
    vault.keys, vault.stamp = tuple(keys), stamp


def _stamp(path: Path) -> tuple[int, int]:
    try:
        seen = path.stat()
    except OSError:
        return vault.stamp
    return seen.st_mtime_ns, seen.st_ino


def _split(text: str) -> list[str]:
    return [key.strip() for key in text.replace(",", "\n").splitlines() if key.strip()]


def _key_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True, mode=DATA_DIR_MODE)
    fresh = _written_beside(path, [new_secret()])
    try:
        # Two processes may start at once: the first link wins, and nobody reads half a file.
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_text(encoding="utf-8")


def _written_beside(path: Path, keys: Sequence[str]) -> Path:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(keys) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return Path(name)
