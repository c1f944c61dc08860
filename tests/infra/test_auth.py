"""Deny by default, CSRF, redirects and headers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from flask import Flask, Request
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import URLSafeTimedSerializer

from app.infra import auth
from app.infra.auth import Identity, Level
from app.infra.errors import NotSignedIn

CALLERS = {
    "person": Identity(1, 1, "ada", False, False, "session", None, ()),
    "administrator": Identity(2, 1, "carol", True, False, "session", None, ()),
    "operator": Identity(3, 1, "dan", False, True, "session", None, ()),
    "user token": Identity(2, 1, "carol", False, False, "token", "user", ()),
    "administrator token": Identity(2, 1, "carol", True, False, "token", "administrator", ()),
    "operator token": Identity(3, 1, "dan", False, True, "token", "operator", ()),
    "domain token": Identity(None, 1, "", False, False, "token", None, ("io.cozy.files:GET",)),
}
REACHES = {
    "public": set(CALLERS),
    "user": {"person", "administrator", "operator", "user token", "administrator token"},
    "administrator": {"administrator", "administrator token"},
    "operator": {"operator", "operator token"},
}


@pytest.fixture
def house(app: Flask) -> Iterator[Flask]:
    """A view of every level, and the caller named by the header X-Caller."""

    def resolver(request: Request) -> Identity | None:
        return CALLERS.get(request.headers.get("X-Caller", ""))

    known = auth.state.resolver
    auth.set_resolver(resolver)
    for level in auth.LEVELS:
        _add(app, level, _view(level))
    _add(app, "form", _view("public", form=True))
    _add(app, "page", _page())
    app.add_url_rule("/t/unmarked", "t_unmarked", lambda: "seen")
    yield app
    auth.state.resolver = known


def _view(level: Level, *, form: bool = False) -> Any:
    def view() -> str:
        found = auth.current()
        return found.uid if found else "nobody"

    return auth.access(level, form=form)(view)


def _page() -> Any:
    view = _view("user")
    view.__module__ = "app.somewhere.pages"
    return view


def _add(app: Flask, name: str, view: Any) -> None:
    app.add_url_rule(f"/t/{name}", f"t_{name}", view, methods=["GET", "POST"])


@pytest.mark.parametrize("level", auth.LEVELS)
@pytest.mark.parametrize("caller", CALLERS)
def test_each_level_is_reached_by_its_callers_and_by_nobody_else(house: Flask, level: str, caller: str) -> None:
    answer = house.test_client().get(f"/t/{level}", headers={"X-Caller": caller})
    assert answer.status_code == (200 if caller in REACHES[level] else 403)


@pytest.mark.parametrize("level", [level for level in auth.LEVELS if level != "public"])
def test_whoever_is_not_signed_in_reaches_nothing_but_public_views(house: Flask, level: str) -> None:
    answer = house.test_client().get(f"/t/{level}")
    assert answer.status_code == 401
    assert answer.json is not None
    assert answer.json["code"] == "not_signed_in"


@pytest.mark.parametrize("caller", ["", *CALLERS])
def test_a_view_without_a_mark_is_closed_to_everybody(house: Flask, caller: str) -> None:
    answer = house.test_client().get("/t/unmarked", headers={"X-Caller": caller})
    assert answer.status_code == 403
    assert b"seen" not in answer.data


def test_a_level_that_nobody_knows_is_an_error_of_the_programmer() -> None:
    with pytest.raises(ValueError, match="everybody"):
        auth.access("everybody")  # type: ignore[arg-type]


def test_a_page_sends_a_browser_to_the_sign_in_page_and_back(house: Flask) -> None:
    answer = house.test_client().get("/t/page?a=1&b=%26")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/sign-in?next=/t/page%3Fa%3D1%26b%3D%2526"


def test_a_page_does_not_redirect_scripts_and_posts(house: Flask) -> None:
    client = house.test_client()
    assert client.get("/t/page", headers={"Authorization": "Bearer ply_x"}).status_code == 401
    assert client.post("/t/page").status_code == 401


def test_a_session_needs_the_csrf_token_of_its_own_pages(house: Flask) -> None:
    client, other = house.test_client(), house.test_client()
    mine, theirs = _csrf(house, client), _csrf(house, other)
    caller = {"X-Caller": "person"}
    assert client.post("/t/user", headers=caller).status_code == 403
    assert client.post("/t/user", headers=caller | {"X-CSRFToken": "made-up"}).status_code == 403
    assert client.post("/t/user", headers=caller | {"X-CSRFToken": theirs}).status_code == 403
    assert client.post("/t/user", headers=caller | {"X-CSRFToken": mine}).status_code == 200
    assert client.post("/t/user", headers=caller, data={"csrf_token": mine}).status_code == 200


def test_a_token_needs_no_csrf_token(house: Flask) -> None:
    assert house.test_client().post("/t/user", headers={"X-Caller": "user token"}).status_code == 200


def test_a_public_form_needs_the_csrf_token_of_its_page(house: Flask) -> None:
    client = house.test_client()
    assert client.post("/t/form").status_code == 403
    assert client.post("/t/form", data={"csrf_token": _csrf(house, client)}).status_code == 200


def test_a_public_view_can_not_be_abused_to_act_for_whoever_is_signed_in(house: Flask) -> None:
    client = house.test_client()
    assert client.get("/t/public", headers={"X-Caller": "person"}).text == "ada"
    assert client.post("/t/public", headers={"X-Caller": "person"}).text == "nobody"
    assert client.post("/t/public", headers={"X-Caller": "user token"}).text == "carol"


def test_a_token_in_the_address_is_refused_even_beside_a_good_sign_in(house: Flask) -> None:
    answer = house.test_client().get("/t/user?access_token=ply_abc", headers={"X-Caller": "person"})
    assert answer.status_code == 400
    assert "ply_abc" not in answer.text


def test_nothing_under_webhook_is_ever_redirected(house: Flask) -> None:
    _add(house, "x", _view("public"))
    house.add_url_rule("/webhook/t/<key>", "t_webhook", auth.access("public")(lambda **_: ""), methods=["POST"])
    client = house.test_client()
    for path in ("/webhook/t/k", "/webhook/t/k/", "//webhook/t/k", "/webhook//t/k", "/webhook/t//k", "/webhook/t/"):
        assert client.post(path).status_code in (200, 404)
    assert client.get("/webhook/t/k").status_code == 405


@pytest.mark.parametrize("path", ["/t/public", "/t/user", "/t/unmarked", "/no/such/thing", "/static/no.css"])
def test_every_answer_carries_the_security_headers(house: Flask, path: str) -> None:
    headers = house.test_client().get(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    if not path.startswith("/static"):
        assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("kept", ["/", "/bots", "/bots/3?tab=tools&x=%2F%2F", "/a//b", "/sign-in-help"])
def test_a_path_of_our_own_is_a_fine_next(kept: str) -> None:
    assert auth.local_path(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "bots",
        "https://evil.test",
        "//evil.test",
        "///evil.test",
        "/\\evil.test",
        "\\\\evil.test",
        "/\t/evil.test",
        "/\n/evil.test",
        " //evil.test",
        "/ /evil.test",
        "javascript:alert(1)",
        "/\x00/evil.test",
        "/sign-in",
        "/sign-in?next=/x",
        "/sign-in/",
        "/sign-out",
        "/sign-out//",
        "/..//evil.test",
        "/.//evil.test",
        "/%2e%2E//evil.test",
        "/a/../../b",
        "/" + "a" * 2001,
    ],
)
def test_anything_else_goes_to_the_first_page(text: str | None) -> None:
    assert auth.local_path(text) == "/"


@given(st.text(st.sampled_from("/\\.:@?#%25ab \t\r\n\x00evil"), max_size=30))
def test_next_can_not_be_abused_to_leave_this_server(text: str) -> None:
    target = urljoin("https://parley.test/sign-in", auth.local_path(text))
    assert urlsplit(target).netloc == "parley.test"


def test_the_language_is_the_best_of_those_the_reader_takes(app: Flask) -> None:
    def seen(header: str) -> str:
        with app.test_request_context("/", headers={"Accept-Language": header}):
            return auth.language()

    assert seen("de-AT,de;q=0.9,en;q=0.5") == "de"
    assert seen("de-AT, en;q=0.5") == "de"
    assert seen("fr-CA") == "fr"
    assert seen("en;q=0.2, fr_FR;q=0.4") == "fr"
    assert seen("de;q=0, fr;q=0.1") == "fr"
    assert seen("pl, fr;q=0.3") == "fr"
    assert seen("pl") == "en"
    assert seen("") == "en"
    assert seen("*;q=x,,;;") == "en"


def test_asking_for_an_identity_that_nobody_has_is_told(app: Flask) -> None:
    with app.test_request_context("/"), pytest.raises(NotSignedIn):
        auth.identity()


def _csrf(app: Flask, client: Any) -> str:
    raw = secrets.token_hex(20)
    with client.session_transaction() as session:
        session["csrf_token"] = raw
    return str(URLSafeTimedSerializer(str(app.secret_key), salt="wtf-csrf-token").dumps(raw))
