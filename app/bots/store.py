"""Bots in the database: made, changed, found and removed without a trace."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy import update as update_rows
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, defer

from app.accounts.models import Instance, Person
from app.bots import folding, form
from app.bots.models import Bot, BotTool
from app.infra import changes, clock
from app.infra.db import Base, changed, clean_text, prefixed, reading, transaction
from app.infra.errors import Conflict, NotFound
from app.infra.i18n import say
from app.llm import endpoints
from app.platforms.models import Registration

DOCTYPE = "bot"
MOST_LISTED = 100
# Sums of what was spent stay when their bot goes; they name nobody and hold no text. Ids of bots are never used twice.
SUMS = frozenset({prefixed("usage_days")})
CHANGED = say("The bot was changed or decided on in the meantime. Look at it again.")


@dataclass(frozen=True)
class Page:
    """Some of the bots that were asked for, in the order of their names, and how many there are."""

    bots: tuple[Bot, ...]
    total: int


def create(
    instance_id: int,
    owner_id: int,
    values: Mapping[str, Any],
    *,
    tools: Collection[str] | None = None,
    approved_by: str | None = None,
) -> Bot:
    """A new bot of `values`: name, mention_name, system_prompt, and whatever else of form.CHECKS; approved by default.

    Whether the owner may is judged before (review.edit). `tools` are the names that exist, where the caller knows them;
    `approved_by` is the uid of who publishes a shared bot. Raises BadInput, Conflict, NotFound (owner).
    """
    given = {"name": "", "mention_name": "", "system_prompt": "", "state": "approved"} | dict(values)
    checked = form.read(given)
    _check_model(checked.get("model"))
    assigned = checked.pop("tools", [])
    form.together(checked, assigned=assigned, known=tools)
    now = clock.now()
    with transaction() as session:
        owner = session.get(Person, owner_id)
        if owner is None or owner.instance_id != instance_id:
            raise NotFound(say("There is no person with that id in this instance."))
        bot = Bot(instance_id=instance_id, owner_id=owner_id, created_at=now, updated_at=now)
        bot.mention_key = folding.key(checked["mention_name"])
        _set(session, bot, checked)
        if bot.state == "approved" and bot.scope not in (None, "personal"):
            bot.approved_by, bot.approved_at = approved_by, now
        _insert(session, bot)
        _assign(session, bot.id, assigned)
        changes.record("created", instance_id, doctype=DOCTYPE, id=str(bot.id), after=fact(bot))
        return bot


def update(bot_id: int, values: Mapping[str, Any], *, tools: Collection[str] | None = None) -> Bot:
    """Writes `values` into the live version, unjudged; what is left out stays. Raises BadInput, NotFound, Conflict.

    For the command line and for what only administrators reach; what people edit goes through review.edit.
    """
    bot = get(bot_id)
    if bot is None:
        raise NotFound
    checked = change(bot, values)
    assigned = checked.pop("tools", None)
    checked = {"scope": bot.scope, "groups": bot.groups, "teams": bot.teams} | checked
    form.together(checked, assigned=assigned or [], known=tools)
    return write(bot, checked, assigned=assigned)


def change(bot: Bot, values: Mapping[str, Any]) -> dict[str, Any]:
    """The checked form of what is to change; a mention name never does. Raises BadInput."""
    checked = form.read(values)
    if checked.pop("mention_name", bot.mention_name) != bot.mention_name:
        form.refuse({"mention_name": say("A mention name never changes; make another bot instead.")})
    # A model that may no longer be used stands in the way of no other change.
    if checked.get("model") != bot.model:
        _check_model(checked.get("model"))
    return checked


def write(
    bot: Bot, columns: Mapping[str, Any], *, assigned: Iterable[str] | None = None, state: str | None = None,
    quietly: bool = False,
) -> Bot:  # fmt: skip
    """Writes checked `columns` and tools, if the bot still is at the revision (and in the `state`) that `bot` was read at.

    So what was judged on `bot` holds, and of two who decide one wins. `quietly` keeps the revision, for what no
    reviewer need know of. Raises Conflict, NotFound, BadInput (registration).
    """
    values = dict(columns) | ({} if quietly else {"revision": bot.revision + 1})
    here = (Bot.id == bot.id, Bot.revision == bot.revision, *(() if state is None else (Bot.state == state,)))
    with transaction() as session:
        _check_registration(session, bot, values)
        rows = update_rows(Bot).where(*here).values(**values, updated_at=clock.now())
        if not changed(session.execute(rows.execution_options(synchronize_session=False))):
            raise (NotFound() if session.get(Bot, bot.id) is None else Conflict(CHANGED))
        if assigned is not None:
            _assign(session, bot.id, assigned)
        written = _must(session.get(Bot, bot.id, populate_existing=True))
        changes.record(
            "updated", bot.instance_id, doctype=DOCTYPE, id=str(bot.id), before=fact(bot), after=fact(written)
        )
        return written


def remove(bot_id: int) -> None:
    """Deletes the bot and every row that names it by `bot_id`, in one transaction; what others own forgets it.

    Raises NotFound.
    """
    with transaction() as session:
        bot = _must(session.get(Bot, bot_id))
        changes.record("deleted", bot.instance_id, doctype=DOCTYPE, id=str(bot_id), before=fact(bot))
        _forget(session, bot_id)
        session.delete(bot)


def get(bot_id: int) -> Bot | None:
    """The bot with that id."""
    with reading() as session:
        return session.get(Bot, bot_id)


def by_mention(instance_id: int, name: str) -> Bot | None:
    """The bot of that mention name, however it is spelled: case, width and a leading @ don't count."""
    query = select(Bot).where(Bot.instance_id == instance_id, Bot.mention_key == folding.key(name.removeprefix("@")))
    with reading() as session:
        return session.scalars(query).one_or_none()


def chosen(instance: Instance, text: str) -> Bot:
    """The bot that the command line names, by its mention name or its number. Raises NotFound."""
    bot = by_mention(instance.id, text)
    if bot is None and text.isascii() and text.isdigit() and len(text) < 19:
        bot = get(int(text))
    if bot is None or bot.instance_id != instance.id:
        name = text.removeprefix("@")
        raise NotFound(say("There is no bot @{name} on {instance}.", name=name, instance=instance.name))
    return bot


def listed(
    instance_id: int, *, owner_id: int | None = None, words: str = "", offset: int = 0, limit: int = MOST_LISTED
) -> Page:
    """The bots of an instance, or of one owner; `words` is looked for in name, mention name and description."""
    conditions: list[ColumnElement[bool]] = [Bot.instance_id == instance_id]
    if owner_id is not None:
        conditions.append(Bot.owner_id == owner_id)
    conditions += _about(words)
    query = select(Bot).where(*conditions).order_by(Bot.mention_key).offset(offset).limit(min(limit, MOST_LISTED))
    with reading() as session:
        total = session.scalar(select(func.count()).select_from(Bot).where(*conditions)) or 0
        return Page(tuple(session.scalars(query)), total)


def for_everyone(instance_id: int, owner_id: int | None, *, words: str = "", uid: str = "") -> Sequence[Bot]:
    """What access.each may allow to a person, without the prompts: live shared bots, own ones, and one's tests."""
    live = (Bot.state == "approved") | ((Bot.state == "pending") & Bot.pending.is_not(None))
    visible = or_(live & (Bot.scope != "personal"), (Bot.state == "pending") & (Bot.tester == uid))
    if owner_id is not None:
        visible = or_(visible, Bot.owner_id == owner_id)
    query = select(Bot).where(Bot.instance_id == instance_id, Bot.is_active, visible, *_about(words))
    with reading() as session:
        return session.scalars(query.order_by(Bot.mention_key).options(defer(Bot.system_prompt))).all()


def tools_of(bot_ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The names of the assigned tools by bot, in the order in which they were assigned."""
    ids = list(bot_ids)
    found: dict[int, list[str]] = {id: [] for id in ids}
    with reading() as session:
        query = select(BotTool.bot_id, BotTool.tool).where(BotTool.bot_id.in_(ids)).order_by(BotTool.id)
        for bot_id, tool in session.execute(query):
            found[bot_id].append(tool)
    return {id: tuple(tools) for id, tools in found.items()}


def fact(bot: Bot) -> dict[str, Any]:
    """What changes tell about a bot: no prompt."""
    names = ("name", "mention_name", "scope", "state", "is_active", "owner_id")
    return {name: getattr(bot, name) for name in names}


def _about(words: str) -> list[ColumnElement[bool]]:
    wanted = clean_text(words).strip().lower()
    if not wanted:
        return []
    columns = (func.lower(Bot.name), Bot.mention_key, func.lower(Bot.description))
    return [or_(*(column.contains(wanted, autoescape=True) for column in columns))]


def _set(session: Session, bot: Bot, checked: Mapping[str, Any]) -> None:
    _check_registration(session, bot, checked)
    for name, value in checked.items():
        setattr(bot, name, value)


def _check_model(reference: str | None) -> None:
    sentence = None if reference is None else endpoints.refusal(reference)
    form.refuse({} if sentence is None else {"model": sentence})


def _check_registration(session: Session, bot: Bot, checked: Mapping[str, Any]) -> None:
    registration_id = checked.get("registration_id")
    if registration_id is not None:
        registration = session.get(Registration, registration_id)
        if registration is None or registration.instance_id != bot.instance_id:
            form.refuse({"registration_id": say("There is no registration with that number in this instance.")})


def _insert(session: Session, bot: Bot) -> None:
    try:
        with session.begin_nested():
            session.add(bot)
    except IntegrityError:
        sentence = say("Another bot is called @{name} already.", name=bot.mention_name)
        raise Conflict(sentence, fields={"mention_name": str(sentence)}) from None


def _assign(session: Session, bot_id: int, tools: Iterable[str]) -> None:
    session.execute(delete(BotTool).where(BotTool.bot_id == bot_id))
    session.add_all(BotTool(bot_id=bot_id, tool=tool) for tool in tools)
    session.flush()


def _forget(session: Session, bot_id: int) -> None:
    """Packages of a higher rank hold rows about bots, too: every table with a column `bot_id`, children first.

    Where the column may be empty the row has another owner (a trace is the person's who asked), and forgets the bot.
    """
    for table in reversed(Base.metadata.sorted_tables):
        column = table.columns.get("bot_id")
        if column is None or table.name in SUMS:
            continue
        rows = update_rows(table).values(bot_id=None) if column.nullable else delete(table)
        session.execute(rows.where(column == bot_id))


def _must(bot: Bot | None) -> Bot:
    if bot is None:
        raise NotFound
    return bot
