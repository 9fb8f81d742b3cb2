"""Runs the sides of a benchmark by turns, each run in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from benchmarks.figures import Benchmark, Results, Run, Side
from benchmarks.machine import Others, alone, described

ROOT = Path(__file__).parents[1]
LONGEST_RUN = 900.0


def carry_out(benchmark: Benchmark, *, runs: int, patience: float, verbose: bool) -> Results:
    """Measure every side `runs` times, by turns, and print the set-up, the table and the lines."""
    print(f"\n=== {benchmark.name}", flush=True)
    for line in (*described(), *benchmark.setup, f"{runs} runs of each side, by turns; medians"):
        print(f"  {line}", flush=True)
    results = Results(benchmark)
    disturbed: list[float] = []
    for number in range(runs):
        for side in benchmark.sides:
            if number >= (runs if side.runs is None else side.runs):
                continue
            with benchmark.place() as place, alone(patience):
                others = Others()
                run = _in_a_process(side, place)
                disturbed.append(others.share())
            results.add(side.name, run)
            if verbose:
                print(
                    f"    {number + 1} {side.name}: {json.dumps(run)}", file=sys.stderr, flush=True
                )
    for line in results.lines():
        print(line, flush=True)
    print(
        f"  used by other processes meanwhile: at most {max(disturbed):.0%} of the machine",
        flush=True,
    )
    return results


def _in_a_process(side: Side, place: Mapping[str, Any]) -> Run:
    parameters = json.dumps({**side.parameters, **place})
    command = [sys.executable, "-m", "benchmarks.one_run", side.module, parameters]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_RUN, check=False
    )
    if done.returncode:
        raise SystemExit(f"{side.name} failed ({' '.join(command)}):\n{done.stderr[-4000:]}")
    return cast("Run", json.loads(done.stdout.splitlines()[-1]))
