"""How much memory a server holds on to after many calls."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.pace import Pace
from benchmarks.tool_calls import load_of, on_its_core, running, send_load

CALLERS = 16


def run(database_url: str, server: str, tool: str, version: str, calls: int) -> dict[str, float]:
    """KiB of resident memory more after so many calls, and before them, after a tenth as many."""
    on_its_core()
    with running(server, database_url) as (process, port):
        requests, expected = load_of(server, tool, version)
        send_load(port, CALLERS, requests, expected, Counted(calls // 10))
        before = _resident_kib(process.pid)
        send_load(port, CALLERS, requests, expected, Counted(calls))
        after = _resident_kib(process.pid)
        return {"value": float(max(1, after - before)), "process_mib": after / 1024}


class Counted(Pace):
    """Ends after so many calls."""

    def __init__(self, calls: int) -> None:
        super().__init__(0.0)
        self._calls = calls

    def start(self) -> None:
        """Nothing is timed."""

    def done(self, count: int = 1, *, since: float | None = None) -> bool:  # noqa: ARG002
        """Whether there were enough."""
        self.total += count
        return self.total >= self._calls


def _resident_kib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024
