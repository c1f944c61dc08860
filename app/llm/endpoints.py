"""A model reference becomes a model that can be asked (product.md K18)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.infra.errors import ParleyError
from app.infra.i18n import Sentence, say
from app.llm import catalog, failures, offline, urls
from app.llm.base import ChatModel, ErrorClass, ModelError, Route
from app.llm.chat import EndpointModel
from app.llm.fallback import Candidate, FallbackModel
from app.llm.limits import buckets
from app.llm.limits.attempts import Attempts
from app.llm.limits.capacity import Capacity, least
from app.llm.patience import PatientModel, Terms
from app.settings import endpoints, store
from app.settings.endpoints import EndpointInfo, ModelInfo

log = logging.getLogger(__name__)

# Read at one moment, in one query.
SETTINGS = (
    "default_model",
    "allow_multiple_models",
    "allowed_models",
    "stream_timeout",
    "chat_timeout",
    "max_output_tokens",
    "model_output_tokens",
    "fallback_model",
    "fallback_on",
    "max_retry_wait",
    "max_model_attempts",
    "rate_limits",
)


@dataclass(frozen=True)
class Resolved:
    """Who will answer. `context_tokens` is what the server says its model reads, None where it says nothing.

    `max_tokens` is the output budget of a call: what an administrator set for this model, else the general limit where
    the server names one that it fits in, else None: the server knows its own limit better than a guess. `chat` is made
    for one turn: it counts the exchanges, and knows whom to ask where this model can't be had.
    """

    endpoint: str
    model: str
    chat: ChatModel
    context_tokens: int | None = None
    max_tokens: int | None = None

    @property
    def reference(self) -> str:
        return f"{self.endpoint}:{self.model}"

    def due_in(self, *, ahead: int = 0) -> float:
        """Seconds until the rate limits let this model, or the one that stands in for it, be asked; 0 is now.

        `ahead` is the number of turns that wait for the same and come first.
        """
        if isinstance(self.chat, PatientModel):
            return self.chat.due_in(self.model, ahead=ahead)
        return self.chat.due_in(ahead=ahead) if isinstance(self.chat, FallbackModel) else 0.0


@dataclass(frozen=True)
class _Setup:
    """What is set up at the moment: the endpoints, the settings, and the budget of the turn."""

    known: Sequence[EndpointInfo]
    values: Mapping[str, Any]
    attempts: Attempts
    language: str
    bot: str


def resolve(reference: str | None, *, language: str = "en", bot: str = "") -> Resolved:
    """The model that `reference` names, or the default one for none. Raises ModelError (NOT_ALLOWED, NOT_CONFIGURED).

    The left part before the first colon counts only when it is an endpoint's name. A name without one belongs to the
    oldest endpoint that lists it, else to the oldest. `language` and `bot` (its name) are for the offline model's words.
    Where bots may have no model of their own the default serves. To be asked once a turn.
    """
    values = store.several(*SETTINGS)
    setup = _Setup(endpoints.all(), values, Attempts(values["max_model_attempts"]), language, bot)
    given = (reference or "").strip() if values["allow_multiple_models"] else ""
    # What an administrator made the default needs no second permission.
    chosen = _chosen(setup, given or str(values["default_model"]), free=not given, route="selected")
    second = None if chosen.endpoint == endpoints.OFFLINE else _fallback(setup, chosen)
    if second is None:
        return chosen
    candidates = (Candidate(each.model, each.chat, each.max_tokens) for each in (chosen, second))
    return replace(chosen, chat=FallbackModel(*candidates, on=values["fallback_on"]))


def refusal(reference: str) -> Sentence | None:
    """Why a bot may not be given this model, None where it may. Whether its server is there is not asked."""
    values = store.several("default_model", "allow_multiple_models", "allowed_models")
    if not values["allow_multiple_models"]:
        own = reference != values["default_model"]
        return say("All bots use the default model here: leave the model empty.") if own else None
    known = endpoints.all()
    name, model = split(reference, known)
    info = next((info for info in known if info.name == name), None)
    if info is None or catalog.permitted(info, model or info.default_model or "", values["allowed_models"]):
        return None
    return say("Bots may not use the model {model} here. Choose another one, or none for the default.", model=reference)


def split(reference: str, known: Sequence[EndpointInfo]) -> tuple[str, str]:
    """(endpoint, model) of a reference; the endpoint is empty when there is none at all."""
    left, colon, right = reference.partition(":")
    if colon and (left == endpoints.OFFLINE or any(info.name == left for info in known)):
        return left, right
    lists = [info for info in known if any(model.id == reference for model in info.models)]
    chosen = next(iter([*lists, *known]), None)
    return (chosen.name if chosen else "", reference)


def _chosen(setup: _Setup, reference: str, *, free: bool, route: Route) -> Resolved:
    name, model = split(reference, setup.known)
    if name == endpoints.OFFLINE:
        chat = offline.OfflineModel(language=setup.language, bot=setup.bot)
        return Resolved(name, model or offline.MODEL, chat)
    info = next((info for info in setup.known if info.name == name), None)
    if info is None:
        raise _not_configured(say("No model server is connected. An administrator must connect one."))
    model = model or info.default_model or ""
    if not model:
        raise _not_configured(say("The endpoint {name} has no default model, and none was named.", name=name))
    if not free and not catalog.permitted(info, model, setup.values["allowed_models"]):
        raise failures.made(ErrorClass.NOT_ALLOWED, f"{name}:{model} is not among the allowed models")
    return _resolved(setup, info, model, route=route)


def _fallback(setup: _Setup, chosen: Resolved) -> Resolved | None:
    """The model that stands in for the chosen one; a wrong setting takes nobody's answer away."""
    reference = str(setup.values["fallback_model"] or "")
    if not reference:
        return None
    try:
        second = _chosen(setup, reference, free=True, route="fallback")
    except ParleyError as error:
        log.warning("the fallback model can't be used: %s", error.sentence)
        return None
    return None if second.reference == chosen.reference else second


def _resolved(setup: _Setup, info: EndpointInfo, model: str, *, route: Route) -> Resolved:
    values = setup.values
    chat = EndpointModel(
        info.name,
        urls.normalise(info.url),
        key=_key(info),
        stream_seconds=float(values["stream_timeout"]),
        whole_seconds=float(values["chat_timeout"]),
    )
    listed = next((listed for listed in info.models if listed.id == model), ModelInfo(model))
    terms = Terms(
        setup.attempts,
        rates=buckets.limits_of(info.name, values["rate_limits"]),
        longest_wait=float(values["max_retry_wait"]),
        capacity=Capacity(listed.context_length, listed.max_output_tokens),
        route=route,
    )
    budget = _budget(f"{info.name}:{model}", listed, values)
    return Resolved(info.name, model, PatientModel(chat, terms), listed.context_length, budget)


def _budget(reference: str, listed: ModelInfo, values: Mapping[str, Any]) -> int | None:
    own = values["model_output_tokens"]
    most: int | None = own.get(reference, own.get(listed.id))
    if most is not None:
        return least(most, listed.max_output_tokens)
    half = None if listed.context_length is None else listed.context_length // 2
    room = least(half, listed.max_output_tokens)
    return None if room is None else min(int(values["max_output_tokens"]), room)


def _key(info: EndpointInfo) -> str | None:
    if info.key is not None:
        return info.key
    try:
        found = endpoints.get(info.name)  # tells a key that does not open from one that was never set
    except ParleyError as error:
        raise _not_configured(error.sentence) from error
    return found.key if found else None


def _not_configured(sentence: Sentence) -> ModelError:
    return ModelError(ErrorClass.NOT_CONFIGURED, sentence)
