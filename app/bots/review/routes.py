"""JSON about the review of bots: asking for it, deciding, what waits, and what one may."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from app.bots import form, present, store
from app.bots.models import Bot
from app.bots.review import decide, rights, waiting
from app.bots.review.rights import Who
from app.infra import auth
from app.infra.errors import NotFound
from app.infra.i18n import best_language
from app.infra.inputs import body

blueprint = Blueprint("review", __name__, url_prefix="/api/v1")

DEFAULT_LIMIT = 25


@blueprint.post("/bots/<int:id>/submit")
@auth.access("user")
def submit(id: int) -> ResponseReturnValue:
    """Asks for the review of one's draft: {approval_reason, bot_capabilities, rag_source_description, testing_description}."""
    who, bot = _asked(id)
    return _shown(decide.submit(who, bot, body.read(request.get_data())), who)


@blueprint.post("/bots/<int:id>/approve")
@auth.access("user")
def approve(id: int) -> ResponseReturnValue:
    """Makes live what waits: {revision?}; with the revision that was looked at, only that one."""
    who, bot = _asked(id)
    values = _values("revision")
    return _shown(decide.approve(who, bot, revision=body.optional(values, "revision", int)), who)


@blueprint.post("/bots/<int:id>/reject")
@auth.access("user")
def reject(id: int) -> ResponseReturnValue:
    """Sends back what waits, with the reason for its owner: {reason, revision?}; a live version stays live."""
    who, bot = _asked(id)
    values = _values("reason", "revision")
    revision = body.optional(values, "revision", int)
    return _shown(decide.reject(who, bot, values.get("reason"), revision=revision), who)


@blueprint.post("/bots/<int:id>/enable-test")
@auth.access("user")
def enable_test(id: int) -> ResponseReturnValue:
    """Lets the reviewer who asks talk to what waits, in place of whoever did before."""
    who, bot = _asked(id)
    return _shown(decide.test(who, bot), who)


@blueprint.get("/approvals")
@auth.access("user")
def approvals() -> ResponseReturnValue:
    """What one may decide on, in pages: ?limit=N&offset=N gives {bots: [{..., questionnaire, review_target}], total}."""
    paging = form.paging(request.args, usual=DEFAULT_LIMIT, most=store.MOST_LISTED)
    who = rights.of(auth.identity())
    return waiting.approvals(who, offset=paging["offset"], limit=paging["limit"])


@blueprint.get("/permissions")
@auth.access("user")
def permissions() -> ResponseReturnValue:
    """What one may approve, and for whom one may make bots: {permissions, visibilities}."""
    language = best_language(request.accept_languages)
    return waiting.permissions(rights.of(auth.identity()), language=language)


def _asked(id: int) -> tuple[Who, Bot]:
    """Who asks, and the bot; for those who may not see it, it is not there."""
    who, bot = rights.of(auth.identity()), store.get(id)
    if bot is None or not rights.may(who, bot, "see"):
        raise NotFound
    return who, bot


def _values(*names: str) -> dict[str, Any]:
    values = body.read(request.get_data())
    body.only(values, names)
    return values


def _shown(bot: Bot, who: Who) -> dict[str, Any]:
    """The bot after the decision: whole for its owner only, whoever else decided it."""
    return present.full([bot], prompts=bot.owner_id == who.person_id)[0]
