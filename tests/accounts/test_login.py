"""Signing in and out in a browser."""

from __future__ import annotations

import logging
import re
import statistics
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from app.accounts import attempts, login, people
from app.accounts.models import LoginFailure
from app.infra import clock, crypto
from app.infra.db import db, reading
from app.settings import store
from tests.accounts.conftest import PASSWORD, House


def csrf_of(browser: Any, path: str = "/sign-in") -> str:
    found = re.search(r'name="csrf_token" value="([^"]+)"', browser.get(path).text)
    assert found is not None
    return found[1]


def sign_in(browser: Any, uid: str = "ada", password: str = PASSWORD, **more: Any) -> Any:
    form = {"uid": uid, "password": password, "csrf_token": csrf_of(browser)} | more
    return browser.post("/sign-in", data=form)


def me(browser: Any) -> Any:
    return browser.get("/api/v1/me")


def test_a_person_signs_in_sees_who_they_are_and_signs_out(house: House, browser: Any) -> None:
    assert me(browser).status_code == 401
    answer = sign_in(browser)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert me(browser).json["uid"] == "ada"
    home = browser.get("/")
    assert home.status_code == 200
    assert "ada" in home.text
    answer = browser.post("/sign-out", data={"csrf_token": csrf_of(browser, "/")})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in")
    assert me(browser).status_code == 401


def test_the_first_page_sends_a_stranger_to_the_sign_in_page(house: House, browser: Any) -> None:
    answer = browser.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in?next=/")


def test_signing_in_goes_on_to_where_one_wanted(house: House, browser: Any) -> None:
    page = browser.get("/sign-in?next=/bots%3Ftab%3Dtools")
    assert 'value="/bots?tab=tools"' in page.text
    assert sign_in(browser, next="/bots?tab=tools").headers["Location"] == "/bots?tab=tools"
    assert browser.get("/sign-in?next=/bots").headers["Location"] == "/bots"


@pytest.mark.parametrize("target", ["https://evil.test", "//evil.test", "/\\evil.test", "/\t/evil.test", "/sign-out"])
def test_next_can_not_be_abused_to_leave_this_server(house: House, browser: Any, target: str) -> None:
    assert "evil.test" not in browser.get("/sign-in", query_string={"next": target}).text
    assert sign_in(browser, next=target).headers["Location"] == "/"
    assert browser.get("/sign-in", query_string={"next": target}).headers["Location"] == "/"


def test_a_wrong_password_is_told_and_the_form_keeps_what_was_typed(house: House, browser: Any) -> None:
    answer = sign_in(browser, password="wrong-canary-pw", next="/bots")
    assert answer.status_code == 401
    assert "don&#39;t fit together" in answer.text
    assert 'value="ada"' in answer.text
    assert 'value="/bots"' in answer.text
    assert "wrong-canary-pw" not in answer.text
    assert me(browser).status_code == 401


@pytest.mark.parametrize("uid", ["ada", "nobody", "bob", "a/b", "", "x" * 5000, "a\x00b", "' OR 1=1 --"])
def test_name_and_password_that_do_not_fit_get_the_same_answer_whoever_is_meant(
    house: House, browser: Any, uid: str
) -> None:
    answer = sign_in(browser, uid=uid, password="wrong password")
    assert answer.status_code == 401
    assert "don&#39;t fit together" in answer.text
    known = sign_in(browser, uid="ada", password="wrong password")
    assert _without_what_was_typed(known.text) == _without_what_was_typed(answer.text)


def test_an_unknown_name_costs_the_same_work_as_a_known_one(house: House, app: Flask) -> None:
    def seconds(uid: str) -> float:
        begun = time.perf_counter()
        with pytest.raises(login.WrongPassword):
            login.authenticate(house.cloud, uid, password="wrong", address="192.0.2.7", browser="mark" + uid)
        return time.perf_counter() - begun

    known = statistics.median(seconds("ada") for _ in range(4))
    unknown = statistics.median(seconds("nobody") for _ in range(4))
    without = statistics.median(seconds("bob") for _ in range(4))
    assert unknown > known / 2
    assert without > known / 2


def test_the_stand_in_hash_has_the_parameters_of_real_ones(app: Flask) -> None:
    assert login.NOBODY.split("$")[1:4] == crypto.hash_password("some password").split("$")[1:4]
    assert not crypto.password_fits("", login.NOBODY)


def test_signing_in_needs_the_token_of_its_page(house: House, browser: Any) -> None:
    answer = browser.post("/sign-in", data={"uid": "ada", "password": PASSWORD, "next": "/bots"})
    assert answer.status_code == 403
    assert "Load it again" in answer.text
    assert 'value="ada"' in answer.text
    assert me(browser).status_code == 401
    with reading() as session:
        assert session.query(LoginFailure).count() == 0


def test_signing_out_needs_the_token_of_its_page(house: House, browser: Any) -> None:
    sign_in(browser)
    assert browser.post("/sign-out").status_code == 403
    assert browser.get("/sign-out").status_code == 405
    assert me(browser).status_code == 200


def test_a_planted_session_can_not_be_abused_to_get_into_the_one_that_begins(house: House, app: Flask) -> None:
    attacker, victim = app.test_client(), app.test_client()
    attacker.get("/sign-in")
    planted = attacker.get_cookie("parley")
    assert planted is not None
    victim.set_cookie("parley", planted.value)
    before = csrf_of(attacker)
    assert sign_in(victim).status_code == 303
    assert me(victim).status_code == 200
    assert me(attacker).status_code == 401
    fresh = victim.get_cookie("parley")
    assert fresh is not None
    assert fresh.value != planted.value
    answer = victim.post("/api/v1/tokens", json={"scope": "user"}, headers={"X-CSRFToken": before})
    assert answer.status_code == 403


def test_a_copied_cookie_is_worth_nothing_after_sign_out(house: House, app: Flask, browser: Any) -> None:
    sign_in(browser)
    thief = app.test_client()
    copied = browser.get_cookie("parley")
    thief.set_cookie("parley", copied.value)
    assert me(thief).status_code == 200
    browser.post("/sign-out", data={"csrf_token": csrf_of(browser, "/")})
    assert me(thief).status_code == 401
    assert sign_in(browser).status_code == 303
    assert me(browser).status_code == 200
    assert me(thief).status_code == 401


def test_a_new_password_ends_every_session(house: House, browser: Any) -> None:
    sign_in(browser)
    people.set_password(house.ada.id, "another password")
    assert me(browser).status_code == 401
    assert sign_in(browser).status_code == 401
    assert sign_in(browser, password="another password").status_code == 303


def test_a_session_ends_after_two_weeks(house: House, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(browser)
    later = clock.now() + login.SESSION_LASTS + timedelta(seconds=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert me(browser).status_code == 401


def test_rights_that_were_taken_are_gone_at_the_next_request(house: House, browser: Any) -> None:
    sign_in(browser, uid="carol")
    assert browser.get("/api/v1/people").status_code == 200
    people.grant(house.carol.id, admin=False)
    assert browser.get("/api/v1/people").status_code == 403


@pytest.mark.parametrize(
    "values",
    [
        {"person": "1", "begun": "2026-01-01T00:00:00+00:00"},
        {"person": 1},
        {"person": 1, "begun": "yesterday"},
        {"person": 1, "begun": "2020-01-01"},
        {"person": 999_999, "begun": "2999-01-01T00:00:00+00:00"},
        {"person": None, "begun": None},
    ],
)
def test_a_session_of_another_form_is_nobodys(house: House, browser: Any, values: dict[str, Any]) -> None:
    with browser.session_transaction() as session:
        session.update(values)
    assert me(browser).status_code == 401


def test_a_cookie_that_we_did_not_sign_is_nobodys(house: House, browser: Any) -> None:
    browser.set_cookie("parley", "eyJwZXJzb24iOjF9.aaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb")
    assert me(browser).status_code == 401


def test_the_cookies_are_out_of_reach_of_scripts_and_other_sites(house: House, browser: Any) -> None:
    cookies = sign_in(browser).headers.getlist("Set-Cookie")
    assert {cookie.partition("=")[0] for cookie in cookies} == {"parley", "parley_known"}
    assert all("HttpOnly" in cookie for cookie in cookies)
    assert all("SameSite=Lax" in cookie or "SameSite=Strict" in cookie for cookie in cookies)
    assert PASSWORD not in str(cookies)


def test_the_password_decides_in_the_chosen_instance_only(house: House, browser: Any) -> None:
    people.set_password(house.namesake.id, "a namesake password")
    assert '<option value="other"' in browser.get("/sign-in").text
    assert sign_in(browser, instance="other").status_code == 401
    assert sign_in(browser, instance="nowhere").status_code == 401
    assert sign_in(browser, instance="other", password="a namesake password").status_code == 303
    assert me(browser).json["instance"] == "other"


def test_guessing_is_slowed_and_the_answer_says_how_long(house: House, browser: Any) -> None:
    answers = [sign_in(browser, password="wrong password") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429]
    assert answers[-1].headers["Retry-After"] == "1"
    assert "Wait 1 s" in answers[-1].text
    assert sign_in(browser).status_code == 429


def test_a_person_with_a_known_browser_gets_in_while_somebody_guesses(house: House, app: Flask, browser: Any) -> None:
    assert sign_in(browser).status_code == 303
    browser.delete_cookie("parley")
    guesser = app.test_client()
    assert [sign_in(guesser, password=f"guess {n}").status_code for n in range(6)][-1] == 429
    assert sign_in(browser).status_code == 303


def test_a_known_browser_of_one_person_can_not_be_abused_to_guess_others(
    house: House, app: Flask, browser: Any
) -> None:
    assert sign_in(browser).status_code == 303
    browser.delete_cookie("parley")
    codes = [sign_in(browser, uid="carol", password=f"guess {n}").status_code for n in range(6)]
    assert codes == [401] * 5 + [429]


def test_a_made_up_mark_of_a_known_browser_counts_for_nothing(house: House, browser: Any) -> None:
    browser.set_cookie("parley_known", "eyJpZCI6IngiLCJwZW9wbGUiOltdfQ.aaaa.bbbb", path="/sign-in")
    codes = [sign_in(browser, password=f"guess {n}").status_code for n in range(6)]
    assert codes[-1] == 429


def test_many_guesses_at_once_are_not_more_guesses(house: House, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = clock.now()
    monkeypatch.setattr(clock, "now", lambda: moment)
    let_through: list[int] = []

    def guess() -> None:
        with app.app_context():
            try:
                attempts.begin(attempts.subjects(1, "ada", address="192.0.2.1", browser=None))
                let_through.append(1)
            except attempts.TooMany:
                pass
            finally:
                db.session.remove()

    threads = [threading.Thread(target=guess) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(let_through) == 5


def test_a_flood_of_sign_ins_waits_at_the_gate(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "GATE_SECONDS", 0.01)
    for _ in range(login.AT_ONCE):
        login.state.gate.acquire()
    try:
        with pytest.raises(login.TooMany):
            login.authenticate(house.cloud, "ada", password=PASSWORD, address=None, browser=None)
    finally:
        for _ in range(login.AT_ONCE):
            login.state.gate.release()


def test_no_password_reaches_a_log(house: House, browser: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sign_in(browser, password="canary-5eC4e7-wrong")
    sign_in(browser)
    assert "canary-5eC4e7" not in caplog.text
    assert PASSWORD not in caplog.text


def test_without_an_administrator_the_page_says_which_command_makes_one(app: Flask, browser: Any) -> None:
    page = browser.get("/sign-in")
    assert page.status_code == 200
    assert "python manage.py users add NAME --admin --password-stdin" in page.text
    assert "An administrator gives you one" not in page.text
    assert sign_in(browser, uid="anyone").status_code == 401


def test_with_an_administrator_the_page_is_quiet_about_it(house: House, browser: Any) -> None:
    assert "manage.py" not in browser.get("/sign-in").text


@pytest.mark.parametrize(
    ("header", "word"), [("en", "Password"), ("de-AT, en;q=0.5", "Passwort"), ("fr", "Mot de passe")]
)
def test_the_page_speaks_the_language_of_the_browser(house: House, browser: Any, header: str, word: str) -> None:
    page = browser.get("/sign-in", headers={"Accept-Language": header})
    assert f">{word}<" in page.text
    assert f'lang="{header[:2]}"' in page.text


def test_every_field_has_a_label_and_nothing_is_inline(house: House, browser: Any) -> None:
    people.set_password(house.namesake.id, "a namesake password")
    page = browser.get("/sign-in").text
    ids = set(re.findall(r'<(?:input|select)[^>]*\bid="([^"]+)"', page))
    assert ids == {"uid", "password", "instance"}
    assert ids == set(re.findall(r'<label for="([^"]+)"', page))
    assert page.count("<h1") == 1
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bstyle=|\bon[a-z]+=", page)


def test_what_was_typed_can_not_be_abused_to_run_a_script(house: House, browser: Any) -> None:
    answer = sign_in(browser, uid='"><script>alert(1)</script>', password="wrong password")
    assert "<script>alert" not in answer.text


def _without_what_was_typed(page: str) -> list[str]:
    return re.sub(r'value="[^"]*"|autofocus|>', " ", page).split()


def test_who_has_no_password_is_told_who_gives_one(house: House, browser: Any) -> None:
    assert "An administrator gives you one" in browser.get("/sign-in").text


def test_every_page_calls_the_installation_as_its_setting_says(house: House, browser: Any) -> None:
    store.set("branding_name", "Harbour <AI>")
    for page in (browser.get("/sign-in"), sign_in(browser) and browser.get("/")):
        assert "· Harbour &lt;AI&gt;</title>" in page.text
        assert '<a class="brand" href="/">Harbour &lt;AI&gt;</a>' in page.text
