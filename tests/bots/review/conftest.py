from __future__ import annotations

from typing import Any

from app.accounts import directory, people
from app.accounts.directory import Belonging
from app.accounts.models import Instance
from app.bots import store
from app.bots.models import Bot
from app.bots.review import decide, edit, rights
from app.bots.review.rights import Who
from app.platforms.base import Actor
from tests.bots.conftest import cloud, person_id

ANSWERS = {"approval_reason": "The crew asked for it."}
PEOPLE: dict[str, dict[str, list[str]]] = {
    "gina": {"groups": ["crew"], "teams": []},
    "hugo": {"groups": ["crew", "deck"], "teams": []},
    "tess": {"groups": [], "teams": ["t1"]},
}


def harbour() -> Instance:
    """cloud() with gina (manages crew), hugo (crew and deck) and tess (moderates t1)."""
    instance = cloud()
    for uid, managed in PEOPLE.items():
        person = people.find(instance.id, uid)
        if person is None:
            manages(people.ensure(instance.id, uid).id, **managed)
    return instance


def manages(person: int, *, groups: list[str], teams: list[str]) -> None:
    directory.remember(
        person, groups=[Belonging(name, True) for name in groups], teams=[Belonging(name, True) for name in teams]
    )


def who(uid: str, instance: Instance | None = None) -> Who:
    where = instance or harbour()
    return Who(person_id(where, uid), where.id, uid, admin=uid == "carol")


def actor(uid: str) -> Actor:
    return Actor("users", uid, uid.title())


def made(mention: str = "atlas", *, owner: str = "bob", by: str | None = None, **values: Any) -> Bot:
    """A bot as its owner makes it; `by` is who has approved it since."""
    form = {"name": mention.title(), "mention_name": mention, "system_prompt": "Be kind.", "scope": "global"} | values
    bot = edit.create(who(owner), person_id(harbour(), owner), form)
    if by is None:
        return bot
    return decide.approve(who(by), decide.submit(who(owner), bot, ANSWERS))


def again(bot: Bot) -> Bot:
    found = store.get(bot.id)
    assert found is not None
    return found


def submitted(bot: Bot) -> Bot:
    return decide.submit(rights.Who(bot.owner_id, bot.instance_id, None), bot, ANSWERS)
