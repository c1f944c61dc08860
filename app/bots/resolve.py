"""Which bots a message addresses, in order, and what each of them is told (product.md K5).

A mention, a reply to what a bot said, or neither where a bot responds always. What belongs to rooms (who said the quoted
text, who spoke last, who responds always) comes in as callables that are asked only when it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import select

from app.bots import access, mentions
from app.bots.access import Access
from app.bots.mentions import Mentions
from app.bots.models import Bot
from app.infra.db import reading
from app.platforms.base import IncomingEvent
from app.platforms.models import Registration

How = Literal["mention", "reply", "always", "nobody"]


@dataclass(frozen=True)
class Carried:
    """A bot's name, and whether the registration that took the event answers for it."""

    id: int
    name: str
    here: bool


@dataclass(frozen=True)
class Addressed:
    """The outcome. `how` tells what addressed the first bot; `text` is the message without the names of all addressed.

    `denied` are bots that the speaker may not use, each with the reason to tell (notices.first_today says whether).
    `withheld` would respond always, but not to this speaker, who is not told: nobody called it.
    `elsewhere` are mentioned bots that another registration answers for; `unknown` are names that no bot has.
    """

    bots: tuple[Bot, ...]
    text: str
    denied: tuple[tuple[Bot, Access], ...] = ()
    withheld: tuple[tuple[Bot, Access], ...] = ()
    unknown: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    how: How = "nobody"
    mentions: Mentions = field(default_factory=lambda: Mentions((), ""), repr=False)

    def text_for(self, bot: Bot) -> str:
        """The message as one of `bots` reads it: its own name is cut out, those of others stay."""
        if bot.mention_name in self.mentions.names:
            return self.mentions.text_for(bot.mention_name)
        return self.mentions.source or self.text


def addressed(
    event: IncomingEvent,
    registration: Registration,
    *,
    sent_by: Callable[[str], int | None],
    last_spoke: Callable[[], int | None],
    always: Callable[[], int | None],
    confirm: Callable[[Sequence[Bot]], None] | None = None,
) -> Addressed:
    """Finds the bots that `event`, taken by `registration`, is for.

    `sent_by(text)` gives the id of the bot that sent exactly this text to the room; `last_spoke()` and `always()` give
    the ids of the bot that spoke there last and of the one that responds always. Each may give None. `confirm` is told
    the bots before anybody's right to them is looked up.
    """
    carried = _carried(registration)
    found = mentions.find(event, (bot.name for bot in carried))
    named = [bot for name in found.names for bot in carried if bot.name == name]
    ids = [bot.id for bot in named if bot.here]
    how: How = "mention" if ids else "nobody"
    replied = _replied_to(event, registration, carried, sent_by=sent_by, last_spoke=last_spoke)
    if replied is not None and replied not in ids:
        ids, how = [replied, *ids], "reply"
    elsewhere = tuple(bot.name for bot in named if not bot.here)
    if not ids and not elsewhere:
        ids, how = _always(carried, always), "always"
    bots = _load(ids)
    if confirm is not None:
        confirm(bots)
    allowed, refused = _sorted_by_access(bots, event, registration.instance_id)
    called = how in ("mention", "reply")
    return Addressed(
        allowed,
        found.text,
        denied=refused if called else (),
        withheld=() if called else refused,
        unknown=found.unknown,
        elsewhere=elsewhere,
        how=how if allowed or refused else "nobody",
        mentions=found,
    )


def named(event: IncomingEvent, registration: Registration) -> tuple[Bot, ...]:
    """The registration's bots that the text names, or that it replies to where only one is there; nobody's rights are asked.

    For whoever must say that something went wrong, when that was `addressed`.
    """
    carried = _carried(registration)
    found = mentions.find(event, (bot.name for bot in carried))
    ids = [bot.id for name in found.names for bot in carried if bot.name == name and bot.here]
    replied = _replied_to(event, registration, carried, sent_by=lambda _: None, last_spoke=lambda: None)
    return tuple(_load(ids or ([] if replied is None else [replied])))


def _carried(registration: Registration) -> Sequence[Carried]:
    """Every bot of the instance, by name; those without a registration of their own are on each shared one."""
    with reading() as session:
        query = select(Bot.id, Bot.mention_name, Bot.registration_id).where(Bot.instance_id == registration.instance_id)
        rows = session.execute(query.order_by(Bot.id)).all()
    mine = {registration.id, None} if registration.shared else {registration.id}
    return [Carried(id, name, registration_id in mine) for id, name, registration_id in rows]


def _replied_to(
    event: IncomingEvent,
    registration: Registration,
    carried: Sequence[Carried],
    *,
    sent_by: Callable[[str], int | None],
    last_spoke: Callable[[], int | None],
) -> int | None:
    """The bot whose message was replied to, when this registration posted it."""
    if event.parent is None or event.parent.actor.key != f"bots/bot-{registration.actor_hash}":
        return None
    here = {bot.id for bot in carried if bot.here}
    if len(here) == 1:
        return next(iter(here))
    sender = sent_by(event.parent.text)
    if sender not in here:
        sender = last_spoke()
    return sender if sender in here else None


def _always(carried: Iterable[Carried], always: Callable[[], int | None]) -> list[int]:
    id = always()
    return [bot.id for bot in carried if bot.here and bot.id == id]


def _load(ids: Sequence[int]) -> list[Bot]:
    if not ids:
        return []
    with reading() as session:
        rows = {bot.id: bot for bot in session.scalars(select(Bot).where(Bot.id.in_(ids)))}
    return [rows[id] for id in ids if id in rows]


def _sorted_by_access(
    bots: Sequence[Bot], event: IncomingEvent, instance_id: int
) -> tuple[tuple[Bot, ...], tuple[tuple[Bot, Access], ...]]:
    decided = list(zip(bots, access.each(bots, event.actor, instance_id), strict=True))
    allowed = tuple(bot for bot, decision in decided if decision.allowed)
    return allowed, tuple((bot, decision) for bot, decision in decided if not decision.allowed)
