"""JSON about settings and endpoints."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from flask import Flask

from app.accounts import instances, people, tokens
from app.accounts.models import Person
from app.settings import endpoints, schema, store
from app.settings import routes as door
from tests.fakes.model_server import ModelServer, Reply

CANARY = "canary-5eC4e7-do-not-show"
LEVEL_OF = {
    "GET /api/v1/settings": "administrator",
    "PUT /api/v1/settings": "administrator",
    "DELETE /api/v1/settings/<name>": "administrator",
    "GET /api/v1/endpoints": "administrator",
    "POST /api/v1/endpoints": "administrator",
    "GET /api/v1/endpoints/<name>": "administrator",
    "PUT /api/v1/endpoints/<name>": "administrator",
    "DELETE /api/v1/endpoints/<name>": "administrator",
    "POST /api/v1/endpoints/<name>/test": "administrator",
    "GET /api/v1/models": "user",
}


class Caller:
    """Sends requests with one token."""

    def __init__(self, app: Flask, person: Person, scope: str) -> None:
        token = tokens.issue(person.instance_id, person_id=person.id, scope=scope)[1]
        self.client = app.test_client()
        self.headers = {"Authorization": f"Bearer {token}"}

    def __call__(self, route: str, json: Any = None) -> Any:
        method, _, path = route.partition(" ")
        return self.client.open(f"/api/v1/{path}", method=method, json=json, headers=self.headers)


@pytest.fixture
def carol(app: Flask) -> Caller:
    home = instances.add("cloud", "https://cloud.example.test")
    return Caller(app, people.grant(people.ensure(home.id, "carol").id, admin=True), "administrator")


@pytest.fixture
def ada(app: Flask, carol: Caller) -> Caller:
    return Caller(app, people.ensure(instances.chosen(None).id, "ada"), "user")


def value_of(answer: Any, name: str) -> Any:
    return next(each["value"] for each in answer.json["settings"] if each["name"] == name)


def test_every_route_has_the_level_that_stands_here(app: Flask) -> None:
    found = {
        f"{method} {rule.rule}": app.view_functions[rule.endpoint].parley_access  # type: ignore[attr-defined]
        for rule in app.url_map.iter_rules()
        if rule.endpoint.startswith(f"{door.blueprint.name}.")
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    }
    assert found == LEVEL_OF


@pytest.mark.parametrize("route", LEVEL_OF)
def test_each_route_is_closed_to_strangers_and_to_whoever_has_less(
    app: Flask, carol: Caller, ada: Caller, route: str
) -> None:
    store.set("branding_name", "Before")
    endpoints.save("primary", url="http://127.0.0.1:9", key=CANARY)
    path = route.replace("/api/v1/", "").replace("<name>", "primary")
    stranger = Caller.__new__(Caller)
    stranger.client, stranger.headers = app.test_client(), {}
    body = {"branding_name": "After", "name": "other", "url": "http://127.0.0.1:8"}
    assert stranger(path, body).status_code == 401
    if LEVEL_OF[route] == "administrator":
        answer = ada(path, body)
        assert answer.status_code == 403
        assert "primary" not in answer.text
    assert store.get("branding_name") == "Before"
    assert [(info.name, info.url) for info in endpoints.all()] == [("primary", "http://127.0.0.1:9")]


def test_every_setting_is_shown_with_what_it_takes(carol: Caller) -> None:
    shown = carol("GET settings").json["settings"]
    assert [each["name"] for each in shown] == [setting.name for setting in schema.SETTINGS]
    for each in shown:
        assert {"value", "default", "limits", "about", "is_default", "kind", "choices"} <= set(each)
        assert each["about"]
        assert each["limits"]


def test_settings_are_told_in_the_language_of_the_reader(carol: Caller) -> None:
    carol.headers |= {"Accept-Language": "de"}
    shown = {each["name"]: each for each in carol("GET settings").json["settings"]}
    assert shown["branding_name"]["about"] == "Der Name auf jeder Seite."
    assert shown["turn_seconds"]["limits"] == "Geben Sie eine ganze Zahl von 10 bis 900 an."


def test_settings_change_together_or_not_at_all(carol: Caller) -> None:
    answer = carol("PUT settings", {"turn_seconds": 120, "branding_name": "Our Parley"})
    assert answer.status_code == 200
    assert (value_of(answer, "turn_seconds"), value_of(answer, "branding_name")) == (120, "Our Parley")
    answer = carol("PUT settings", {"turn_seconds": 60, "language": "tlh", "nothing": 1})
    assert answer.status_code == 400
    assert set(answer.json["fields"]) == {"language", "nothing"}
    assert "Give one of: en, de, fr." in answer.json["fields"]["language"]
    assert store.get("turn_seconds") == 120


@pytest.mark.parametrize("body", [[], "x", 3, None, [["turn_seconds", 60]]])
def test_a_body_of_another_form_changes_nothing(carol: Caller, body: Any) -> None:
    answer = carol("PUT settings", body)
    assert answer.status_code == (200 if body is None else 400)
    assert all(each["is_default"] for each in store.show())


def test_a_setting_goes_back_to_its_default(carol: Caller) -> None:
    store.set("turn_seconds", 120)
    assert carol("DELETE settings/turn_seconds").status_code == 204
    assert carol("DELETE settings/turn_seconds").status_code == 204
    assert carol("DELETE settings/nothing").status_code == 400
    assert store.get("turn_seconds") == 300


def test_a_secret_never_stands_in_an_answer_or_a_log(carol: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ModelServer() as server:
        server.answer(Reply(status=401, body=f"key {CANARY} is wrong".encode()), on="models")
        new = {"name": "primary", "url": server.url, "key": CANARY, "default_model": "m"}
        answers = [
            carol("PUT settings", {"metrics_token": CANARY}),
            carol("POST endpoints", new),
            carol("POST endpoints", new),
            carol("PUT endpoints/primary", {"url": "ftp://x", "key": CANARY}),
            carol("PUT endpoints/primary", {"url": "http://other.example.test"}),
            carol("PUT endpoints/primary", {"key": CANARY + "\n"}),
            carol("PUT settings", {"metrics_token": CANARY + "\n!"}),
            carol("PUT settings", {"metrics_token": [CANARY]}),
            carol("POST endpoints/primary/test"),
            carol("GET endpoints"),
            carol("GET endpoints/primary"),
            carol("GET settings"),
            carol("GET models"),
        ]
    assert answers[0].status_code == 200
    assert not [answer.text for answer in answers if CANARY in answer.text]
    assert CANARY not in caplog.text
    assert value_of(answers[0], "metrics_token") == "set, ends in …how"


def test_a_blank_secret_keeps_and_null_clears(carol: Caller) -> None:
    carol("PUT settings", {"metrics_token": CANARY})
    carol("PUT settings", {"metrics_token": "", "turn_seconds": 60})
    assert store.get("metrics_token") == CANARY
    shown = value_of(carol("GET settings"), "metrics_token")
    carol("PUT settings", {"metrics_token": shown})
    assert store.get("metrics_token") == CANARY
    carol("PUT settings", {"metrics_token": None})
    assert store.get("metrics_token") is None


def test_an_endpoint_is_added_changed_and_removed(carol: Caller) -> None:
    made = carol("POST endpoints", {"name": "primary", "url": "http://127.0.0.1:9/v1/", "key": CANARY})
    assert (made.status_code, made.json["url"], made.json["key"]) == (201, "http://127.0.0.1:9/v1", "set, ends in …how")
    assert carol("POST endpoints", {"name": "primary", "url": "http://127.0.0.1:9"}).status_code == 409
    carol("PUT endpoints/primary", {"default_model": "qwen:7b", "allowed_models": ["qwen:7b"], "key": ""})
    found = endpoints.get("primary")
    assert found is not None
    assert (found.key, found.default_model, found.allowed_models) == (CANARY, "qwen:7b", ("qwen:7b",))
    assert value_of(carol("GET settings"), "default_model") == "primary:qwen:7b"
    cleared = carol("PUT endpoints/primary", {"key": None, "default_model": None, "allowed_models": None}).json
    assert (cleared["key"], cleared["default_model"], cleared["allowed_models"]) == ("", None, [])
    assert [each["name"] for each in carol("GET endpoints").json["endpoints"]] == ["primary"]
    assert carol("DELETE endpoints/primary").status_code == 204
    assert carol("DELETE endpoints/primary").status_code == 404
    assert carol("GET endpoints/primary").status_code == 404
    assert carol("PUT endpoints/primary", {"default_model": "m"}).status_code == 404
    assert carol("POST endpoints/primary/test").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "primary"}, "url"),
        ({"url": "http://127.0.0.1:9"}, "name"),
        ({"name": "offline", "url": "http://127.0.0.1:9"}, "name"),
        ({"name": "a:b", "url": "http://127.0.0.1:9"}, "name"),
        ({"name": "primary", "url": 3}, "url"),
        ({"name": "primary", "url": "http://user:pw@127.0.0.1"}, "url"),
        ({"name": "primary", "url": "http://169.254.169.254/v1"}, "url"),
        ({"name": "primary", "url": "http://127.0.0.1:9", "key": 7}, "key"),
        ({"name": "primary", "url": "http://127.0.0.1:9", "key": "ü"}, "key"),
        ({"name": "primary", "url": "http://127.0.0.1:9", "default_model": ["m"]}, "default_model"),
        ({"name": "primary", "url": "http://127.0.0.1:9", "default_model": "m\n" * 90}, "default_model"),
        ({"name": "primary", "url": "http://127.0.0.1:9", "allowed_models": "m"}, "allowed_models"),
        ({"name": "primary", "url": "http://127.0.0.1:9", "models": []}, "models"),
    ],
)
def test_a_bad_field_of_an_endpoint_is_named_and_nothing_is_saved(carol: Caller, body: Any, field: str) -> None:
    answer = carol("POST endpoints", body)
    assert answer.status_code == 400
    assert field in answer.json["fields"]
    assert endpoints.all() == []


def test_a_test_asks_the_real_server_and_says_what_came_of_it(carol: Caller) -> None:
    with ModelServer() as server:
        server.models = ["small", "large"]
        carol("POST endpoints", {"name": "primary", "url": server.url, "key": CANARY})
        good = carol("POST endpoints/primary/test").json
        assert (good["ok"], good["models"]) == (True, ["large", "small"])
        assert good["message"]
        assert good["milliseconds"] >= 0
        assert server.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    dead = carol("POST endpoints/primary/test").json
    assert (dead["ok"], dead["models"]) == (False, [])
    assert "127.0.0.1" not in dead["message"]
    assert carol("POST endpoints/offline/test").json["ok"]


def test_people_choose_from_the_models_of_all_endpoints(ada: Caller) -> None:
    with ModelServer() as server:
        server.models = ["small"]
        endpoints.save("primary", url=server.url, key=CANARY, model="small")
        found = ada("GET models")
    assert "primary:small" in found.json["models"]
    assert found.json["default_model"] == "primary:small"
    assert {"reference", "label", "model", "endpoint"} == set(found.json["model_options"][0])
    assert server.url not in found.text
