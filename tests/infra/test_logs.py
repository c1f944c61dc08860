from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import config as configuration
from app.infra import logs

CANARY = "canary/7c9f+2e41=b8"
log = logging.getLogger("test.logs")


@pytest.fixture
def written(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    logs.init(configuration.load({}))
    logs.register_secret(CANARY)
    with caplog.at_level(logging.DEBUG):
        yield caplog


def test_a_known_secret_shows_in_no_record(written: pytest.LogCaptureFixture) -> None:
    log.info("the key is %s", CANARY)
    log.info(f"address x?key={quote(CANARY, safe='')}")
    log.info("%r %s", {"key": CANARY}, [CANARY])
    assert CANARY not in written.text
    assert quote(CANARY, safe="") not in written.text
    assert "***" in written.text


def test_a_known_secret_shows_in_no_traceback(written: pytest.LogCaptureFixture) -> None:
    try:
        try:
            raise ValueError(f"inner {CANARY}")
        except ValueError as error:
            raise RuntimeError(f"outer {CANARY}") from error
    except RuntimeError:
        log.exception("it broke with %s", CANARY, stack_info=True)
    assert "RuntimeError: outer ***" in written.text
    assert "ValueError: inner ***" in written.text
    assert CANARY not in written.text


def test_a_thread_that_ends_by_an_error_is_logged_and_masked(written: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError(CANARY)

    hook = threading.excepthook
    threading.excepthook = logs._log_thread_error
    try:
        thread = threading.Thread(target=fail, name="worker-7")
        thread.start()
        thread.join(5)
    finally:
        threading.excepthook = hook
    assert "the thread worker-7 ended" in written.text
    assert CANARY not in written.text


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer sk-abcdef0123456789",
        "authorization: Basic YWRhOnBhc3N3b3Jk",
        "{'api_key': 'sk-abcdef0123456789'}",
        '{"password": "sk-abcdef0123456789"}',
        "api-key=sk-abcdef0123456789&x=1",
        "GET /v1?key=sk-abcdef0123456789 failed",
        "X-API-Key: sk-abcdef0123456789",
        "client_secret = sk-abcdef0123456789",
        "postgresql://parley:sk-abcdef0123456789@host/db refused",
    ],
)
def test_whatever_has_the_form_of_a_credential_is_masked(text: str) -> None:
    masked = logs.mask(text)
    assert "sk-abcdef" not in masked
    assert "YWRhOnBhc3N3b3Jk" not in masked
    assert "***" in masked


@pytest.mark.parametrize(
    "text",
    [
        "The key of the room is lost.",
        "3 secrets are stored",
        "http://127.0.0.1:8000/healthz",
        "keyboard=yes",
        "a@b.example",
    ],
)
def test_ordinary_lines_stay_as_they_are(text: str) -> None:
    assert logs.mask(text) == text


def test_the_passwords_of_the_environment_are_known(written: pytest.LogCaptureFixture) -> None:
    logs.init(configuration.load({"PARLEY_DATABASE_URL": "postgresql://p:database-password-1@h/x"}))
    log.warning("could not connect with database-password-1")
    assert "database-password-1" not in written.text


def test_a_line_with_wrong_arguments_is_still_a_line(written: pytest.LogCaptureFixture) -> None:
    log.info("%d pieces", "many")
    assert "%d pieces" in written.text


def test_a_value_too_short_to_be_a_secret_hides_nothing() -> None:
    logs.register_secret("the")
    assert logs.mask("the end") == "the end"


@given(st.text(min_size=8, max_size=60), st.text(), st.text())
def test_no_secret_survives_whatever_stands_around_it(secret: str, before: str, after: str) -> None:
    logs.register_secret(secret)
    assert secret not in logs.mask(before + secret + after).replace(logs.HIDDEN, "")
