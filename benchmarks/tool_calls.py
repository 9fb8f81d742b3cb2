"""One server, one load: `tools/call` (or `tools/list`) per second, and what it leaves behind."""

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

from benchmarks.load import DIFFERENT, Requests, generate, generate_alone, listings, tool_calls
from benchmarks.pace import TEXT, Pace, settle
from benchmarks.places import TOOLS

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
    ("ours.many_tools", "add"): SUM,
    ("peers.many_tools", "add"): SUM,
    ("peers.lowlevel", "add"): SUM,
    ("peers.tools", "add"): SUM,
    ("peers.tools", "add_async"): SUM,
}


LISTED = b'"inputSchema"'


def run(
    database_url: str,
    server: str,
    tool: str,
    callers: int,
    seconds: float,
    version: str,
    tools: int = 1,
    figure: str = "value",
) -> dict[str, float]:
    """Calls per second, and processor time of the server for each.

    Args:
        database_url: What ours keeps its data in.
        server: The module with the application.
        tool: What is called; nothing lists the tools instead.
        callers: Connections.
        seconds: How long.
        version: Of the protocol.
        tools: How many the server has.
        figure: What is compared: `value` for calls per second, `p99_us`, `p50_us`.
    """
    on_its_core()
    with running(server, database_url, tools) as (process, port):
        requests, expected = load_of(server, tool, version)
        settle()
        pace = Pace(seconds)
        before = _processor_seconds(process.pid)
        send_load(port, callers, requests, expected, pace)
        used = _processor_seconds(process.pid) - before
        figures = pace.figures()
        client = figures.pop("cpu_us")
        figures |= {"cpu_us": used / pace.total * 1e6, "client_cpu_us": client}
        return figures | {"rate": figures["value"], "value": figures[figure]}


def on_its_core() -> None:
    """Keep the load generator off the server's core."""
    # Where there is one core, both share it.
    os.sched_setaffinity(0, {CORE} & os.sched_getaffinity(0) or os.sched_getaffinity(0))


def load_of(server: str, tool: str, version: str) -> tuple[Requests, bytes]:
    """The requests, and what each answer must have in it."""
    if not tool:
        return listings(version=version), LISTED
    arguments, expected = _CALLS[server, tool]
    keyed = tool == "ledger_record"
    return tool_calls(tool, arguments, version=version, keyed=keyed), expected


def send_load(port: int, callers: int, requests: Requests, expected: bytes, pace: Pace) -> None:
    """Send until the pace says that it is enough."""
    if callers == 1:
        generate_alone(port, requests, expected, pace)
    else:
        _on_a_loop(generate(port, callers, requests, expected, pace))


@contextmanager
def running(
    server: str, database_url: str, tools: int = 1
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server with so many tools, and its port."""
    port = _free_port()
    environment = {**os.environ, "GREENROOM_DATABASE_URL": database_url, TOOLS: str(tools)}
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
