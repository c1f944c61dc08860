from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm import failures, payload
from app.llm.base import ChatRequest, Message, ToolCall, ToolSchema
from app.llm.quirks import signs
from app.llm.quirks.base import Quirk as Q
from app.llm.quirks.signs import Refusal

PING = ToolSchema("ping", "p", {"type": "object", "properties": {}})
ASKED = (Message("system", "You are the harbour bot."), Message("user", "When?"))
WITH_TOOLS = (
    *ASKED,
    Message("assistant", "", (ToolCall("c1", "ping", "{}"),)),
    Message("tool", "4", tool_call_id="c1"),
)


def refusal(error: Any, *, status: int = 400, **how: Any) -> Refusal:
    request = ChatRequest(
        **{
            "model": "m",
            "messages": WITH_TOOLS,
            "tools": (PING,),
            "tool_choice": "ping",
            "temperature": 0.2,
            "max_tokens": 32768,
            **how,
        }
    )
    told = error if isinstance(error, dict) else {"error": {"message": error}}
    return Refusal(failures.of_answer(status, json.dumps(told).encode(), {}), request, payload.body(request))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        # the output budget
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            [Q.COMPLETION_TOKENS, Q.NO_OUTPUT_LIMIT],
        ),
        ("Unrecognized request argument supplied: max_tokens", [Q.COMPLETION_TOKENS, Q.NO_OUTPUT_LIMIT]),
        # temperature
        (
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1)",
            [Q.NO_TEMPERATURE],
        ),
        ("invalid temperature: only 1 is allowed for this model", [Q.NO_TEMPERATURE]),
        ("`temperature` is deprecated for this model.", [Q.NO_TEMPERATURE]),
        # streaming
        ("Unrecognized request argument supplied: stream_options", [Q.NO_STREAM_OPTIONS]),
        ("body.stream_options: extra fields not permitted", [Q.NO_STREAM_OPTIONS]),
        ("include_usage is not known", [Q.NO_STREAM_OPTIONS]),
        ("Streaming is not supported for this model", [Q.NO_STREAM]),
        ("Unsupported value: 'stream' does not support true with this model.", [Q.NO_STREAM]),
        ("unexpected error in the upstream", []),
        # roles
        ("System role not supported", [Q.NO_SYSTEM]),
        ("Unsupported value: 'messages[0].role' does not support 'system' with this model.", [Q.NO_SYSTEM]),
        ("Developer instruction is not enabled for models/case-model", [Q.NO_SYSTEM]),
        ("'system' is not one of ['user', 'assistant'] - 'messages.0.role'", [Q.NO_SYSTEM]),
        (
            "Conversation roles must alternate user/assistant/user/assistant/...",
            [Q.ALTERNATE, Q.NO_TOOL_ROLE, Q.NO_SYSTEM],
        ),
        (
            "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
            [Q.ALTERNATE, Q.NO_TOOL_ROLE, Q.NO_SYSTEM],
        ),
        ("System message must be at the beginning.", [Q.SYSTEM_FIRST]),
        ("Unexpected role 'user' after role 'tool'", [Q.NO_TOOL_ROLE, Q.ALTERNATE, Q.NO_SYSTEM]),
        # tools
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', [Q.NO_TOOLS]),
        ("registry.example.test/case-model does not support tools", [Q.NO_TOOLS]),
        ("tools param requires --jinja flag", [Q.NO_TOOLS]),
        ("Unknown parameter: 'tools'.", [Q.NO_TOOLS]),
        ("Unsupported tool_choice: only 'auto' and 'none' are supported", [Q.NO_TOOL_CHOICE, Q.NO_TOOLS]),
        ("Invalid schema for function 'ping' in tools: None is not of type 'object'", []),
        # the forms of tool messages
        ("Request contains an invalid argument: function_response.name: Name cannot be empty.", [Q.TOOL_NAMES]),
        ("Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9.", [Q.SHORT_IDS]),
        ("Only user and assistant roles are supported!", [Q.NO_TOOL_ROLE]),
        ("'tool' is not one of ['system', 'user', 'assistant'] - 'messages.2.role'", [Q.NO_TOOL_ROLE]),
        # messages without a text
        ("messages: text content blocks must be non-empty", [Q.NULL_CONTENT, Q.FILLED_CONTENT]),
        ("messages.2: all messages must have non-empty content", [Q.NULL_CONTENT, Q.FILLED_CONTENT]),
        ("Invalid value for 'content': expected a string, got null.", [Q.NULL_CONTENT, Q.FILLED_CONTENT]),
        # nothing of this kind
        ("Something about your request is wrong.", []),
        ("model 'case-model' not found", []),
    ],
)
def test_a_refusal_is_the_sign_of_a_quirk(message: str, expected: list[Q]) -> None:
    assert [quirk for quirk, _ in signs.suspects(refusal(message))] == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"error": {"message": "Unsupported value", "param": "temperature"}}, [Q.NO_TEMPERATURE]),
        (
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs"}]},
            [Q.NO_STREAM_OPTIONS],
        ),
        ({"object": "error", "message": "no", "param": "tools", "code": 400}, [Q.NO_TOOLS]),
    ],
)
def test_the_field_may_be_named_beside_the_message(error: Any, expected: list[Q]) -> None:
    assert [quirk for quirk, _ in signs.suspects(refusal(error))] == expected


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("max_tokens is too large: 32768. This model supports at most 16384 completion tokens", 16384),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is", 8192),
        ("max_tokens: 32768 > 4096, which is the maximum allowed number of output tokens for case-model", 4096),
    ],
)
def test_the_number_of_a_limit_is_read(message: str, limit: int) -> None:
    assert next(signs.suspects(refusal(message))) == (Q.OUTPUT_TOKENS, limit)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 32768. This model's maximum context length is 8192 "
            "tokens and your request has 123 input tokens (32768 > 8192 - 123).",
            [(Q.CONTEXT_TOKENS, 8192)],
        ),
        (
            "This model's maximum context length is 16384 tokens. However, you requested 42768 tokens (10000 in the "
            "messages, 32768 in the completion).",
            [(Q.CONTEXT_TOKENS, 16384)],
        ),
        (
            "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
            "messages, 10000 in the completion).",
            [],
        ),
        ("max_tokens 32768 exceeds the maximum number of tokens, 4096", [(Q.OUTPUT_TOKENS, 4096)]),
        ("prompt is too long", []),
    ],
)
def test_a_context_is_too_small_only_where_the_messages_do_not_fit(message: str, expected: list[Any]) -> None:
    assert list(signs.suspects(refusal(message))) == expected


@pytest.mark.parametrize("status", [401, 403, 408, 409, 429, 502, 503])
def test_other_failures_are_no_sign(status: int) -> None:
    assert not list(signs.suspects(refusal("Unsupported parameter: 'temperature'", status=status)))


def test_what_was_not_sent_is_not_the_reason() -> None:
    plain = refusal(
        "max_tokens, temperature, stream_options, tools, tool_choice, stream: not supported",
        messages=(Message("user", "u"),),
        tools=(),
        tool_choice=None,
        temperature=None,
        max_tokens=None,
        stream=False,
    )
    assert not list(signs.suspects(plain))


def test_only_a_refusal_that_names_nothing_is_guessed_at() -> None:
    assert [quirk for quirk, _ in signs.guesses(refusal("Bad Request"))] == [Q.NO_STREAM_OPTIONS]
    assert not list(signs.guesses(refusal({"error": {"message": "no", "param": "messages"}})))
    assert not list(signs.guesses(refusal("Bad Gateway", status=502)))


@given(st.text(max_size=200), st.sampled_from([400, 404, 422, 500]))
def test_any_words_give_quirks_or_none(message: str, status: int) -> None:
    assert set(dict(signs.suspects(refusal(message, status=status)))) <= set(Q)
