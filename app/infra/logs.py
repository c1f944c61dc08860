"""Logging: one line an event, secrets masked in every record, its traceback included, whoever handles it."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from app.config import Config

FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"
HIDDEN = "***"
# Shorter values meet by chance in ordinary words; a secret of ours is always longer.
SHORTEST_SECRET = 8
LONGEST_SECRET = 4096
MOST_SECRETS = 10_000
NOISY = ("alembic", "amqp", "celery", "kombu", "urllib3")

CREDENTIAL_FORMS = (
    re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(
        r"(?i)(\b[\w-]*(?:api[_-]?key|access[_-]?token|auth[_-]?token|secret|passwo?r?d|app[_-]?password|x-api-key)"
        r"[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&)}\]]{3,}"
    ),
    re.compile(r"(?i)([?&](?:key|token|sig|signature)=)[^\s\"'&#]+"),
    re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)"),
)

_lock = threading.Lock()


class _Known:
    """The secrets that were opened in this process, longest first; replaced as a whole, so that readers need no lock."""

    secrets: tuple[str, ...] = ()
    factory: Callable[..., logging.LogRecord] = logging.LogRecord


def init(config: Config) -> None:
    """Sets up the root logger and the masking of every record of this process; a second call changes nothing."""
    logging.basicConfig(level=logging.INFO, format=FORM, stream=sys.stderr)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    if logging.getLogRecordFactory() is not _masked_record:
        _Known.factory = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_masked_record)
        threading.excepthook = _log_thread_error
    for url in (config.database_url, config.broker_url):
        register_secret(urlsplit(url).password or "" if url else "")


def register_secret(value: str) -> None:
    """Remembers a secret that was opened in this process, so that no log, error or trace of it shows it."""
    if not SHORTEST_SECRET <= len(value) <= LONGEST_SECRET or value in _Known.secrets:
        return
    forms = {value, quote(value, safe=""), json.dumps(value)[1:-1]}
    with _lock:
        kept = _Known.secrets[:MOST_SECRETS]
        _Known.secrets = tuple(sorted({*kept, *forms}, key=len, reverse=True))


def mask(text: str) -> str:
    """`text` with every known secret, and whatever has the form of a credential, replaced by ***."""
    text = mask_known(text)
    for form in CREDENTIAL_FORMS:
        text = form.sub(rf"\g<1>{HIDDEN}", text)
    return text


def mask_known(text: str) -> str:
    """`text` with every known secret replaced by ***, and nothing else: for texts that people wrote."""
    for secret in _Known.secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def _masked_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record = _Known.factory(*args, **kwargs)
    record.msg, record.args = mask(_message(record)), None
    if record.exc_info and record.exc_info[0] is not None:
        # Formatters take exc_text as it stands and never look at the traceback again.
        record.exc_text = mask(logging.Formatter().formatException(record.exc_info))
    if record.stack_info:
        record.stack_info = mask(record.stack_info)
    return record


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return f"{record.msg} (a log line with wrong arguments)"


def _log_thread_error(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread else "?"
    if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
        error = (args.exc_type, args.exc_value, args.exc_traceback)
        logging.getLogger(__name__).error("the thread %s ended by an error", name, exc_info=error)
