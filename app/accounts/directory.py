"""Groups and teams: what the tables say, how sure that is, and the Protocol of whoever can ask the server.

`bots.access` reads only these tables. A platform that can ask its server offers a `DIRECTORY` in the module `directory`
of its folder, is found there by discover, and `refresh` stores what it heard. Where no server can be asked (no service
user), the list that an administrator keeps is the truth and does not age; a person of whom it says nothing is unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Literal, Protocol, cast

from sqlalchemy import delete, select, update

from app.accounts.models import Instance, Membership, Person
from app.accounts.serviceuser import SENTENCES, Reason, Untold
from app.infra import clock, discover
from app.infra.db import clean_text, reading, transaction
from app.infra.errors import BadInput, NotFound
from app.infra.i18n import say

log = logging.getLogger(__name__)

PLATFORMS = "app.platforms"
Kind = Literal["groups", "teams"]
FRESH = timedelta(seconds=60)
GROUPS: Kind = "groups"
TEAMS: Kind = "teams"
LONGEST_NAME = 190


@dataclass(frozen=True)
class Belonging:
    """One group or team of a person; `manages`: sub-admin of the group, moderator of the team."""

    name: str
    manages: bool = False


@dataclass(frozen=True)
class Told:
    """What a server says of one person and one kind. `known` are the names that it was sure about, None for all."""

    belongs: tuple[Belonging, ...]
    known: frozenset[str] | None = None


@dataclass(frozen=True)
class Answer:
    """Groups and teams as a server tells them; a kind that it does not tell is the reason why."""

    groups: Told | Reason
    teams: Told | Reason


class Directory(Protocol):
    """Asks one kind of server for the groups and teams of a person. Talks to the network: never inside a block."""

    kind: str
    """The kind of instance that it can ask."""

    def ask(self, instance: Instance, uid: str) -> Answer:
        """The groups and teams now. Raises Untold when the server tells neither."""
        ...


@dataclass(frozen=True)
class Memberships:
    """Groups and teams by their ids. `fresh` and `teams_fresh` are False when they were not confirmed lately.

    Teams go by the server's id, never by their names: everybody may give a team any name. `problem` is why the server
    did not tell when it was last asked.
    """

    groups: frozenset[str]
    teams: frozenset[str]
    fresh: bool
    seen_at: datetime | None
    managed_groups: frozenset[str] = frozenset()
    managed_teams: frozenset[str] = frozenset()
    teams_fresh: bool = False
    known_groups: frozenset[str] | None = None
    known_teams: frozenset[str] | None = None
    problem: Reason | None = None

    def belongs(self, kind: Kind, names: Collection[str]) -> bool | None:
        """Whether the person is in one of these; None when nobody can tell now."""
        if not names:
            return False
        fresh, mine, known = (
            (self.fresh, self.groups, self.known_groups)
            if kind == GROUPS
            else (self.teams_fresh, self.teams, self.known_teams)
        )
        if not fresh:
            return None
        if not mine.isdisjoint(names):
            return True
        return False if known is None or known.issuperset(names) else None


UNKNOWN = Memberships(frozenset(), frozenset(), False, None)


def memberships(person_id: int) -> Memberships:
    """What the tables say of a person; empty and not fresh for nobody."""
    with reading() as session:
        joined = select(Person, Instance.service_uid).join(Instance, Instance.id == Person.instance_id)
        found = session.execute(joined.where(Person.id == person_id)).first()
        rows = session.scalars(select(Membership).where(Membership.person_id == person_id)).all()
    if found is None:
        return UNKNOWN
    person, service_uid = found
    ages = service_uid is not None
    return Memberships(
        groups=frozenset(row.name for row in rows if row.kind == GROUPS),
        teams=frozenset(row.name for row in rows if row.kind == TEAMS),
        fresh=_is_fresh(person.groups_seen_at, ages),
        seen_at=person.groups_seen_at,
        managed_groups=frozenset(row.name for row in rows if row.kind == GROUPS and row.manages),
        managed_teams=frozenset(row.name for row in rows if row.kind == TEAMS and row.manages),
        teams_fresh=_is_fresh(person.teams_seen_at, ages),
        known_groups=None if person.known_groups is None else frozenset(person.known_groups),
        known_teams=None if person.known_teams is None else frozenset(person.known_teams),
        problem=_reason(person.directory_problem) if ages else "no_service_user",
    )


def refresh(person_id: int) -> Memberships:
    """What is true now: asks the server where the tables are older than a minute. Never raises for what it answers.

    What it does not tell stays as it was, not fresh. Talks to the network: never inside a block.
    """
    known = memberships(person_id)
    with reading() as session:
        person = session.get(Person, person_id)
        instance = None if person is None else session.get(Instance, person.instance_id)
    if person is None or instance is None or (known.fresh and known.teams_fresh):
        return known
    asked = directories().get(instance.kind)
    if asked is None or instance.service_uid is None:
        return known
    try:
        answer = asked.ask(instance, person.uid)
    except Untold as error:
        answer = Answer(error.reason, error.reason)
    _note(person_id, answer)
    return memberships(person_id)


@cache
def directories() -> Mapping[str, Directory]:
    """Whoever can ask a kind of instance, by that kind: the DIRECTORY of each platform's folder."""
    found: dict[str, Directory] = {}
    for folder in discover.modules_in(PLATFORMS):
        module = discover.submodule(folder.__name__, "directory") if hasattr(folder, "__path__") else None
        if module is not None:
            found[module.DIRECTORY.kind] = module.DIRECTORY
    return found


def remember(
    person_id: int, *, groups: Iterable[Belonging] | None = None, teams: Iterable[Belonging] | None = None
) -> None:
    """Replaces a person's groups, teams or both, confirmed now; None leaves them. Raises BadInput, NotFound."""
    told = {kind: Told(tuple(found)) for kind, found in ((GROUPS, groups), (TEAMS, teams)) if found is not None}
    _store(person_id, told)


def _note(person_id: int, answer: Answer) -> None:
    """Stores what was told, and why the rest was not; a name that fits nowhere is left out, and then not known."""
    both: tuple[tuple[Kind, Told | Reason], ...] = ((GROUPS, answer.groups), (TEAMS, answer.teams))
    told = {kind: _fitting(found) for kind, found in both if isinstance(found, Told)}
    problem = next((found for _, found in both if not isinstance(found, Told)), None)
    if told:
        _store(person_id, told)
    if problem is not None:
        log.info("groups or teams of person %s are not told: %s", person_id, problem)
    with transaction() as session:
        session.execute(update(Person).where(Person.id == person_id).values(directory_problem=problem))


def _fitting(told: Told) -> Told:
    fits = tuple(each for each in told.belongs if _fits(each.name))
    if len(fits) == len(told.belongs):
        return told
    known = told.known if told.known is not None else frozenset(each.name for each in fits)
    return Told(fits, frozenset(name for name in known if _fits(name)))


def _store(person_id: int, told: Mapping[Kind, Told]) -> None:
    wanted = {kind: (_named(found.belongs), found.known) for kind, found in told.items()}
    now = clock.now()
    with transaction() as session:
        person = session.get(Person, person_id, with_for_update=True)
        if person is None:
            raise NotFound
        for kind, (found, known) in wanted.items():
            certain = None if known is None else sorted(known)
            if kind == GROUPS:
                person.groups_seen_at, person.known_groups = now, certain
            else:
                person.teams_seen_at, person.known_teams = now, certain
            session.execute(delete(Membership).where(Membership.person_id == person_id, Membership.kind == kind))
            session.add_all(
                Membership(person_id=person_id, kind=kind, name=each.name, manages=each.manages)
                for each in found.values()
            )


def _is_fresh(seen_at: datetime | None, ages: bool) -> bool:
    return seen_at is not None and (not ages or clock.now() - seen_at <= FRESH)


def _reason(stored: str | None) -> Reason | None:
    # A reason that a later version wrote is one that this version can't name.
    return cast("Reason", stored) if stored in SENTENCES else None


def _fits(name: str) -> bool:
    return clean_text(name) == name and 0 < len(name.strip()) <= LONGEST_NAME


def named(names: Iterable[str] | None) -> list[Belonging] | None:
    """Plain names as belongings that manage nothing; None stays None."""
    return None if names is None else [Belonging(name) for name in names]


def _named(found: Iterable[Belonging]) -> dict[str, Belonging]:
    named: dict[str, Belonging] = {}
    for each in found:
        name = clean_text(each.name).strip()
        if not 0 < len(name) <= LONGEST_NAME:
            sentence = say("The name of a group or team has 1 to {most} characters.", most=LONGEST_NAME)
            raise BadInput(sentence, fields={"groups": str(sentence)})
        known = named.get(name)
        named[name] = Belonging(name, each.manages or (known is not None and known.manages))
    return named
