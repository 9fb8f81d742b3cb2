"""One server, one load: `tools/call` per second."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.load import DIFFERENT, generate, generate_alone, tool_calls
from benchmarks.pace import TEXT, Pace, settle

CORE = 1
START_SECONDS = 30.0

SUM: tuple[Callable[[int], dict[str, Any]], bytes] = (lambda _: {"a": 4000, "b": 242}), b"4242"
LIVE_SUM: tuple[Callable[[int], dict[str, Any]], bytes] = (
    lambda _: {"ledger_id": "ledger-1", "a": 4000, "b": 242},
    b"4242",
)
RECORD: tuple[Callable[[int], dict[str, Any]], bytes] = (
    lambda number: {"ledger_id": f"ledger-{number % DIFFERENT}", "text": TEXT},
    b'"content"',
)

_CALLS = {
    ("ours.shop", "ledger_add"): LIVE_SUM,
    ("ours.shop", "ledger_record"): RECORD,
    ("ours.shop", "add"): SUM,
    ("ours.shop", "add_async"): SUM,
    ("peers.tools", "add"): SUM,
    ("peers.tools", "add_async"): SUM,
}


def run(
    database_url: str, server: str, tool: str, callers: int, seconds: float, version: str
) -> dict[str, float]:
    """Calls per second, and processor time of the server for each."""
    # Where there is one core, both share it.
    os.sched_setaffinity(0, {CORE} & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    arguments, expected = _CALLS[server, tool]
    keyed = tool == "ledger_record"
    with _running(server, database_url) as (process, port):
        requests = tool_calls(tool, arguments, version=version, keyed=keyed)
        settle()
        pace = Pace(seconds)
        before = _processor_seconds(process.pid)
        if callers == 1:
            generate_alone(port, requests, expected, pace)
        else:
            _on_a_loop(generate(port, callers, requests, expected, pace))
        used = _processor_seconds(process.pid) - before
        figures = pace.figures()
        client = figures.pop("cpu_us")
        return figures | {"cpu_us": used / pace.total * 1e6, "client_cpu_us": client}


@contextmanager
def _running(server: str, database_url: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = _free_port()
    environment = {**os.environ, "GREENROOM_DATABASE_URL": database_url}
    command = [sys.executable, "-m", "benchmarks.serve", server, str(port)]
    process = subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[1])
    try:
        _wait_for(process, port)
        yield process, port
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"the server ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    sys.exit("the server did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _on_a_loop(main: Any) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)
