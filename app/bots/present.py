"""Bots as programs see them: for their owner, and for whoever may use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from app.accounts import people
from app.bots import store
from app.bots.access import Access, Why
from app.bots.models import Bot


def full(bots: Sequence[Bot], *, prompts: bool) -> list[dict[str, Any]]:
    """The bots as their owner sees them; without `prompts` as an administrator does, who reads none.

    The fields are those of the live version; `pending` are those that wait for review beside it.
    """
    tools = store.tools_of(bot.id for bot in bots)
    owners = people.uids(bot.owner_id for bot in bots)
    return [
        _plain(bot)
        | _reviewed(bot)
        | {"owner": owners.get(bot.owner_id, ""), "tools": list(tools[bot.id])}
        | (_private(bot) if prompts else {})
        for bot in bots
    ]


def public(bot: Bot, access: Access) -> dict[str, Any]:
    """A bot as whoever may use it sees it: name, mention name, description, and why they may."""
    return {
        "name": bot.name,
        "mention_name": bot.mention_name,
        "description": bot.description,
        "reason": {"type": access.reason.value, "names": _names(bot, access.reason)},
    }


def _plain(bot: Bot) -> dict[str, Any]:
    return {
        "id": bot.id,
        "name": bot.name,
        "mention_name": bot.mention_name,
        "description": bot.description,
        "model": bot.model,
        "temperature": bot.temperature,
        "scope": bot.scope,
        "groups": bot.groups,
        "teams": bot.teams,
        "state": bot.state,
        "is_active": bot.is_active,
        "limits": bot.limits,
        "onboarding": bot.onboarding,
        "registration_id": bot.registration_id,
        "created_at": bot.created_at.isoformat(),
        "updated_at": bot.updated_at.isoformat(),
    }


def _reviewed(bot: Bot) -> dict[str, Any]:
    return {
        "revision": bot.revision,
        "has_pending_changes": bot.pending is not None,
        "submitted_at": _moment(bot.submitted_at),
        "approved_by": bot.approved_by,
        "approved_at": _moment(bot.approved_at),
        "tester": bot.tester,
    }


def _private(bot: Bot) -> dict[str, Any]:
    return {
        "system_prompt": bot.system_prompt,
        "pending": bot.pending,
        "questionnaire": bot.questionnaire,
        "rejection_reason": bot.rejection_reason,
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _names(bot: Bot, reason: Why) -> list[str]:
    if reason == Why.GROUPS:
        return bot.groups
    return bot.teams if reason == Why.TEAMS else []
