"""Who will read an answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Principal:
    """Somebody or some set of people: kind is users, guests, emails, federated_users, groups or teams."""

    instance_id: int
    kind: str
    id: str


@dataclass(frozen=True)
class Audience:
    """Everyone who reads a room. `complete` is False when nobody could tell who is in it (K3: unknown)."""

    principals: frozenset[Principal]
    complete: bool
