"""JSON about bots: one's own, those of the instance for administrators, and those that one may use."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.bots import access, form, present, store
from app.bots.models import Bot
from app.bots.review import edit, rights
from app.infra import auth
from app.infra.auth import Identity
from app.infra.errors import Conflict, NotAllowed, NotFound
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
SHOWN_ONLY = frozenset(
    {
        *("id", "owner", "registration_id", "created_at", "updated_at", "revision", "has_pending_changes", "pending"),
        *("questionnaire", "submitted_at", "approved_by", "approved_at", "rejection_reason", "tester"),
    }
)


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
    """A new bot of one's own: {name, mention_name, system_prompt, ...}; one for others is a draft until it is reviewed."""
    asking = auth.identity()
    values = _values()
    if not asking.admin and store.listed(asking.instance_id, owner_id=_person(asking), limit=1).total >= MOST_OWN:
        raise Conflict(say("You have {most} bots. Remove one before you make another.", most=MOST_OWN))
    made = edit.create(rights.of(asking), _person(asking), values, tools=registry.all_tools())
    return _shown(made, asking), 201


@blueprint.get("/bots/<int:id>")
@auth.access("user")
def bot_show(id: int) -> ResponseReturnValue:
    """One bot, for its owner; without the prompt for administrators, and for those who manage or review it."""
    asking = auth.identity()
    return _shown(_found(id, asking), asking)


@blueprint.put("/bots/<int:id>")
@auth.access("user")
def bot_change(id: int) -> ResponseReturnValue:
    """Changes what is given; what is left out stays. What one may not publish waits beside the live version."""
    return _changed(id)


@blueprint.put("/admin/bots/<int:id>")
@auth.access("administrator")
def bot_change_any(id: int) -> ResponseReturnValue:
    """The same, for administrators."""
    return _changed(id)


@blueprint.get("/bots/<int:id>/tools")
@auth.access("user")
def bot_tools(id: int) -> ResponseReturnValue:
    """The names of a bot's tools, for whoever sees the bot: {tools}."""
    bot = _found(id, auth.identity())
    return {"tools": list(store.tools_of([bot.id])[bot.id])}


@blueprint.delete("/bots/<int:id>")
@auth.access("user")
def bot_remove(id: int) -> ResponseReturnValue:
    """Removes a bot with all that it was told: its owner's right, and where it is shared of those who manage it."""
    asking = auth.identity()
    edit.remove(rights.of(asking), _found(id, asking))
    return "", 204


@blueprint.get("/public-bots")
@auth.access("user")
def public_list() -> ResponseReturnValue:
    """The bots that one may use: {bots: [{name, mention_name, description, reason}], total}, in pages as above."""
    asking = auth.identity()
    paging = _paging()
    bots = store.for_everyone(asking.instance_id, asking.person_id, words=paging["words"], uid=asking.uid)
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
    return _shown(edit.change(rights.of(asking), bot, _values(), tools=registry.all_tools()), asking)


def _values() -> dict[str, Any]:
    values = body.read(request.get_data())
    body.only(values, FIELDS | SHOWN_ONLY)
    return {name: value for name, value in values.items() if name in FIELDS}


def _paging() -> dict[str, Any]:
    return form.paging(request.args, usual=DEFAULT_LIMIT, most=store.MOST_LISTED)


def _found(id: int, asking: Identity) -> Bot:
    """The bot, for those who may see it; for anybody else it is not there."""
    bot = store.get(id)
    if bot is None or not rights.may(rights.of(asking), bot, "see"):
        raise NotFound
    return bot


def _owns(bot: Bot, asking: Identity) -> bool:
    return bot.owner_id == asking.person_id and bot.instance_id == asking.instance_id


def _shown(bot: Bot, asking: Identity) -> dict[str, Any]:
    return present.full([bot], prompts=_owns(bot, asking))[0]


def _person(asking: Identity) -> int:
    if asking.person_id is None:
        raise NotAllowed(say("This needs the token of a person."))
    return asking.person_id


def _actor(asking: Identity) -> Actor:
    return Actor("users", asking.uid, asking.uid)
