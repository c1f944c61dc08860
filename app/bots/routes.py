"""JSON about bots: one's own, those of the instance for administrators, and those that one may use."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.bots import access, form, present, store
from app.bots.models import Bot
from app.infra import auth
from app.infra.auth import Identity
from app.infra.errors import BadInput, Conflict, NotAllowed, NotFound
from app.infra.i18n import say
from app.infra.inputs import body
from app.platforms.base import Actor
from app.tools import registry

blueprint = Blueprint("bots", __name__, url_prefix="/api/v1")

DEFAULT_LIMIT = 25
# Every message is compared with every name of the instance.
MOST_OWN = 100
# What the API takes. A registration is given by `talk register`, which knows the chat system.
FIELDS = frozenset(form.CHECKS) - {"registration_id"}
# What a bot also shows: whoever sends a whole bot back need not take them out.
SHOWN_ONLY = frozenset({"id", "owner", "registration_id", "created_at", "updated_at"})
SHARED = ("groups", "teams", "global")


@blueprint.get("/bots")
@auth.access("user")
def bot_list() -> ResponseReturnValue:
    """One's own bots, in pages: ?q=WORDS&limit=N&offset=N gives {bots, total}."""
    asking = auth.identity()
    found = store.listed(asking.instance_id, owner_id=_person(asking), **_paging())
    return {"bots": present.full(found.bots, prompts=True), "total": found.total}


@blueprint.get("/admin/bots")
@auth.access("administrator")
def bot_list_all() -> ResponseReturnValue:
    """Every bot of the administrator's instance, without prompts, in pages as above."""
    found = store.listed(auth.identity().instance_id, **_paging())
    return {"bots": present.full(found.bots, prompts=False), "total": found.total}


@blueprint.post("/bots")
@auth.access("user")
def bot_add() -> ResponseReturnValue:
    """A new bot of one's own: {name, mention_name, system_prompt, ...}; shared ones are for administrators."""
    asking = auth.identity()
    values = _values()
    _check_scope(asking, values.get("scope"))
    if not asking.admin and store.listed(asking.instance_id, owner_id=_person(asking), limit=1).total >= MOST_OWN:
        raise Conflict(say("You have {most} bots. Remove one before you make another.", most=MOST_OWN))
    made = store.create(asking.instance_id, _person(asking), values, tools=registry.all_tools())
    return _shown(made, asking), 201


@blueprint.get("/bots/<int:id>")
@auth.access("user")
def bot_show(id: int) -> ResponseReturnValue:
    """One bot, for its owner; for administrators without the prompt."""
    asking = auth.identity()
    return _shown(_found(id, asking), asking)


@blueprint.put("/bots/<int:id>")
@auth.access("user")
def bot_change(id: int) -> ResponseReturnValue:
    """Changes what is given; what is left out stays. Shared bots are changed by administrators."""
    return _changed(id)


@blueprint.put("/admin/bots/<int:id>")
@auth.access("administrator")
def bot_change_any(id: int) -> ResponseReturnValue:
    """The same, for administrators."""
    return _changed(id)


@blueprint.get("/bots/<int:id>/tools")
@auth.access("user")
def bot_tools(id: int) -> ResponseReturnValue:
    """The names of a bot's tools, for its owner and for administrators: {tools}."""
    bot = _found(id, auth.identity())
    return {"tools": list(store.tools_of([bot.id])[bot.id])}


@blueprint.delete("/bots/<int:id>")
@auth.access("user")
def bot_remove(id: int) -> ResponseReturnValue:
    """Removes a bot with all that it was told: its owner's right, and an administrator's where it is shared."""
    asking = auth.identity()
    bot = _found(id, asking)
    if not _owns(bot, asking) and bot.scope not in SHARED:
        raise NotAllowed(say("A personal bot is its owner's; an administrator may only switch it on and off."))
    store.remove(id)
    return "", 204


@blueprint.get("/public-bots")
@auth.access("user")
def public_list() -> ResponseReturnValue:
    """The bots that one may use: {bots: [{name, mention_name, description, reason}], total}, in pages as above."""
    asking = auth.identity()
    paging = _paging()
    bots = store.for_everyone(asking.instance_id, asking.person_id, words=paging["words"])
    usable = [
        present.public(bot, decision)
        for bot, decision in zip(bots, access.each(bots, _actor(asking), asking.instance_id), strict=True)
        if decision.allowed
    ]
    return {"bots": usable[paging["offset"] :][: paging["limit"]], "total": len(usable)}


@blueprint.get("/public-bots/<int:id>")
@auth.access("user")
def public_show(id: int) -> ResponseReturnValue:
    """One bot that one may use, as in the list; any other is not there."""
    asking = auth.identity()
    bot = store.get(id)
    decision = access.may_use(bot, _actor(asking), asking.instance_id) if bot is not None else None
    if bot is None or decision is None or not decision.allowed:
        raise NotFound
    return present.public(bot, decision)


def _changed(id: int) -> dict[str, Any]:
    asking = auth.identity()
    bot = _found(id, asking)
    values = _values()
    if bot.scope in SHARED:
        _check_scope(asking, bot.scope)
    elif not _owns(bot, asking) and set(values) - {"is_active"}:
        raise NotAllowed(say("A personal bot is its owner's; an administrator may only switch it on and off."))
    _check_scope(asking, values.get("scope"))
    return _shown(store.update(id, values, tools=registry.all_tools()), asking)


def _values() -> dict[str, Any]:
    values = body.read(request.get_data())
    body.only(values, FIELDS | SHOWN_ONLY)
    return {name: value for name, value in values.items() if name in FIELDS}


def _paging() -> dict[str, Any]:
    limit, offset = request.args.get("limit", str(DEFAULT_LIMIT)), request.args.get("offset", "0")
    if not _number(limit, least=1, most=store.MOST_LISTED) or not _number(offset, least=0, most=1_000_000):
        raise BadInput(say("limit is a number from 1 to {most}, offset a number from 0.", most=store.MOST_LISTED))
    return {"words": request.args.get("q", ""), "limit": int(limit), "offset": int(offset)}


def _number(text: str, *, least: int, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most


def _found(id: int, asking: Identity) -> Bot:
    """The bot, for its owner and for administrators of its instance; for anybody else it is not there."""
    bot = store.get(id)
    if bot is None or bot.instance_id != asking.instance_id or not (asking.admin or _owns(bot, asking)):
        raise NotFound
    return bot


def _owns(bot: Bot, asking: Identity) -> bool:
    return bot.owner_id == asking.person_id and bot.instance_id == asking.instance_id


def _check_scope(asking: Identity, scope: object) -> None:
    if scope in SHARED and not asking.admin:
        raise NotAllowed(say("A bot for others is made and changed by an administrator; a personal one is yours."))


def _shown(bot: Bot, asking: Identity) -> dict[str, Any]:
    return present.full([bot], prompts=_owns(bot, asking))[0]


def _person(asking: Identity) -> int:
    if asking.person_id is None:
        raise NotAllowed(say("This needs the token of a person."))
    return asking.person_id


def _actor(asking: Identity) -> Actor:
    return Actor("users", asking.uid, asking.uid)
