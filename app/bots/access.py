"""The one answer to "may they use this bot?", for rooms, pages and programs alike. It only reads tables, and says why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from app.accounts import directory, people
from app.accounts.directory import Memberships
from app.accounts.models import Person
from app.accounts.serviceuser import SENTENCES
from app.bots.models import Bot
from app.infra.i18n import Sentence, say
from app.platforms.base import Actor

NOT_ASKED = say("your groups and teams were not confirmed lately")

Decision = Literal["allow", "deny", "unknown"]


class Why(StrEnum):
    """The reason of a decision, stable for records and programs."""

    OWNER = "owner"
    TESTER = "tester"
    EVERYONE = "global"
    OTHER_INSTANCE = "other_instance"
    INACTIVE = "inactive"
    NOT_OPENED = "not_opened"
    NOT_A_PERSON = "not_a_person"
    DRAFT = "draft"
    PERSONAL = "personal"
    GROUPS = "groups"
    TEAMS = "teams"
    NO_SCOPE = "no_scope"


@dataclass(frozen=True)
class Access:
    """A decision with its reason; `sentence` tells it to whoever asked. `unknown` counts as no (product.md K3)."""

    kind: Decision
    reason: Why
    sentence: Sentence

    @property
    def allowed(self) -> bool:
        return self.kind == "allow"


def may_use(bot: Bot, actor: Actor, instance_id: int) -> Access:
    """Whether `actor`, an actor of the instance `instance_id`, may use `bot` there (product.md K2, K3)."""
    return each([bot], actor, instance_id)[0]


def each(bots: Iterable[Bot], actor: Actor, instance_id: int) -> list[Access]:
    """`may_use` for many bots, in their order, asking the database once."""
    asked = list(bots)
    person = people.find(instance_id, actor.id) if actor.kind == "users" else None
    told = directory.UNKNOWN
    if person is not None and any(bot.scope in (directory.GROUPS, directory.TEAMS) for bot in asked):
        told = directory.memberships(person.id)
    return [_decision(bot, actor, instance_id, person=person, told=told) for bot in asked]


def _decision(bot: Bot, actor: Actor, instance_id: int, *, person: Person | None, told: Memberships) -> Access:
    refusal = _refusal(bot, actor, instance_id)
    if refusal is not None:
        return refusal
    if person is not None and bot.owner_id == person.id:
        return Access("allow", Why.OWNER, say("This bot is yours."))
    if person is not None and bot.state == "pending" and bot.tester == person.uid:
        return Access("allow", Why.TESTER, say("You are testing this bot."))
    if not bot.is_live:
        # Whoever may not see it learns no more about a draft than about somebody's personal bot.
        return _deny(Why.DRAFT, _not_shared(bot))
    return _by_scope(bot, told)


def _refusal(bot: Bot, actor: Actor, instance_id: int) -> Access | None:
    name = bot.mention_name
    if bot.instance_id != instance_id:
        return _deny(Why.OTHER_INSTANCE, say("There is no bot @{name} here.", name=name))
    if not bot.is_active:
        return _deny(Why.INACTIVE, say("@{name} is switched off.", name=name))
    if actor.kind in ("guests", "emails", "federated_users"):
        return _deny(
            Why.NOT_OPENED, say("@{name} doesn't answer guests; ask somebody with an account here.", name=name)
        )
    if actor.kind != "users":
        return _deny(Why.NOT_A_PERSON, say("@{name} answers people of this server only.", name=name))
    return None


def _by_scope(bot: Bot, told: Memberships) -> Access:
    if bot.scope == "global":
        return Access("allow", Why.EVERYONE, say("This bot is for everyone."))
    if bot.scope == "personal":
        return _deny(Why.PERSONAL, _not_shared(bot))
    if bot.scope == "groups":
        return _by_membership(bot, told, told.belongs("groups", bot.groups))
    if bot.scope == "teams":
        return _by_membership(bot, told, told.belongs("teams", bot.teams))
    return _deny(Why.NO_SCOPE, _not_shared(bot))


def _by_membership(bot: Bot, told: Memberships, belongs: bool | None) -> Access:
    """What groups or teams say: they are as the directory told last, and whoever it did not tell of is unknown."""
    reason, name = Why(bot.scope), bot.mention_name
    if belongs is None:
        why = NOT_ASKED if told.problem is None else SENTENCES[told.problem]
        return Access("unknown", reason, say("Whether you may use @{name} can't be told: {why}.", name=name, why=why))
    if belongs:
        return Access("allow", reason, say("This bot is for a group or team that you are in."))
    return _deny(reason, say("@{name} is for certain groups or teams, and you are in none of them.", name=name))


def _not_shared(bot: Bot) -> Sentence:
    return say("@{name} is not for you; whoever made it can share it.", name=bot.mention_name)


def _deny(reason: Why, sentence: Sentence) -> Access:
    return Access("deny", reason, sentence)
