"""Groups and teams: what the tables say, how fresh that is, and the Protocol of whoever can ask the server.

`bots.access` reads only these tables. A platform that can ask its server implements `Directory` in its folder, is found
there by discover, and stores what it heard with `remember`. Where no server can be asked (no service user), the list
that an administrator keeps is the truth and is always fresh.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy import delete, select

from app.accounts.models import Instance, Membership, Person
from app.infra import clock
from app.infra.db import clean_text, reading, transaction
from app.infra.errors import BadInput, NotFound
from app.infra.i18n import say

FRESH = timedelta(seconds=60)
GROUPS = "groups"
TEAMS = "teams"
LONGEST_NAME = 190


@dataclass(frozen=True)
class Belonging:
    """One group or team of a person; `manages`: sub-admin of the group, moderator of the team."""

    name: str
    manages: bool = False


@dataclass(frozen=True)
class Answer:
    """What a server says of one person."""

    groups: tuple[Belonging, ...]
    teams: tuple[Belonging, ...]


class Directory(Protocol):
    """Asks one kind of server for the groups and teams of a person. Talks to the network: never inside a block."""

    kind: str
    """The kind of instance that it can ask."""

    def ask(self, instance: Instance, uid: str) -> Answer:
        """The groups and teams now. Raises ParleyError when the server doesn't tell."""
        ...


@dataclass(frozen=True)
class Memberships:
    """Groups and teams by name. `fresh` is False when they were not confirmed lately; `seen_at` is when they were."""

    groups: frozenset[str]
    teams: frozenset[str]
    fresh: bool
    seen_at: datetime | None
    managed_groups: frozenset[str] = frozenset()
    managed_teams: frozenset[str] = frozenset()


def memberships(person_id: int) -> Memberships:
    """What the tables say of a person; empty and not fresh for nobody."""
    with reading() as session:
        statement = select(Person.groups_seen_at, Instance.service_uid).join(
            Instance, Instance.id == Person.instance_id
        )
        person = session.execute(statement.where(Person.id == person_id)).first()
        rows = session.scalars(select(Membership).where(Membership.person_id == person_id)).all()
    if person is None:
        return Memberships(frozenset(), frozenset(), False, None)
    seen_at = person.groups_seen_at
    return Memberships(
        groups=frozenset(row.name for row in rows if row.kind == GROUPS),
        teams=frozenset(row.name for row in rows if row.kind == TEAMS),
        fresh=person.service_uid is None or (seen_at is not None and clock.now() - seen_at <= FRESH),
        seen_at=seen_at,
        managed_groups=frozenset(row.name for row in rows if row.kind == GROUPS and row.manages),
        managed_teams=frozenset(row.name for row in rows if row.kind == TEAMS and row.manages),
    )


def remember(
    person_id: int, *, groups: Iterable[Belonging] | None = None, teams: Iterable[Belonging] | None = None
) -> None:
    """Replaces a person's groups, teams or both, confirmed now; None leaves them. Raises BadInput, NotFound."""
    wanted = {kind: _named(found) for kind, found in ((GROUPS, groups), (TEAMS, teams)) if found is not None}
    with transaction() as session:
        person = session.get(Person, person_id, with_for_update=True)
        if person is None:
            raise NotFound
        person.groups_seen_at = clock.now()
        for kind, found in wanted.items():
            session.execute(delete(Membership).where(Membership.person_id == person_id, Membership.kind == kind))
            session.add_all(
                Membership(person_id=person_id, kind=kind, name=each.name, manages=each.manages)
                for each in found.values()
            )


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
