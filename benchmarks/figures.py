"""What is measured, side against side, and the lines that say how it came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Run = dict[str, float]
"""What one process measured. `value` is the figure; the rest are details by name."""
Place = Callable[[], AbstractContextManager[dict[str, Any]]]
"""Makes a fresh database or folder for one run, as parameters of the side's module."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things that are compared."""

    name: str
    module: str
    """Below `benchmarks`; has `run(**parameters) -> Run`."""
    parameters: Mapping[str, Any]
    runs: int | None = None
    """How often, when not as often as everybody else."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the result: ours against the peer, and the ratio that is aimed at."""

    ours: str
    peer: str
    target: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A name, the set-up in words, the sides, and what is compared with what."""

    name: str
    setup: Sequence[str]
    sides: Sequence[Side]
    comparisons: Sequence[Comparison]
    unit: str
    place: Place
    fewer_is_better: bool = False
    limit: float | None = None
    """What ours must not exceed, in the unit."""
    beside: str | None = None
    """A detail of a run that may come on top of the limit."""
    shares: Sequence[tuple[str, str, str]] = ()
    """Ours as a share of another side: (ours, other, in words)."""
    details: Mapping[str, str] = field(default_factory=dict)
    """Details of a run worth a column: name in the run → how it is printed."""


class Results:
    """Every run of every side of one benchmark."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._runs: dict[str, list[Run]] = {side.name: [] for side in benchmark.sides}

    def add(self, side: str, run: Run) -> None:
        """Keep what one run measured."""
        self._runs[side].append(run)

    def of(self, side: str, what: str = "value") -> float:
        """The median over the runs of a side."""
        return median(run[what] for run in self._runs[side])

    def lines(self) -> Iterator[str]:
        """The table of sides, then one line per comparison, then shares and limits."""
        for side, runs in self._runs.items():
            if runs:
                yield self._side(side, runs)
        for comparison in self._benchmark.comparisons:
            if self._runs[comparison.ours] and self._runs[comparison.peer]:
                yield self._compared(comparison)
        for ours, other, words in self._benchmark.shares:
            if self._runs[ours] and self._runs[other]:
                yield f"  {ours}: {self.of(ours) / self.of(other):.0%} of {words}"
        yield from self._within_limit()

    def _side(self, side: str, runs: Sequence[Run]) -> str:
        values = sorted(run["value"] for run in runs)
        details = "".join(
            ", " + text.format(self.of(side, name))
            for name, text in self._benchmark.details.items()
            if all(name in run for run in runs)
        )
        return (
            f"  {side}: median {self.of(side):.0f} {self._benchmark.unit} "
            f"(min {values[0]:.0f}, max {values[-1]:.0f}, {len(values)} runs{details})"
        )

    def _compared(self, comparison: Comparison) -> str:
        ours, peer = self.of(comparison.ours), self.of(comparison.peer)
        ratio = peer / ours if self._benchmark.fewer_is_better else ours / peer
        unit = self._benchmark.unit
        line = (
            f"{self._benchmark.name}: ours {ours:.0f} {unit} peer {peer:.0f} {unit} "
            f"ratio {ratio:.2f}"
        )
        words = [comparison.note] if comparison.note else []
        if comparison.target is not None:
            reached = "reached" if ratio >= comparison.target else "MISSED"
            words.append(f"target {comparison.target:g} {reached}")
        return f"{line} ({'; '.join(words)})" if words else line

    def _within_limit(self) -> Iterator[str]:
        limit = self._benchmark.limit
        if limit is None:
            return
        beside = self._benchmark.beside
        for side in {comparison.ours for comparison in self._benchmark.comparisons}:
            if self._runs[side]:
                allowed = limit + (self.of(side, beside) if beside else 0.0)
                kept = "kept" if self.of(side) <= allowed else "EXCEEDED"
                more = f" and {self.of(side, beside):.0f} of {beside}" if beside else ""
                yield f"  limit {limit:.0f} {self._benchmark.unit}{more}: {kept} by {side}"
