"""`python -m benchmarks [NAME ...]`: measure all, or those that are named."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from benchmarks import catalogue, places
from benchmarks.runner import carry_out


def main() -> int:
    """Run what was asked for; nothing here fails because a figure is low."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(catalogue.NAMES))
    parser.add_argument("--runs", type=int, default=5, help="of each side (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a timed run (2)")
    parser.add_argument("--full", action="store_true", help="with a million entities in memory")
    parser.add_argument(
        "--patience", type=float, default=5.0, help="seconds to wait for a quiet machine (5)"
    )
    parser.add_argument("--verbose", action="store_true", help="show every run on stderr")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(catalogue.NAMES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(catalogue.NAMES)}")
    wanted = chosen.names or catalogue.NAMES
    with ExitStack() as stack:
        # One server for all; each run has a database of its own.
        on_postgresql = any("postgresql" in name for name in wanted)
        postgresql = stack.enter_context(places.postgresql()) if on_postgresql else None
        for name in wanted:
            place = postgresql if postgresql and "postgresql" in name else places.sqlite
            benchmark = catalogue.benchmark(name, place, seconds=chosen.seconds, full=chosen.full)
            carry_out(benchmark, runs=chosen.runs, patience=chosen.patience, verbose=chosen.verbose)
    return 0


if __name__ == "__main__":
    sys.exit(main())
