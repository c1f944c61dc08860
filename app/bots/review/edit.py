"""Bots made, changed, switched and removed by people: live at once where they may publish, else a draft or a proposal.

The live version of a shared bot changes only by somebody who may publish the result; what others change waits beside it
(product.md K13).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from app.bots import form, store
from app.bots.models import Bot
from app.bots.review import rights, version
from app.bots.review.rights import Target, Who
from app.infra import clock
from app.infra.errors import Conflict, NotAllowed
from app.infra.i18n import say

# What nothing of a review leaves behind.
UNREVIEWED: Mapping[str, Any] = {
    "pending": None,
    "tester": None,
    "questionnaire": None,
    "submitted_at": None,
    "approved_by": None,
    "approved_at": None,
    "rejection_reason": None,
}


@dataclass(frozen=True)
class Wish:
    """What somebody wants of a bot: the fields they give, and the state, None where they don't say.

    `known` are the tools that exist, where the caller knows them.
    """

    who: Who
    bot: Bot
    live: Mapping[str, Any]
    given: Mapping[str, Any]
    state: str | None
    known: Collection[str] | None

    @property
    def is_owners(self) -> bool:
        return self.who.operator or self.bot.owner_id == self.who.person_id

    def on(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the version that `base` becomes. Raises BadInput."""
        fields = {**base, **self.given}
        form.together(fields, assigned=self.given.get("tools", ()), known=self.known)
        return fields


def create(who: Who, owner_id: int, values: Mapping[str, Any], *, tools: Collection[str] | None = None) -> Bot:
    """A new bot: approved where its maker may publish it or it is personal, else a draft. `tools` are those that exist.

    Raises BadInput, Conflict, NotAllowed.
    """
    checked = form.read(values)
    target = Target.of({"scope": "personal", "groups": (), "teams": ()} | checked)
    state = checked.get("state")
    if rights.may_publish(who, target):
        state = state or "approved"
    elif state == "approved":
        raise _needs_review(who, target)
    given = {**values, "state": state or "draft"}
    return store.create(who.instance_id, owner_id, given, tools=tools, approved_by=who.uid)


def change(who: Who, bot: Bot, values: Mapping[str, Any], *, tools: Collection[str] | None = None) -> Bot:
    """Changes what is given, each field as `who` may; gives the bot as it is then. `tools` are those that exist.

    Raises BadInput, Conflict, NotAllowed, NotFound.
    """
    rights.need(who, bot, "see")
    # Whoever sends a whole bot back need not take out a state that they could not ask for.
    checked = store.change(
        bot, {name: value for name, value in values.items() if (name, value) != ("state", bot.state)}
    )
    active, state = checked.pop("is_active", None), checked.pop("state", None)
    if active is not None:
        rights.need(who, bot, "switch")
    columns: dict[str, Any] = {}
    if checked or state is not None:
        rights.need(who, bot, "edit")
        columns = _planned(Wish(who, bot, version.live(bot), checked, state, tools))
    quietly = not columns
    if active is not None and active != bot.is_active:
        columns["is_active"] = active
    if not columns:
        return bot
    return store.write(bot, columns, assigned=columns.pop("tools", None), quietly=quietly)


def switch(who: Who, bot: Bot, active: bool) -> Bot:
    """Switches a bot on or off. Raises NotAllowed, NotFound, Conflict."""
    return change(who, bot, {"is_active": active})


def remove(who: Who, bot: Bot) -> None:
    """Removes a bot with everything about it. Raises NotAllowed, NotFound."""
    rights.need(who, bot, "see")
    rights.need(who, bot, "remove")
    store.remove(bot.id)


def approval(who: Who) -> dict[str, Any]:
    """The columns of a version that `who` makes live now."""
    return {"approved_by": who.uid, "approved_at": clock.now(), "rejection_reason": None}


def _planned(wish: Wish) -> dict[str, Any]:
    """The columns to write, tools among them; empty where everything is so already."""
    is_live = wish.bot.is_live and wish.bot.scope != "personal"
    columns = _to_live(wish) if is_live else _to_draft(wish)
    now = {**wish.live, **{name: getattr(wish.bot, name) for name in columns if name != "tools"}}
    return columns if any(value != now[name] for name, value in columns.items()) else {}


def _to_draft(wish: Wish) -> dict[str, Any]:
    """Into a bot that nobody but its owner and its tester uses yet: written at once, live only by who may publish."""
    who, bot = wish.who, wish.bot
    fields = wish.on(wish.live)
    target = Target.of(fields)
    if target.scope == "personal":
        return _personal(wish, fields)
    if bot.state == "pending":
        return _submitted(wish, fields)
    wants = wish.state or bot.state
    if wants != "approved":
        return fields | {"state": wants}
    if rights.may_publish(who, target):
        return {**fields, **UNREVIEWED, **approval(who), "state": "approved"}
    if wish.state is not None:
        raise _needs_review(who, target)
    return {**fields, **UNREVIEWED, "state": "draft"}


def _personal(wish: Wish, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Back to its owner, who alone may take it from others: no approval is left to come back to."""
    bot = wish.bot
    if bot.scope != "personal" and not wish.is_owners:
        form.refuse({"scope": say("Only its owner makes a bot personal.")})
    stays = bot.state if bot.scope == "personal" else "approved"
    return {**fields, **UNREVIEWED, "state": wish.state or stays}


def _submitted(wish: Wish, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What waits for its first approval goes on waiting, as it is now; whoever tested it has tested something else."""
    if wish.state == "approved":
        raise Conflict(say("This bot waits for a review: approve or reject it."))
    if wish.state == "draft":
        return {**fields, **UNREVIEWED, "state": "draft"}
    return {**fields, "tester": None}


def _to_live(wish: Wish) -> dict[str, Any]:
    """Into a shared bot that others use."""
    bot = wish.bot
    if wish.state == "draft":
        return {**wish.on(version.target(bot)), **UNREVIEWED, "state": "draft"}
    if wish.state == "approved":
        raise Conflict(say("Changes of this bot wait for a review: approve or reject them."))
    fields = wish.on(wish.live)
    if fields["scope"] == "personal":
        return _personal(wish, wish.on(version.target(bot)))
    if not rights.may_publish(wish.who, Target.of(fields)):
        return _proposed(wish)
    return _published(wish, fields)


def _published(wish: Wish, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Live at once. What waits goes on waiting, but for what was changed now, and for what its owner said anew."""
    changed = version.difference(wish.live, fields) or {}
    over = {*changed, *version.whole(wish.given if wish.is_owners else ())}
    left = {name: value for name, value in (wish.bot.pending or {}).items() if name not in over}
    waits = version.difference(fields, {**fields, **left})
    if not changed and waits == wish.bot.pending:
        return {}
    rest = {} if waits else {"tester": None, "submitted_at": None}
    approved = approval(wish.who) if changed else {}
    return {**fields, **approved, **rest, "pending": waits, "state": "pending" if waits else "approved"}


def _proposed(wish: Wish) -> dict[str, Any]:
    """Beside the live version, until somebody decides; a proposal of nothing takes an earlier one back."""
    waits = version.difference(wish.live, wish.on(version.target(wish.bot)))
    if waits == wish.bot.pending:
        return {}
    return {
        "pending": waits,
        "state": "pending" if waits else "approved",
        "submitted_at": clock.now() if waits else None,
        "tester": None,
        "rejection_reason": None,
    }


def _needs_review(who: Who, target: Target) -> NotAllowed:
    decided = rights.not_theirs(who, target)
    return NotAllowed(say("{decided} Save it as a draft, and submit it.", decided=decided))
