"""Who may do what with a bot: one table, by the role that somebody has for it and the state it is in.

Roles follow the scope (talk-bots 3.3 to 3.5): a group's bots are for the sub-admins of all its groups, a team's for
those who moderate all its teams, and what is for everyone is for administrators. What a server does not confirm now
counts as no right, and is told as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from app.accounts import directory
from app.accounts.directory import UNKNOWN, Memberships
from app.accounts.models import Instance
from app.bots.models import Bot
from app.infra.auth import Identity
from app.infra.errors import Conflict, NotAllowed, NotFound
from app.infra.i18n import Sentence, say

Verb = Literal["see", "read", "edit", "submit", "approve", "reject", "test", "switch", "remove"]
States = frozenset[str]


class Role(StrEnum):
    """What somebody is to a bot.

    A manager may publish what its live version is for; an approver may approve what waits, or would. An administrator
    is one of the bot's instance.
    """

    OWNER = "owner"
    MANAGER = "manager"
    APPROVER = "approver"
    TESTER = "tester"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True)
class Target:
    """Whom a version of a bot is for."""

    scope: str
    groups: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Target:
        """Of a version's fields."""
        return cls(fields["scope"], frozenset(fields["groups"] or ()), frozenset(fields["teams"] or ()))


@dataclass(frozen=True)
class Who:
    """Who acts. `admin` is what this request may use; the `operator` at the command line may do everything."""

    person_id: int | None
    instance_id: int
    uid: str | None
    admin: bool = False
    operator: bool = False
    ask: Callable[[int], Memberships] = field(default=directory.refresh, repr=False, compare=False)

    @cached_property
    def memberships(self) -> Memberships:
        """Groups and teams, asked for when a right depends on them: that may talk to the network."""
        return UNKNOWN if self.person_id is None else self.ask(self.person_id)

    @property
    def groups(self) -> frozenset[str]:
        """The groups that they manage, as confirmed."""
        return self.memberships.managed_groups if self.memberships.fresh else frozenset()

    @property
    def teams(self) -> frozenset[str]:
        """The teams that they moderate, as confirmed."""
        return self.memberships.managed_teams if self.memberships.teams_fresh else frozenset()


ANY: States = frozenset({"draft", "pending", "approved", "rejected"})
PENDING: States = frozenset({"pending"})
UNSENT: States = frozenset({"draft", "rejected"})
SENT: States = ANY - UNSENT

# What each role may do, and while the bot is in which state. `read` is the prompt and what was told to reviewers.
RULES: Mapping[Verb, Mapping[Role, States]] = {
    "see": {
        Role.OWNER: ANY,
        Role.ADMINISTRATOR: ANY,
        Role.MANAGER: SENT,
        Role.APPROVER: PENDING,
        Role.TESTER: PENDING,
    },
    "read": {Role.OWNER: ANY, Role.APPROVER: PENDING},
    "edit": {Role.OWNER: ANY, Role.MANAGER: SENT},
    "submit": {Role.OWNER: UNSENT},
    "approve": {Role.APPROVER: PENDING},
    "reject": {Role.APPROVER: PENDING},
    "test": {Role.APPROVER: PENDING},
    "switch": {Role.OWNER: ANY, Role.MANAGER: SENT, Role.ADMINISTRATOR: ANY},
    "remove": {Role.OWNER: ANY, Role.MANAGER: ANY},
}
REVIEW: frozenset[Verb] = frozenset({"approve", "reject", "test"})
UNSURE = say("Which groups and teams you manage can't be confirmed now, and so not what you may approve.")


def of(identity: Identity) -> Who:
    """Who asks, with the rights of this request."""
    return Who(identity.person_id, identity.instance_id, identity.uid, admin=identity.admin)


def at_the_command_line(instance: Instance) -> Who:
    """Whoever runs manage.py: it acts on the database, and so may everything."""
    return Who(None, instance.id, None, admin=True, operator=True)


def may_publish(who: Who, target: Target) -> bool:
    """Whether they may make a version live for `target` at once; what is personal is so by itself."""
    if target.scope == "personal" or who.admin:
        return True
    return _governs(who, target)


def may_approve(who: Who, target: Target) -> bool:
    """Whether they may decide what waits for `target`: as may_publish, but administrators alone decide no team's bots."""
    if target.scope == "personal":
        return False
    return who.operator or (who.admin and target.scope != "teams") or _governs(who, target)


def has_any(who: Who) -> bool:
    """Whether there may be anything that they approve."""
    return who.admin or bool(who.groups or who.teams)


def pending_target(bot: Bot) -> Target:
    """Whom the bot would be for after an approval."""
    return Target.of({"scope": bot.scope, "groups": bot.groups, "teams": bot.teams} | (bot.pending or {}))


def live_target(bot: Bot) -> Target:
    """Whom the bot is for."""
    return Target.of({"scope": bot.scope, "groups": bot.groups, "teams": bot.teams})


def may(who: Who, bot: Bot, verb: Verb) -> bool:
    """Whether they may do it with the bot as it is now."""
    return any(bot.state in states and _is(who, bot, role) for role, states in RULES[verb].items())


def need(who: Who, bot: Bot, verb: Verb) -> None:
    """Raises NotFound for those who may not know of the bot, NotAllowed, or Conflict where its state forbids it."""
    if may(who, bot, verb):
        return
    if verb == "see" or not may(who, bot, "see"):
        raise NotFound
    if any(_is(who, bot, role) for role in RULES[verb]):
        raise Conflict(_not_now(bot, verb))
    raise NotAllowed(_not_you(who, bot, verb))


def unsure(who: Who, target: Target) -> bool:
    """Whether nobody can confirm now if they have a right for `target`."""
    known = {"groups": "fresh", "teams": "teams_fresh"}.get(target.scope)
    return known is not None and not getattr(who.memberships, known)


def not_theirs(who: Who, target: Target) -> Sentence:
    """What to tell somebody who may not decide on what is for `target`."""
    people = governors(target)
    if unsure(who, target):
        return say("This is decided on by {people}; whether you are one of them can't be confirmed now.", people=people)
    return say("This is decided on by {people}.", people=people)


def governors(target: Target) -> Sentence:
    """Who decides on what is for `target`, in words."""
    if target.scope == "groups":
        return say("administrators and those who manage all of its groups")
    if target.scope == "teams":
        return say("those who moderate all of its teams")
    return say("administrators")


def _governs(who: Who, target: Target) -> bool:
    if target.scope == "groups":
        return bool(target.groups) and target.groups <= who.groups
    return target.scope == "teams" and bool(target.teams) and target.teams <= who.teams


def _is(who: Who, bot: Bot, role: Role) -> bool:
    if who.instance_id != bot.instance_id:
        return False
    if role == Role.OWNER:
        return who.operator or (who.person_id is not None and bot.owner_id == who.person_id)
    if role == Role.TESTER:
        return who.uid is not None and bot.tester == who.uid
    if role == Role.ADMINISTRATOR:
        return who.admin
    if role == Role.APPROVER:
        return may_approve(who, pending_target(bot))
    return bot.scope != "personal" and may_publish(who, live_target(bot))


def _not_now(bot: Bot, verb: Verb) -> Sentence:
    if verb == "submit":
        return say("@{name} is submitted or approved already.", name=bot.mention_name)
    if verb in REVIEW:
        return say("Nothing of @{name} waits for a review.", name=bot.mention_name)
    return say("@{name} is a draft: only its owner may do this.", name=bot.mention_name)


def _not_you(who: Who, bot: Bot, verb: Verb) -> Sentence:
    if verb == "submit":
        return say("Only its owner submits a bot.")
    if verb in REVIEW:
        return not_theirs(who, pending_target(bot))
    if bot.scope == "personal":
        return say("A personal bot is its owner's; an administrator may only switch it on and off.")
    return not_theirs(who, live_target(bot))
