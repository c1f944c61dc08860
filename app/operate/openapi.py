"""The description of the JSON interface, built from the URL map and the docstrings of the views."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from werkzeug.routing import Map, Rule

Views = Mapping[str, Callable[..., Any]]

OPENAPI = "3.1.0"
ARGUMENT = re.compile(r"<(?:(?P<kind>\w+)(?:\([^)]*\))?:)?(?P<name>\w+)>")
QUIET_METHODS = frozenset({"HEAD", "OPTIONS"})
WORDS = {"public": "everybody", "user": "people", "administrator": "administrators", "operator": "operators"}
PROBLEM = {
    "type": "object",
    "required": ["error", "code", "fields"],
    "properties": {
        "error": {"type": "string", "description": "A sentence for the person."},
        "code": {"type": "string", "description": "Stable, for programs."},
        "fields": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def describe(urls: Map, views: Views, *, prefix: str = "/api/v1", server: str = "") -> dict[str, Any]:
    """An OpenAPI document of every route under `prefix`."""
    paths: dict[str, dict[str, Any]] = {}
    for rule, view in routes(urls, views, prefix=prefix):
        operations = paths.setdefault(ARGUMENT.sub(r"{\g<name>}", rule.rule), {})
        for method in sorted((rule.methods or set()) - QUIET_METHODS):
            operations[method.lower()] = _operation(rule, method, view)
    return {
        "openapi": OPENAPI,
        "info": {"title": "Parley", "version": "1", "description": "Bots in rooms and a personal assistant."},
        "servers": [{"url": server}] if server else [],
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "parley"},
            },
        },
    }


def routes(urls: Map, views: Views, *, prefix: str = "/") -> Iterator[tuple[Rule, Callable[..., Any]]]:
    """Every rule whose path begins with `prefix`, sorted, with its view."""
    for rule in sorted(urls.iter_rules(), key=lambda rule: (rule.rule, rule.endpoint)):
        if rule.rule.startswith(prefix):
            yield rule, views[rule.endpoint]


def access_of(view: Callable[..., Any]) -> str:
    """Who may call a view: its mark, or nobody."""
    return getattr(view, "parley_access", "nobody")


def summary_of(view: Callable[..., Any]) -> str:
    """The first line of the view's docstring."""
    return (inspect.getdoc(view) or "").partition("\n")[0]


def _operation(rule: Rule, method: str, view: Callable[..., Any]) -> dict[str, Any]:
    level = access_of(view)
    operation: dict[str, Any] = {
        "operationId": f"{rule.endpoint}.{method.lower()}".replace(".", "_"),
        "summary": summary_of(view),
        "description": f"{inspect.getdoc(view) or ''}\n\nFor {WORDS.get(level, 'nobody')}.".strip(),
        "tags": [rule.endpoint.partition(".")[0]],
        "parameters": [_parameter(match) for match in ARGUMENT.finditer(rule.rule)],
        "responses": {
            "200": {"description": "Done."},
            "default": {
                "description": "What is wrong, in a sentence.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
        "security": [] if level == "public" else [{"token": []}, {"session": []}],
    }
    if method in ("POST", "PUT", "PATCH"):
        operation["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    return operation


def _parameter(match: re.Match[str]) -> dict[str, Any]:
    kind = "integer" if match["kind"] == "int" else "string"
    return {"name": match["name"], "in": "path", "required": True, "schema": {"type": kind}}
