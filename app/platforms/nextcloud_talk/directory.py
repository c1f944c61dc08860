"""Groups and teams of a person, as the server tells its service user; what it does not tell is never taken for none.

An administrator's account is told every group; a sub-admin is told those of its own, so that of all others it stays
unknown whether the person is in them. A team that is not listed may exist unseen: it is unknown, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.accounts.directory import Answer, Belonging, Directory, Told
from app.accounts.models import Instance
from app.accounts.serviceuser import PASSING, Reason, Untold
from app.infra import clock
from app.infra.caches.bounded import Bounded
from app.platforms.nextcloud_talk import cloud
from app.platforms.nextcloud_talk.cloud import TeamMember

MOST_TEAMS = 100
TEAM_SECONDS = 60.0
ASKING_SECONDS = 20.0
# Of one team only: it is left out and so unknown, the others count.
HIDDEN = ("forbidden", "missing", "unknown_route", "too_large")
Teams = Mapping[str, tuple[TeamMember, ...]]
TeamsKey = tuple[int, str, str, str]
TEAMS: Bounded[TeamsKey, Teams] = Bounded(
    entries=50, weight=200_000, seconds=TEAM_SECONDS, weigh=lambda teams: sum(map(len, teams.values())) + len(teams)
)


class CloudDirectory:
    """Asks a Nextcloud."""

    kind = "nextcloud"

    def ask(self, instance: Instance, uid: str) -> Answer:
        """Raises Untold when the server tells nothing at all."""
        groups = _told_groups(instance.id, uid)
        if not isinstance(groups, Told) and (groups in PASSING or groups in ("refused", "no_service_user", "sealed")):
            raise Untold(groups)
        try:
            teams: Told | Reason = _teams_of(uid, groups, _all_teams(instance))
        except Untold as error:
            teams = error.reason
        return Answer(groups, teams)


DIRECTORY: Directory = CloudDirectory()


def _told_groups(instance_id: int, uid: str) -> Told | Reason:
    try:
        me = cloud.myself(instance_id)
        mine = uid == me.uid
        groups = me.groups if mine else cloud.groups_of(instance_id, uid)
    except Untold as error:
        return error.reason
    manages = _managed(instance_id, uid) if me.administers else frozenset()
    known = None if mine or me.administers else groups
    return Told(tuple(Belonging(name, name in manages) for name in sorted(groups)), known)


def _managed(instance_id: int, uid: str) -> frozenset[str]:
    """What the person is sub-admin of: a right to approve, so that where it isn't told there is none."""
    try:
        return cloud.managed_by(instance_id, uid)
    except Untold:
        return frozenset()


def _all_teams(instance: Instance) -> Teams:
    """Every team that can be seen, with who has joined; at most MOST_TEAMS, the rest is unknown. Raises Untold."""
    key = (instance.id, instance.url, instance.service_uid or "", instance.service_secret or "")
    kept = TEAMS.get(key)
    if kept is not None:
        return kept
    begun = clock.monotonic()
    found: dict[str, tuple[TeamMember, ...]] = {}
    for id in cloud.teams(instance.id)[:MOST_TEAMS]:
        if clock.monotonic() - begun > ASKING_SECONDS:
            break
        try:
            found[id] = cloud.team(instance.id, id)
        except Untold as error:
            if error.reason not in HIDDEN:
                raise
    TEAMS.put(key, found, asked_at=begun)
    return found


def _teams_of(uid: str, groups: Told | Reason, teams: Teams) -> Told:
    belongs, known = [], set()
    for id, members in teams.items():
        inside = _inside(uid, groups, teams, id, seen=frozenset())
        if inside is not None:
            known.add(id)
        if inside:
            manages = any(each.moderates and (each.actor.kind, each.actor.id) == ("users", uid) for each in members)
            belongs.append(Belonging(id, manages))
    return Told(tuple(belongs), frozenset(known))


def _inside(uid: str, groups: Told | Reason, teams: Teams, id: str, *, seen: frozenset[str]) -> bool | None:
    """Whether a person has joined a team, alone, by a group, or by another team in it; None when nobody can tell."""
    if id not in teams:
        return None
    answers = {_is_among(uid, groups, teams, each, seen | {id}) for each in teams[id]}
    return True if True in answers else None if None in answers else False


def _is_among(uid: str, groups: Told | Reason, teams: Teams, member: TeamMember, seen: frozenset[str]) -> bool | None:
    kind, id = member.actor.kind, member.actor.id
    if kind == "users":
        return id == uid
    if kind == "groups":
        if not isinstance(groups, Told):
            return None
        if any(each.name == id for each in groups.belongs):
            return True
        return False if groups.known is None or id in groups.known else None
    if kind == "teams":
        return False if id in seen else _inside(uid, groups, teams, id, seen=seen)
    # An e-mail address or somebody of another server: not this person, who has an account here.
    return False
