"""Compares what a driver observed with what a case of tests/cases expects (tests/cases/README.md).

A key that no check knows fails; one that the driver can't observe is listed as "not observed"; a `soft_` key that does
not hold is listed and fails nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Check = Callable[[Any], None]


@dataclass
class Asserter:
    """Collects over all cases what was not observed and which soft goals were missed."""

    area: str
    not_observed: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def compare(self, case: str, expect: Mapping[str, Any], checks: Mapping[str, Check], *, blind: set[str]) -> None:
        """Raises AssertionError where an expectation does not hold, or has a key that nobody knows."""
        for key, wanted in expect.items():
            if key == "any_of":
                self._any_of(case, wanted, checks, blind=blind)
            elif key.startswith("soft_"):
                self._soft(case, key, wanted, checks)
            elif key in blind:
                self.not_observed.append(f"{case}: {key}")
            else:
                assert key in checks, f"{case}: nobody knows the key {key}"
                checks[key](wanted)

    def summary(self) -> str:
        lines = [
            f"area {self.area}: {len(self.not_observed)} expectations not observed, {len(self.missed)} goals missed"
        ]
        return "\n  ".join([*lines, *self.not_observed, *self.missed])

    def _any_of(
        self, case: str, wanted: list[Mapping[str, Any]], checks: Mapping[str, Check], *, blind: set[str]
    ) -> None:
        failures = []
        for expect in wanted:
            try:
                return self.compare(case, expect, checks, blind=blind)
            except AssertionError as error:
                failures.append(str(error))
        raise AssertionError(f"{case}: none of the alternatives holds: {failures}")

    def _soft(self, case: str, key: str, wanted: Any, checks: Mapping[str, Check]) -> None:
        check = checks.get(key) or checks.get(key.removeprefix("soft_"))
        if check is None:
            self.not_observed.append(f"{case}: {key}")
            return
        try:
            check(wanted)
        except AssertionError:
            self.missed.append(f"{case}: {key}")
