from __future__ import annotations

import json
import socket
import time
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from app.infra import clock
from app.llm import catalog, urls
from app.llm.base import ErrorClass, ModelError
from app.llm.quirks import memory
from app.llm.quirks.base import Quirk
from app.settings import endpoints, store
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.raw_server import RawServer, read_request

KEY = "canary-key-1234"


@pytest.fixture(autouse=True)
def _forget_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "tried", catalog._Tried())


def references(**how: Any) -> list[str]:
    return [option.reference for option in catalog.models(**how)]


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_without_endpoints_there_is_the_offline_model(app: Flask) -> None:
    assert catalog.models() == [catalog.ModelOption("offline:quote", "Offline - quote", "quote", "offline")]


def test_the_lists_of_all_endpoints_are_merged_in_their_order(app: Flask, model_server: ModelServer) -> None:
    with ModelServer() as second:
        model_server.models, second.models = ["b", "a"], ["a", "mistral:latest"]
        endpoints.save("primary", url=model_server.url, key=KEY)
        endpoints.save("beta", url=second.url)
        assert references() == ["primary:a", "primary:b", "beta:a", "beta:mistral:latest", "offline:quote"]
        assert catalog.models()[0].label == "Primary - a"
        assert model_server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert "authorization" not in second.requests[0].headers


def test_lists_are_kept_for_a_while(app: Flask, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoints.save("primary", url=model_server.url)
    for _ in range(3):
        catalog.models()
    assert len(model_server.requests) == 1
    catalog.models(refresh=True)
    assert len(model_server.requests) == 2
    later = clock.now() + timedelta(seconds=301)
    monkeypatch.setattr(clock, "now", lambda: later)
    catalog.models()
    assert len(model_server.requests) == 3


def test_a_dead_endpoint_hides_no_other_and_is_not_asked_again_at_every_look(
    app: Flask, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints.save("dead", url=nobody(), model="known")
    endpoints.save("primary", url=model_server.url)
    assert references() == ["dead:known", "primary:case-model", "offline:quote"]
    info = endpoints.get("dead")
    assert info is not None
    assert "refused" in (info.models_error or "")
    asked: list[str] = []
    monkeypatch.setattr(catalog, "_asked", lambda info, _: asked.append(info.name))
    catalog.models()
    assert asked == []


def test_endpoints_are_asked_at_the_same_time(app: Flask) -> None:
    def slow(connection: socket.socket) -> None:
        read_request(connection)
        time.sleep(0.5)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

    with RawServer(slow) as server:
        for name in ("a", "b", "c", "d"):
            endpoints.save(name, url=server.url)
        begun = time.monotonic()
        catalog.models()
        assert time.monotonic() - begun < 1.2


def test_models_of_last_time_stay_when_the_server_dies(app: Flask) -> None:
    with ModelServer() as server:
        endpoints.save("primary", url=server.url)
        catalog.models()
    assert references(refresh=True) == ["primary:case-model", "offline:quote"]


def test_only_allowed_models_are_offered(app: Flask, model_server: ModelServer) -> None:
    model_server.models = ["a", "b", "c"]
    endpoints.save("primary", url=model_server.url, allowed_models=["a", "b"])
    assert references() == ["primary:a", "primary:b", "offline:quote"]
    store.set("allowed_models", ["primary:b", "c"])
    assert references() == ["primary:b", "offline:quote"]


def test_only_the_default_is_offered_where_bots_may_have_no_model_of_their_own(
    app: Flask, model_server: ModelServer
) -> None:
    store.set("allow_multiple_models", False)
    assert references() == ["offline:quote"]
    model_server.models = ["a", "b"]
    endpoints.save("primary", url=model_server.url, model="b")
    assert references() == ["primary:b"]


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ({"data": [{"id": "b"}, {"id": "a"}, {"id": "b"}, {"object": "model"}, None, 3, "c"]}, ["a", "b", "c"]),
        ({"data": None}, []),
        ([{"id": "x"}], ["x"]),
        ({"models": [{"name": "mistral:latest"}, "y", {"model": "z"}]}, ["mistral:latest", "y", "z"]),
        ({"data": [{"id": ""}, {"id": " a "}, {"id": "x" * 300}, {"id": "a\nb"}, {"id": 3, "name": "n"}]}, ["a", "n"]),
        ({"data": "x"}, []),
    ],
)
def test_lists_of_all_shapes_are_read(value: Any, ids: list[str]) -> None:
    assert [model.id for model in catalog.listed(json.dumps(value).encode())] == ids


@pytest.mark.parametrize("body", [b"<html>", b"", b'"x"', b"3", b'{"status": "ok"}', b"\xff", b"[" * 100_000])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        catalog.listed(body)
    assert caught.value.error_class == ErrorClass.NOT_JSON


def test_the_smallest_context_that_a_server_names_counts() -> None:
    entry = {"id": "a", "context_length": 8192, "top_provider": {"context_length": 4096}, "max_model_len": 0}
    body = json.dumps({"data": [entry, {"id": "b", "context_length": "many"}]}).encode()
    assert [model.context_length for model in catalog.listed(body)] == [4096, None]


def test_the_smallest_output_that_a_server_names_counts() -> None:
    entry = {"id": "a", "max_output_tokens": 8192, "top_provider": {"max_completion_tokens": 4096}}
    others = [{"id": "b", "max_completion_tokens": True}, {"id": "c", "max_output_tokens": 2**40}]
    body = json.dumps({"data": [entry, *others]}).encode()
    assert [model.max_output_tokens for model in catalog.listed(body)] == [4096, None, None]


def test_a_test_begins_anew_with_what_was_learned(app: Flask, model_server: ModelServer) -> None:
    endpoints.save("primary", url=model_server.url)
    chat = urls.normalise(model_server.url).chat
    memory.remember("primary", "m", chat, {Quirk.NO_TOOLS: 0})
    memory.remember("secondary", "m", chat, {Quirk.NO_TOOLS: 0})
    assert catalog.test("primary").ok
    assert not memory.recall("primary", "m", chat)
    assert memory.recall("secondary", "m", chat)


def test_an_endpoint_that_works_says_so(app: Flask, model_server: ModelServer) -> None:
    endpoints.save("primary", url=model_server.url, model="case-model")
    result = catalog.test("primary")
    assert (result.ok, result.models) == (True, ("case-model",))
    assert str(result.message) == "The server answers. It lists this many models: 1."


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=401, json={"error": {"message": f"bad key {KEY}"}}), "does not accept the key"),
        (Reply(status=404, body=b"<h1>Not Found</h1>"), "no list of models"),
        (Reply(status=429), "too much to do"),
        (Reply(status=500, body=b"oops"), "HTTP 500"),
        (Reply(status=302, headers={"Location": "http://other.example.test/"}), "must not be reached"),
        (Reply(body=b"<html>a router</html>"), "not like a model server"),
        (Reply(json={"data": [{"id": "other"}]}), "does not list the model case-model"),
    ],
)
def test_one_sentence_says_what_is_wrong_with_an_endpoint(
    app: Flask, model_server: ModelServer, reply: Reply, words: str
) -> None:
    model_server.answer(reply, on="models")
    endpoints.save("primary", url=model_server.url, key=KEY, model="case-model")
    result = catalog.test("primary")
    assert not result.ok
    assert words in str(result.message)
    info = endpoints.get("primary")
    assert info is not None
    assert KEY not in str(result.message) + (info.models_error or "")


def test_one_sentence_says_why_nothing_answers(app: Flask, model_server: ModelServer) -> None:
    endpoints.save("primary", url=nobody())
    assert "Is the model server running" in str(catalog.test("primary").message)
    endpoints.save("primary", url=f"https://127.0.0.1:{model_server.port}")
    assert "certificate" in str(catalog.test("primary").message)
    with RawServer(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")) as ssh:
        endpoints.save("primary", url=ssh.url)
        assert "does not speak HTTP" in str(catalog.test("primary").message)
    store.set("models_timeout", 1)
    with RawServer(lambda _: time.sleep(5)) as silent:
        endpoints.save("primary", url=silent.url)
        assert "in time" in str(catalog.test("primary").message)


def test_an_endpoint_that_is_not_there_and_the_one_that_always_is(app: Flask) -> None:
    assert not catalog.test("gone").ok
    assert catalog.test("offline").ok
