from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.infra import clock
from app.infra.http import HttpError
from app.llm import failures
from app.llm.base import ErrorClass as E

KEY = "canary-key-1234"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}, E.AUTH),
        (403, "Forbidden", E.AUTH),
        (402, {"error": {"message": "Insufficient credits"}}, E.RATE_LIMIT),
        (429, {"error": {"message": "slow down"}}, E.RATE_LIMIT),
        (
            413,
            {"error": {"code": "rate_limit_exceeded", "message": "Request too large: tokens per minute"}},
            E.RATE_LIMIT,
        ),
        (404, {"error": {"message": "model 'x' not found, try pulling it first"}}, E.MODEL_NOT_FOUND),
        (404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}, E.MODEL_NOT_FOUND),
        (400, {"error": {"message": "x is not a valid model ID", "code": 400}}, E.BAD_REQUEST),
        (400, {"error": {"message": "invalid model: x"}}, E.MODEL_NOT_FOUND),
        (404, "<html>404 page not found</html>", E.BAD_REQUEST),
        (400, {"error": {"message": "This model's maximum context length is 16384 tokens."}}, E.CONTEXT_OVERFLOW),
        (400, {"error": {"message": "Input too long", "code": "context_length_exceeded"}}, E.CONTEXT_OVERFLOW),
        (500, {"error": {"message": "the request exceeds the available context size"}}, E.CONTEXT_OVERFLOW),
        (422, {"detail": [{"msg": "prompt is too long", "loc": ["body"]}]}, E.CONTEXT_OVERFLOW),
        (413, "<h1>413 Request Entity Too Large</h1>", E.CONTEXT_OVERFLOW),
        (400, {"message": '"auto" tool choice requires --enable-auto-tool-choice to be set'}, E.TOOLS_UNSUPPORTED),
        (404, {"error": {"message": "No endpoints found that support tool use."}}, E.TOOLS_UNSUPPORTED),
        (400, {"error": {"message": "registry.test/x does not support tools"}}, E.TOOLS_UNSUPPORTED),
        (400, {"error": {"message": "Unsupported parameter: 'max_tokens' with this model."}}, E.BAD_REQUEST),
        (422, {"detail": "temperature must be lower"}, E.BAD_REQUEST),
        (408, "", E.TIMEOUT),
        (500, "", E.UPSTREAM),
        (502, "<html><title>502 Bad Gateway</title></html>", E.UPSTREAM),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, E.UPSTREAM),
        (301, "", E.BAD_REQUEST),
    ],
)
def test_answers_are_told_apart(status: int, body: Any, kind: E) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    error = failures.of_answer(status, raw, {}, key=KEY)
    assert error.error_class == kind
    assert error.http_status == status
    assert KEY not in error.detail
    assert "<" not in str(error.sentence)
    assert len(error.detail) <= failures.DETAIL_CHARS


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"error": {"message": "quota exceeded for this key", "code": 429}}, E.RATE_LIMIT),
        ({"error": {"message": "busy", "code": "429"}}, E.RATE_LIMIT),
        ({"error": {"code": 502, "message": "Upstream worker died"}}, E.UPSTREAM),
        ({"error": {"message": "overloaded", "type": "overloaded_error", "code": None}}, E.UPSTREAM),
        ({"error": {"message": "You exceeded your quota", "type": "insufficient_quota"}}, E.RATE_LIMIT),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, E.BAD_REQUEST),
        ({"error": {"message": "Invalid API key", "type": "authentication_error"}}, E.AUTH),
        ({"error": "something broke"}, E.UPSTREAM),
        ({"error": ["a", "b"]}, E.UPSTREAM),
        ({"error": True}, E.UPSTREAM),
        ({"object": "error", "message": "x", "code": 400}, E.BAD_REQUEST),
    ],
)
def test_errors_inside_a_stream_are_told_apart(value: Any, kind: E) -> None:
    assert failures.in_stream(value).error_class == kind


def test_the_message_of_the_server_stands_in_the_detail() -> None:
    error = failures.of_answer(502, b"<html><style>a{}</style><h1>502 Bad\n Gateway</h1></html>", {})
    assert error.detail == "HTTP 502 502 Bad Gateway"


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("This model's maximum context length is 16384 tokens. However, you requested 122946 tokens", 16384),
        ("request (33056 tokens) exceeds the available context size (32768 tokens)", 32768),
        ("Prompt of 9000 tokens does not fit the model context of 8192", 8192),
        ("prompt is too long: 200123 tokens > 200000 maximum", 200000),
        ("Input is too long for requested model.", None),
    ],
)
def test_the_limit_that_a_server_names_is_read(message: str, limit: int | None) -> None:
    error = failures.of_answer(400, json.dumps({"error": {"message": message}}).encode(), {})
    assert (error.error_class, error.limit_tokens) == (E.CONTEXT_OVERFLOW, limit)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sat, 25 Jul 2026 12:00:20 GMT"}, 20),
        ({"retry-after": "Sat, 25 Jul 2026 11:59:00 GMT"}, 0),
        ({"retry-after": "1790000000"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], seconds: float | None) -> None:
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 7, 25, 12, tzinfo=UTC))
    assert failures.of_answer(429, b"", headers).retry_after == seconds


@pytest.mark.parametrize(
    ("kind", "expected", "permanent"),
    [
        ("refused", E.UNREACHABLE, False),
        ("dns", E.UNREACHABLE, False),
        ("reset", E.UNREACHABLE, False),
        ("timeout", E.TIMEOUT, False),
        ("too_large", E.TOO_LARGE, True),
    ],
)
def test_a_broken_exchange_has_a_class(kind: Any, expected: E, permanent: bool) -> None:
    error = failures.of_http(HttpError(kind, sent=True, detail=f"x {KEY}"), key=KEY)
    assert (error.error_class, error.permanent) == (expected, permanent)
    assert KEY not in error.detail


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"error": {"message": "no", "param": "max_tokens"}}, "max_tokens"),
        ({"detail": [{"msg": "Extra inputs", "loc": ["body", "stream_options"]}]}, "stream_options"),
        ({"detail": [{"msg": "Extra inputs", "loc": ["body"]}]}, ""),
        ({"error": {"message": "no", "param": "tools[0].function.name"}}, "name"),
        ({"error": {"message": "no", "param": None}}, ""),
        ("no", ""),
    ],
)
def test_the_field_that_a_server_refuses_is_read(body: Any, param: str) -> None:
    error = failures.of_answer(400, json.dumps(body).encode(), {})
    assert error.param == param
    assert param in error.detail


def test_every_class_has_a_sentence() -> None:
    assert set(failures.SENTENCES) == set(E)


def test_what_looks_like_a_key_is_masked_though_it_is_not_ours() -> None:
    assert "abcdef" not in failures.masked("key sk-abcdef1234567890 and Bearer abcdef1234567890", None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "detail", "errors", "n_ctx", "param", "loc"]), inner
        )
    ),
    max_leaves=10,
)


@given(st.sampled_from([200, 400, 401, 404, 413, 429, 500]), JSON | st.binary(max_size=50))
def test_any_error_body_becomes_a_failure(status: int, body: Any) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert failures.of_answer(status, raw, {"retry-after": "x"}).detail is not None
