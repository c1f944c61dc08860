"""JSON about settings and model endpoints. For administrators only, but the list of models, which users choose from."""

from __future__ import annotations

import logging
from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.infra import auth
from app.infra.errors import Conflict, NotFound
from app.infra.i18n import Sentence, say
from app.infra.inputs import body
from app.llm import catalog
from app.settings import endpoints, store
from app.settings.endpoints import EndpointInfo

log = logging.getLogger(__name__)
blueprint = Blueprint("settings", __name__, url_prefix="/api/v1")

ENDPOINT_FIELDS = frozenset({"url", "key", "default_model", "allowed_models"})


@blueprint.get("/settings")
@auth.access("administrator")
def settings_show() -> ResponseReturnValue:
    """Every setting with value (secrets masked), default, limits and meaning."""
    return _shown_settings()


@blueprint.put("/settings")
@auth.access("administrator")
def settings_change() -> ResponseReturnValue:
    """Changes {name: value, ...}, all or nothing. A blank secret keeps the stored one, null clears it."""
    changed = store.update(body.read(request.get_data(cache=False)))
    log.info("person %s changed the settings %s", auth.identity().person_id, ", ".join(changed))
    return _shown_settings()


@blueprint.delete("/settings/<name>")
@auth.access("administrator")
def settings_clear(name: str) -> ResponseReturnValue:
    """Back to the default; a secret is deleted."""
    store.clear(name)
    log.info("person %s cleared the setting %s", auth.identity().person_id, name)
    return "", 204


@blueprint.get("/endpoints")
@auth.access("administrator")
def endpoint_list() -> ResponseReturnValue:
    """Every endpoint, the oldest first, with its key masked."""
    return {"endpoints": [_shown(info) for info in endpoints.all()]}


@blueprint.post("/endpoints")
@auth.access("administrator")
def endpoint_add() -> ResponseReturnValue:
    """A new endpoint: {name, url, key?, default_model?, allowed_models?}."""
    values = _body(ENDPOINT_FIELDS | {"name"})
    name = body.needed(values, "name", str)
    if endpoints.get(name) is not None:
        raise Conflict(say("There is an endpoint named {name} already.", name=name))
    body.needed(values, "url", str)
    return _shown(_save(name, values)), 201


@blueprint.get("/endpoints/<name>")
@auth.access("administrator")
def endpoint_show(name: str) -> ResponseReturnValue:
    """One endpoint, with its key masked."""
    return _shown(_found(name))


@blueprint.put("/endpoints/<name>")
@auth.access("administrator")
def endpoint_change(name: str) -> ResponseReturnValue:
    """Changes what is given of {url, key, default_model, allowed_models}; a blank key keeps, null clears."""
    _found(name)
    return _shown(_save(name, _body(ENDPOINT_FIELDS)))


@blueprint.delete("/endpoints/<name>")
@auth.access("administrator")
def endpoint_remove(name: str) -> ResponseReturnValue:
    """Deletes an endpoint and its key."""
    endpoints.remove(name)
    log.info("person %s removed the endpoint %s", auth.identity().person_id, name)
    return "", 204


@blueprint.post("/endpoints/<name>/test")
@auth.access("administrator")
def endpoint_test(name: str) -> ResponseReturnValue:
    """Asks the endpoint for its models now: {ok, models, message, milliseconds}."""
    if name != endpoints.OFFLINE:
        _found(name)
    result = catalog.test(name)
    return {
        "ok": result.ok,
        "models": list(result.models),
        "message": result.message.text(auth.language()),
        "milliseconds": result.milliseconds,
    }


@blueprint.get("/models")
@auth.access("user")
def models() -> ResponseReturnValue:
    """The models to choose from: {models: [reference], model_options: [{reference, label, model, endpoint}]}."""
    found = catalog.models()
    return {
        "models": [option.reference for option in found],
        "model_options": [
            {"reference": each.reference, "label": each.label, "model": each.model, "endpoint": each.endpoint}
            for each in found
        ],
        "default_model": store.get("default_model"),
    }


def _body(names: frozenset[str]) -> dict[str, Any]:
    values = body.read(request.get_data(cache=False))
    body.only(values, names)
    return values


def _save(name: str, values: dict[str, Any]) -> EndpointInfo:
    model = body.optional(values, "default_model", str)
    saved = endpoints.save(
        name,
        url=body.optional(values, "url", str),
        key=body.optional(values, "key", str),
        model="" if "default_model" in values and model is None else model,
        allowed_models=[] if values.get("allowed_models", ()) is None else body.texts(values, "allowed_models"),
        clear_key="key" in values and values["key"] is None,
    )
    log.info("person %s saved the endpoint %s", auth.identity().person_id, name)
    return saved


def _found(name: str) -> EndpointInfo:
    found = next((info for info in endpoints.all() if info.name == name), None)
    if found is None:
        raise NotFound(say("There is no endpoint named {name}.", name=name[:64]))
    return found


def _shown(info: EndpointInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "url": info.url,
        "key": endpoints.masked(info),
        "default_model": info.default_model,
        "allowed_models": list(info.allowed_models),
        "models": [{"id": model.id, "context_length": model.context_length} for model in info.models],
        "models_at": info.models_at.isoformat() if info.models_at else None,
        "models_error": info.models_error,
    }


def _shown_settings() -> dict[str, Any]:
    return {"settings": [{name: _plain(value) for name, value in each.items()} for each in store.show()]}


def _plain(value: Any) -> Any:
    return value.text(auth.language()) if isinstance(value, Sentence) else value
