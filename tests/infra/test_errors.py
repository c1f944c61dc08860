from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from app.infra import auth
from app.infra.errors import BadInput, Conflict, NotAllowed, NotFound, NotSignedIn, TooMany, TooSlow, Unavailable
from app.infra.i18n import say

KNOWN = [
    (BadInput(say("That is wrong."), fields={"name": "Too long."}), 400, "bad_input"),
    (NotSignedIn(), 401, "not_signed_in"),
    (NotAllowed(), 403, "not_allowed"),
    (NotFound(), 404, "not_found"),
    (TooSlow(), 408, "too_slow"),
    (Conflict(say("Not now.")), 409, "conflict"),
    (TooMany(say("Slower."), retry_after=12.4), 429, "too_many"),
    (Unavailable(say("Away.")), 503, "unavailable"),
]


def failing(app: Flask, error: Exception, path: str = "/api/v1/fails") -> Any:
    @auth.access("public")
    def view() -> str:
        raise error

    app.add_url_rule(path, endpoint=f"fails{path}", view_func=view)
    return app.test_client()


@pytest.mark.parametrize(("error", "status", "code"), KNOWN)
def test_every_error_answers_with_a_sentence_and_a_code(app: Flask, error: Any, status: int, code: str) -> None:
    answer = failing(app, error).get("/api/v1/fails")
    assert answer.status_code == status
    assert answer.json == {"error": str(error.sentence), "code": code, "fields": error.fields}


def test_the_wait_is_told(app: Flask) -> None:
    answer = failing(app, TooMany(say("Slower."), retry_after=12.4)).get("/api/v1/fails")
    assert answer.headers["Retry-After"] == "12"


def test_nothing_of_the_inside_leaks(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    app.config["PROPAGATE_EXCEPTIONS"] = False
    answer = failing(app, RuntimeError("inside-of-ours")).get("/api/v1/fails")
    assert answer.status_code == 500
    assert "inside-of-ours" not in answer.text
    assert "inside-of-ours" in caplog.text


def test_the_detail_goes_to_the_log_only(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    answer = failing(app, NotFound(detail="row 7 is of another instance")).get("/api/v1/fails")
    assert "row 7" not in answer.text
    assert "row 7" in caplog.text


def test_an_address_that_is_nowhere_answers_a_program_with_json(app: Flask) -> None:
    answer = app.test_client().get("/api/v1/nowhere", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert answer.json["code"] == "not_found"


def test_an_address_that_is_nowhere_answers_a_browser_with_a_page(app: Flask) -> None:
    chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"
    headers = {"Accept": chromium, "Accept-Language": "en"}
    answer = app.test_client().get("/nowhere", headers=headers)
    assert answer.status_code == 404
    assert answer.content_type.startswith("text/html")
    assert "<h1>There is nothing here, or you may not see it.</h1>" in answer.text


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "application/json, text/plain, */*"])
def test_an_address_that_is_nowhere_answers_a_script_with_json(app: Flask, accept: str | None) -> None:
    answer = app.test_client().get("/nowhere", headers={"Accept": accept} if accept else {})
    assert answer.json["code"] == "not_found"


def test_a_page_of_an_error_needs_no_database(app: Flask, config: Any) -> None:
    (config.data_dir / "parley.db").unlink()
    answer = app.test_client().get("/nowhere", headers={"Accept": "text/html", "Authorization": "Bearer ply_x"})
    assert answer.status_code == 404


def test_a_method_that_is_not_taken_names_those_that_are(app: Flask) -> None:
    answer = app.test_client().delete("/healthz")
    assert answer.status_code == 405
    assert "GET" in answer.headers["Allow"]
