"""`greenroom run`: a service under uvicorn, in one process."""

from __future__ import annotations

import argparse
import gc
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

from greenroom.cli._failure import CommandFailed
from greenroom.cli._load import add_target, load_service
from greenroom.errors import GreenroomError
from greenroom.logs import configure_logging
from greenroom.service import Service

_log = logging.getLogger("greenroom")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = commands.add_parser("run", help="run a service under uvicorn")
    add_target(parser)
    parser.add_argument("--host", help="address to listen on (GREENROOM_HOST, 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (GREENROOM_PORT, 8000)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Serve until told to stop; what was accepted is finished first."""
    service = load_service(chosen.service)
    settings = service.settings
    configure_logging(settings)
    host = settings.host if chosen.host is None else chosen.host
    port = settings.port if chosen.port is None else chosen.port
    listener = _listen(host, port)
    guard = StartGuard(service.app)
    server = QuietServer(
        service,
        uvicorn.Config(
            guard,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(settings.drain_timeout.total_seconds()) + 1,
        ),
        lambda: _announce(service, host, listener.getsockname()[1]),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn stops on these by itself, and raises them once more when it has; that second
        # time they shall not end the process with a signal, for it did what it was told.
        signal.signal(number, lambda *_: None)
    try:
        server.run(sockets=[listener])
        _log.info("%s has stopped", service.name)
    except SystemExit:
        _explain(guard)
    finally:
        listener.close()
    return 0


def _listen(host: str, port: int) -> socket.socket:
    # Bound here rather than by uvicorn, so that a port in use is found before the database is
    # opened, and told in a sentence.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise CommandFailed(
            f"Can't listen on {host}:{port}: {reason}. "
            "Choose another address with --host and --port."
        ) from None
    listener.set_inheritable(True)
    return listener


def _announce(service: Service, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    _log.info("%s on http://%s:%d", service.name, shown, port)
    for path in service.mcp_paths:
        _log.info("MCP at http://%s:%d%s", shown, port, path)
    allowed = service.settings.allowed_hosts
    if "*" not in allowed and host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        _log.info("MCP answers to the hosts %s; see GREENROOM_ALLOWED_HOSTS", ", ".join(allowed))
    if host not in _LOOPBACK:
        for path in service.open_mcp_paths:
            _log.warning("MCP at %s is open to everybody; say who may call it with acl=", path)


def _explain(guard: StartGuard) -> None:
    error = guard.error
    if error is None:
        raise CommandFailed("The server could not start; see the log.")
    if isinstance(error, GreenroomError):
        raise CommandFailed(str(error)) from None
    _log.error("The application failed to start", exc_info=error)
    raise CommandFailed(f"The application failed to start: {type(error).__name__}: {error}")


_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1", "[::1]")


class StartGuard:
    """Keeps the error that a start failed with, which servers get as the text of a traceback."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app
        self.error: BaseException | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """The application; only its start is watched."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_without_traceback(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed":
                message["message"] = ""
            await send(message)

        try:
            await self._app(scope, receive, send_without_traceback)
        except BaseException as error:
            self.error = error
            raise


class QuietServer(uvicorn.Server):
    """uvicorn, with Python's collector told to leave alone what is there after the start.

    `started` is called when requests can be answered: whoever reads the log then may send one.

    The p99 of an MCP call is mostly the cyclic collector walking the whole heap: 19 ms before,
    2.2 ms after (shared/research: mcp, section 4).
    """

    def __init__(
        self, service: Service, config: uvicorn.Config, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._service = service
        self._tell_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then freeze."""
        await super().startup(sockets)
        if not self.started:
            return
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        # The journal's writer and the loop share the interpreter; at Python's 5 ms each would
        # wait that long for the other.
        sys.setswitchinterval(0.0005)
        self._tell_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what was accepted; clients that listen are told, or they would be waited for."""
        _log.info("Stopping; what was accepted is finished first")
        for endpoint in self._service.mcp_servers:
            endpoint.end_streams()
        await super().shutdown(sockets)
