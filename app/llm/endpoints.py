"""A model reference becomes a model that can be asked (product.md K18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.infra.errors import ParleyError
from app.infra.i18n import Sentence, say
from app.llm import catalog, failures, offline, urls
from app.llm.base import ChatModel, ErrorClass, ModelError
from app.llm.chat import EndpointModel
from app.settings import endpoints, store
from app.settings.endpoints import EndpointInfo

# Read at one moment, in one query.
SETTINGS = (
    "default_model",
    "allowed_models",
    "stream_timeout",
    "chat_timeout",
    "max_output_tokens",
    "model_output_tokens",
)


@dataclass(frozen=True)
class Resolved:
    """Who will answer. `context_tokens` is what the server says its model reads, None where it says nothing.

    `max_tokens` is the output budget of a call: what an administrator set for this model, else the general limit where
    the server names a context that it fits in, else None: the server knows its own limit better than a guess.
    """

    endpoint: str
    model: str
    chat: ChatModel
    context_tokens: int | None = None
    max_tokens: int | None = None

    @property
    def reference(self) -> str:
        return f"{self.endpoint}:{self.model}"


def resolve(reference: str | None, *, language: str = "en", bot: str = "") -> Resolved:
    """The model that `reference` names, or the default one for none. Raises ModelError (NOT_ALLOWED, NOT_CONFIGURED).

    The left part before the first colon counts only when it is an endpoint's name. A name without one belongs to the
    oldest endpoint that lists it, else to the oldest. `language` and `bot` (its name) are for the offline model's words.
    """
    known = endpoints.all()
    values = store.several(*SETTINGS)
    given = (reference or "").strip()
    name, model = split(given or str(values["default_model"]), known)
    if name == endpoints.OFFLINE:
        return Resolved(name, model or offline.MODEL, offline.OfflineModel(language=language, bot=bot))
    info = next((info for info in known if info.name == name), None)
    if info is None:
        raise _not_configured(say("No model server is connected. An administrator must connect one."))
    model = model or info.default_model or ""
    if not model:
        raise _not_configured(say("The endpoint {name} has no default model, and none was named.", name=name))
    # What an administrator made the default needs no second permission.
    if given and not catalog.permitted(info, model, values["allowed_models"]):
        raise failures.made(ErrorClass.NOT_ALLOWED, f"{name}:{model} is not among the allowed models")
    return _resolved(info, model, values)


def split(reference: str, known: Sequence[EndpointInfo]) -> tuple[str, str]:
    """(endpoint, model) of a reference; the endpoint is empty when there is none at all."""
    left, colon, right = reference.partition(":")
    if colon and (left == endpoints.OFFLINE or any(info.name == left for info in known)):
        return left, right
    lists = [info for info in known if any(model.id == reference for model in info.models)]
    chosen = next(iter([*lists, *known]), None)
    return (chosen.name if chosen else "", reference)


def _resolved(info: EndpointInfo, model: str, values: Mapping[str, Any]) -> Resolved:
    chat = EndpointModel(
        info.name,
        urls.normalise(info.url),
        key=_key(info),
        stream_seconds=float(values["stream_timeout"]),
        whole_seconds=float(values["chat_timeout"]),
    )
    context = next((listed.context_length for listed in info.models if listed.id == model), None)
    own = values["model_output_tokens"]
    most = own.get(f"{info.name}:{model}", own.get(model))
    if most is None and context is not None:
        most = min(int(values["max_output_tokens"]), context // 2)
    return Resolved(info.name, model, chat, context, most)


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
