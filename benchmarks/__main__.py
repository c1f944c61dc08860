"""`make bench`: one table of what, ours, reference, ratio and goal."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import start
from benchmarks.row import Row

BENCHMARKS: dict[str, Callable[[int], list[Row]]] = {"start": start.run}


def main() -> None:
    """Runs the benchmarks that were named, or all."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="which ones; all of them by default")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    print(f"{'what':<44}{'ours':>12}{'reference':>12}{'ratio':>8}{'goal':>8}")
    for name in given.names or BENCHMARKS:
        for row in BENCHMARKS[name](given.rounds):
            print(row)


if __name__ == "__main__":
    main()
