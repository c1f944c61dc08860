"""What waits for a reviewer, as programs see it, and what somebody may publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import defer

from app.accounts.models import Person
from app.bots import form, present
from app.bots.models import Bot
from app.bots.review import decide, rights, version
from app.bots.review.rights import Target, Who
from app.infra.db import reading
from app.infra.errors import NotAllowed
from app.infra.i18n import Sentence, say

LABELS: Mapping[str, Sentence] = {
    "personal": say("Only me"),
    "groups": say("Groups"),
    "teams": say("Teams"),
    "global": say("Everyone"),
}


def approvals(who: Who, *, offset: int = 0, limit: int) -> dict[str, Any]:
    """The bots that `who` may decide on, those that wait longest first: {bots, total}. Raises NotAllowed."""
    if not rights.has_any(who):
        told = None if who.memberships.fresh and who.memberships.teams_fresh else rights.UNSURE
        raise NotAllowed(told or say("You manage no group and no team, and so approve no bots."))
    query = select(Bot).where(Bot.instance_id == who.instance_id, Bot.state == "pending")
    with reading() as session:
        waiting = session.scalars(query.order_by(Bot.submitted_at, Bot.id).options(defer(Bot.system_prompt))).all()
    mine = [bot.id for bot in waiting if rights.may(who, bot, "approve")]
    return {"bots": shown(_loaded(mine[offset:][:limit])), "total": len(mine)}


def shown(bots: Sequence[Bot]) -> list[dict[str, Any]]:
    """Bots as their reviewers see them: the version that an approval makes live, and what their owners told."""
    names = _names({bot.owner_id for bot in bots})
    return [
        entry
        | {
            "owner_name": names.get(bot.owner_id, "") or entry["owner"],
            "questionnaire": bot.questionnaire,
            "review_target": version.target(bot) | {"is_update": bot.pending is not None},
            "changes": decide.changed_fields(bot),
        }
        for bot, entry in zip(bots, present.full(bots, prompts=False), strict=True)
    ]


def permissions(who: Who, *, language: str) -> dict[str, Any]:
    """What `who` may approve, and for whom they may make bots: {permissions, visibilities}.

    Everybody may ask for every scope. Where a scope has names, they may publish it for those that they manage.
    """
    groups, teams = sorted(who.groups), sorted(who.teams)
    return {
        "permissions": {
            "is_admin": who.admin,
            "is_group_admin": bool(groups),
            "is_team_admin": bool(teams),
            "has_approval_rights": rights.has_any(who),
            "admin_groups": groups,
            "admin_teams": teams,
            "confirmed": who.memberships.fresh and who.memberships.teams_fresh,
        },
        "visibilities": [
            {"value": scope, "label": LABELS[scope].text(language), "requires_approval": not _publishes(who, scope)}
            for scope in form.SCOPES
        ],
    }


def _publishes(who: Who, scope: str) -> bool:
    """Whether there is any target of that scope which they may publish."""
    return rights.may_publish(who, Target(scope, who.groups, who.teams))


def _loaded(ids: Sequence[int]) -> list[Bot]:
    with reading() as session:
        rows = {bot.id: bot for bot in session.scalars(select(Bot).where(Bot.id.in_(ids)))}
    # What was decided meanwhile is not shown to somebody who may not read it any more.
    return [rows[id] for id in ids if id in rows and rows[id].state == "pending"]


def _names(ids: set[int]) -> dict[int, str]:
    with reading() as session:
        rows = session.execute(select(Person.id, Person.display_name).where(Person.id.in_(ids)))
        return {row.id: row.display_name for row in rows}
