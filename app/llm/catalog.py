"""Which models there are: the lists of all endpoints, merged and kept for a while; a dead endpoint hides none of the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from app.infra import clock, http, netguard
from app.infra.errors import ParleyError
from app.infra.http import HttpError
from app.infra.i18n import Sentence, say
from app.llm import failures, offline, urls
from app.llm.base import ErrorClass, ModelError
from app.llm.limits import buckets
from app.llm.quirks import memory
from app.settings import endpoints, store
from app.settings.endpoints import EndpointInfo, ModelInfo

FRESH = timedelta(seconds=300)
LIST_BYTES = 16 * 1024 * 1024
CONNECT_SECONDS = 10.0
MOST_AT_ONCE = 8
LONGEST_ID = 200
LONGEST_CONTEXT = 2**31
INNER_FIELDS = ("top_provider", "meta", "limits", "capabilities", "model_info")
CONTEXT_FIELDS = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx")
OUTPUT_FIELDS = ("max_output_tokens", "max_completion_tokens")
SHOWN = 3


@dataclass(frozen=True)
class ModelOption:
    """A model to choose: `reference` is endpoint:model, `label` is for people."""

    reference: str
    label: str
    model: str
    endpoint: str


@dataclass(frozen=True)
class TestResult:
    """What a test of an endpoint found; `message` is one sentence that says what is wrong, or that nothing is."""

    ok: bool
    models: tuple[str, ...]
    message: Sentence
    milliseconds: int


class _Tried:
    """When each endpoint was last asked in vain, so that a dead one is not asked again at every look."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, str], float] = {}


tried = _Tried()


def models(*, refresh: bool = False) -> list[ModelOption]:
    """What bots may be given, of all endpoints in their order. A list older than 300 s is asked for again."""
    known = endpoints.all()
    old = [info for info in known if refresh or _is_old(info)]
    if old:
        _renew(old)
        known = endpoints.all()
    values = store.several("allowed_models", "allow_multiple_models", "default_model")
    allowed = values["allowed_models"]
    options = [
        *(_option(info.name, model) for info in known for model in _listed(info) if permitted(info, model, allowed)),
        _option(endpoints.OFFLINE, offline.MODEL),
    ]
    if values["allow_multiple_models"]:
        return options
    return [option for option in options if option.reference == values["default_model"]]


def permitted(info: EndpointInfo, model: str, allowed: Iterable[str]) -> bool:
    """True when the endpoint's own list and the setting `allowed_models` (references or plain names) let it be used."""
    if info.allowed_models and model not in info.allowed_models:
        return False
    names = set(allowed)
    return not names or model in names or f"{info.name}:{model}" in names


def test(name: str) -> TestResult:
    """Asks an endpoint for its models and says in one sentence what came of it; the list is kept, and what was learned
    about its models is learned anew, pauses that its server asked for included."""
    if name == endpoints.OFFLINE:
        return TestResult(True, (offline.MODEL,), say("The built-in endpoint offline needs no server."), 0)
    begun = clock.monotonic()
    try:
        info = endpoints.get(name)
    except ParleyError as error:
        return TestResult(False, (), error.sentence, 0)
    if info is None:
        return TestResult(False, (), say("There is no endpoint named {name}.", name=name[:64]), 0)
    found = _asked(info, _seconds())
    _keep(info, found)
    # Who tests an endpoint has often just changed its server, or what it allows.
    memory.forget(name)
    buckets.forget_pauses(name)
    took = round((clock.monotonic() - begun) * 1000)
    if isinstance(found, _Trouble):
        return TestResult(False, (), found.sentence, took)
    ids = tuple(model.id for model in found)
    if info.default_model and ids and info.default_model not in ids:
        return TestResult(False, ids, _missing(info.default_model, ids), took)
    return TestResult(True, ids, say("The server answers. It lists this many models: {count}.", count=len(ids)), took)


def listed(body: bytes) -> list[ModelInfo]:
    """The models in the answer of a /models address, sorted, each once; entries without a name are left out.

    Raises ModelError when it is no list of models at all.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise failures.made(ErrorClass.NOT_JSON, body[:200].decode("utf-8", "replace")) from None
    if isinstance(value, dict) and ("data" in value or "models" in value):
        entries = value.get("data", value.get("models"))
    elif isinstance(value, list):
        entries = value
    else:
        raise failures.made(ErrorClass.NOT_JSON, "an answer that is no list of models")
    found: dict[str, ModelInfo] = {}
    for entry in entries if isinstance(entries, list) else ():
        model = _model(entry)
        if model:
            found.setdefault(model.id, model)
    return [found[id] for id in sorted(found)]


@dataclass(frozen=True)
class _Trouble:
    """Why an endpoint gave no list: for the administrator, and for the log."""

    sentence: Sentence
    detail: str


def _is_old(info: EndpointInfo) -> bool:
    if info.models_at is not None and clock.now() - info.models_at < FRESH:
        return False
    at = tried.at.get((info.name, info.url))
    return at is None or clock.monotonic() - at > FRESH.total_seconds()


def _renew(old: list[EndpointInfo]) -> None:
    seconds = _seconds()
    with ThreadPoolExecutor(min(len(old), MOST_AT_ONCE)) as pool:
        answers = list(pool.map(lambda info: _asked(info, seconds), old))
    for info, found in zip(old, answers, strict=True):
        _keep(info, found)


def _keep(info: EndpointInfo, found: list[ModelInfo] | _Trouble) -> None:
    if isinstance(found, _Trouble):
        tried.at[info.name, info.url] = clock.monotonic()
        endpoints.remember_models(info.name, (), found.detail)
    else:
        tried.at.pop((info.name, info.url), None)
        endpoints.remember_models(info.name, found, None)


def _asked(info: EndpointInfo, seconds: float) -> list[ModelInfo] | _Trouble:
    """One request for the list; no database here, since it runs on threads of its own."""
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {info.key}"} if info.key else {})
    try:
        response = http.request(
            "GET",
            urls.normalise(info.url).models,
            guard=netguard.ADMIN,
            headers=headers,
            timeout=(min(CONNECT_SECONDS, seconds), seconds),
            total_seconds=seconds,
            max_bytes=LIST_BYTES,
            allow_redirects=True,
        )
        if not 200 <= response.status < 300:
            error = failures.of_answer(response.status, response.body, response.headers, key=info.key)
            return _Trouble(_refused(response.status, error), f"HTTP {response.status} {error.detail}")
        return listed(response.body)
    except HttpError as error:
        return _Trouble(_unreached(error), failures.masked(f"{error.kind}: {error.detail}", info.key))
    except ModelError as error:
        sentence = say("The server answers, but not like a model server. Does the address end in /v1 or its like?")
        return _Trouble(sentence, failures.masked(error.detail, info.key))
    except ParleyError as error:
        return _Trouble(error.sentence, error.detail)


def _refused(status: int, error: ModelError) -> Sentence:
    if error.error_class == ErrorClass.AUTH:
        return say("The server does not accept the key (HTTP {status}). Set the right one.", status=status)
    if status in (404, 405):
        return say(
            "The server has no list of models at this address (HTTP {status}). Is the path right?", status=status
        )
    if error.error_class == ErrorClass.RATE_LIMIT:
        return say("The server has too much to do, or its quota is used up (HTTP {status}).", status=status)
    return say("The server answers with an error (HTTP {status}).", status=status)


def _unreached(error: HttpError) -> Sentence:
    if error.kind == "refused":
        return say("Nothing takes connections at this address. Is the model server running there?")
    if error.kind == "dns":
        return say("The host name in this address is not known. Is it spelled right?")
    if error.kind == "tls":
        return say("The server's certificate can't be trusted, or it does not speak TLS. Should it be http?")
    if error.kind == "protocol":
        return say("What answers at this address does not speak HTTP. Is the port right, and http or https?")
    return error.sentence


def _missing(model: str, ids: tuple[str, ...]) -> Sentence:
    return say(
        "The server answers, but it does not list the model {model}. It has, for example: {examples}.",
        model=model,
        examples=", ".join(ids[:SHOWN]),
    )


def _model(entry: Any) -> ModelInfo | None:
    if isinstance(entry, str):
        entry = {"id": entry}
    if not isinstance(entry, dict):
        return None
    id = next((entry[name] for name in ("id", "name", "model") if isinstance(entry.get(name), str)), "").strip()
    if not 0 < len(id) <= LONGEST_ID or not id.isprintable():
        return None
    return ModelInfo(id, _smallest(entry, CONTEXT_FIELDS), _smallest(entry, OUTPUT_FIELDS))


def _smallest(entry: Mapping[str, Any], fields: Iterable[str]) -> int | None:
    """The smallest number of tokens that the server names for a model in one of these fields."""
    inner = [entry, *(value for name in INNER_FIELDS if isinstance(value := entry.get(name), dict))]
    numbers = [place[name] for place in inner for name in fields if type(place.get(name)) is int]
    return min((number for number in numbers if 0 < number < LONGEST_CONTEXT), default=None)


def _listed(info: EndpointInfo) -> list[str]:
    ids = [model.id for model in info.models]
    return ids if not info.default_model or info.default_model in ids else [info.default_model, *ids]


def _option(endpoint: str, model: str) -> ModelOption:
    return ModelOption(f"{endpoint}:{model}", f"{endpoint.capitalize()} - {model}", model, endpoint)


def _seconds() -> float:
    return float(store.get("models_timeout"))
