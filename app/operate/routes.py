"""What a monitoring system and a programmer read: /healthz, /readyz, /metrics and the description of the interface."""

from __future__ import annotations

import hmac

from flask import Blueprint, Response, current_app, g, jsonify, request

from app.infra import auth, clock, jobs, metrics
from app.infra.errors import NotAllowed
from app.infra.i18n import say
from app.operate import health, openapi
from app.settings import store

blueprint = Blueprint("operate", __name__)


@blueprint.get("/healthz")
@auth.access("public")
def healthz() -> Response:
    """Tells that the process answers; nothing else is asked."""
    return jsonify({"ok": True})


@blueprint.get("/readyz")
@auth.access("public")
def readyz() -> tuple[Response, int]:
    """Tells whether messages are answered now: 200, or 503 with the part that is missing."""
    checks = health.ready()
    ok = all(check.ok for check in checks)
    return jsonify({"ok": ok, "parts": {check.name: check.ok for check in checks}}), 200 if ok else 503


@blueprint.get("/metrics")
@auth.access("public")
def show_metrics() -> Response:
    """Numbers for Prometheus: with the setting metrics_token by that bearer token, else from this machine only."""
    _guard_metrics()
    text = metrics.render(inbox=health.inbox_states(), queued=jobs.queued(), worker=health.worker().ok)
    return Response(text, content_type=metrics.CONTENT_TYPE)


@blueprint.get("/api/v1/openapi.json")
@auth.access("public")
def describe() -> Response:
    """This description."""
    return jsonify(openapi.describe(current_app.url_map, current_app.view_functions, server=auth.base_url()))


@blueprint.before_app_request
def begin_request() -> None:
    """Notes the time for the metrics."""
    g.parley_began = clock.monotonic()


@blueprint.after_app_request
def count_request(response: Response) -> Response:
    """Counts the answer under the name of its view: addresses would hold names and keys."""
    seconds = clock.monotonic() - g.get("parley_began", clock.monotonic())
    metrics.request_done(request.method, request.endpoint or "none", response.status_code, seconds=seconds)
    return response


def _guard_metrics() -> None:
    caller = auth.current()
    if caller is not None and caller.operator:
        return
    token = store.get("metrics_token")
    if token:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if hmac.compare_digest(given.encode(), token.encode()):
            return
    elif auth.from_this_machine():
        return
    raise NotAllowed(say("Metrics need the token of the setting metrics_token, or an operator."))
