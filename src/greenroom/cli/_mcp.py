"""`greenroom mcp`: a service for one client over standard input and output.

For desktop clients, which start their servers themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, BinaryIO

from greenroom.cli._failure import CommandFailed
from greenroom.cli._load import add_target, load_service
from greenroom.logs import configure_logging
from greenroom.mcp import McpEndpoint, StdioServer

if TYPE_CHECKING:
    from greenroom.service import Service


def add_mcp(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = commands.add_parser("mcp", help="serve an MCP endpoint over standard input and output")
    add_target(parser)
    parser.add_argument(
        "--endpoint", metavar="PATH", help="which one, by its path, where the service has several"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Serve until the client closes standard input."""
    # Before the application is imported: what it prints would be no message.
    outgoing = _take_standard_output()
    service = load_service(chosen.service)
    configure_logging(service.settings)
    endpoint = _chosen_endpoint(service, chosen.endpoint)
    with outgoing:
        asyncio.run(_serve(service, endpoint, outgoing))
    return 0


def _take_standard_output() -> BinaryIO:
    """The real standard output; from now on what anybody prints goes to standard error."""
    sys.stdout.flush()
    kept = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return kept


def _chosen_endpoint(service: Service, path: str | None) -> McpEndpoint:
    known = {one.path: one for one in service.mcp_servers}
    if not known:
        raise CommandFailed(f"The service {service.name!r} has no MCP endpoint.")
    if path is None and len(known) == 1:
        return next(iter(known.values()))
    if path in known:
        return known[path]
    listed = ", ".join(known)
    if path is None:
        raise CommandFailed(f"There are several MCP endpoints; choose with --endpoint: {listed}")
    raise CommandFailed(f"There is no MCP endpoint at {path!r}; there is: {listed}")


async def _serve(service: Service, endpoint: McpEndpoint, outgoing: BinaryIO) -> None:
    settings = service.settings
    server = StdioServer(
        endpoint,
        sys.stdin.buffer,
        outgoing,
        max_line_bytes=settings.max_body_bytes,
        drain_seconds=settings.drain_timeout.total_seconds(),
    )
    await service.runtime.start_async()
    serving = asyncio.ensure_future(server.serve())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        pass  # told to stop
    finally:
        await service.runtime.stop_async()
