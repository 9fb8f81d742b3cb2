"""A real service on a file of its own, with a clock that you move."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from greenroom.testkit._clock import ManualClock
from greenroom.testkit._mcp import McpTestClient
from greenroom.testkit._tokens import TokenMaker

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fastapi import FastAPI
    from starlette.testclient import TestClient

    from greenroom.runtime import ComponentClient
    from greenroom.service import Service


_HOST = "testkit"
_MILLISECOND = timedelta(milliseconds=1)


class ServiceTestKit:
    """Runs a service on a temporary SQLite file, from entering to leaving.

    Its components are called with `client`, its routes with `http`, its tools with `mcp()`.

    Args:
        service: The service; it is not started itself, but one like it.
        patience: Seconds (of real time) after which a step of a workflow that has not come back
            is taken to hang; time is moved on without it then, so that its timeout passes.

    Example:
        >>> with ServiceTestKit(service) as kit:                         # doctest: +SKIP
        ...     cart = kit.client.for_event_sourced_entity(ShoppingCart, "c-1")
        ...     cart.ask(ShoppingCart.add_item, "tea")
        ...     kit.restart()
        ...     kit.advance(timedelta(days=8))
    """

    def __init__(self, service: Service, *, patience: float = 1.0) -> None:
        self._original = service
        self._patience = patience
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._http: TestClient | None = None
        self.clock = ManualClock()
        self._tokens = TokenMaker(self.clock)
        self.service = service

    @property
    def client(self) -> ComponentClient:
        """Calls the components of the running service."""
        return self.service.client

    @property
    def app(self) -> FastAPI:
        """The running service as an application, for a test client of your own.

        It uses the service that runs already, so its start-up and shutdown may be left out.
        """
        return self.service.app

    @property
    def http(self) -> TestClient:
        """Sends HTTP requests to the service's routes, without a network.

        An error that a route does not handle is raised in the test. Needs
        `pip install "greenroom[testing]"`.

        Example:
            >>> kit.http.get("/seats/a-1").json()                            # doctest: +SKIP
        """
        if self._http is None:
            from starlette.testclient import TestClient  # needs a package that servers don't

            self._http = TestClient(self.app, base_url=f"http://{_HOST}")
            self._http.__enter__()
        return self._http

    def mcp(self, path: str = "/mcp", *, headers: Mapping[str, str] | None = None) -> McpTestClient:
        """Calls the tools of an MCP endpoint, over HTTP as any client does; needs what `http` needs.

        Args:
            path: Where the endpoint is.
            headers: Sent along with each request.

        Example:
            >>> kit.mcp().call_tool("counter_get", {"counter_id": "c-1"})    # doctest: +SKIP
        """
        return McpTestClient(self.http, path, headers or {})

    def token(
        self,
        subject: str,
        *,
        issuer: str,
        audience: str,
        scopes: Collection[str] = (),
        expires_in: timedelta = timedelta(minutes=5),
        **claims: object,
    ) -> str:
        """A bearer token that the service under test believes, by the kit's clock.

        The kit stands for every issuer whose keys the service fetches; nothing goes over a
        network. An `Issuer` with `keys=` of its own is left alone. Needs
        `pip install "greenroom[jwt]"`.

        Args:
            subject: Whom it names.
            issuer: One that the endpoint's `Jwt` names.
            audience: For whom it is made.
            scopes: What it permits.
            expires_in: When it ends.
            claims: What else it says; None takes a claim away from what it would say.

        Example:
            >>> token = kit.token("ada", issuer=LOGIN, audience=SHOP)         # doctest: +SKIP
            >>> mcp = kit.mcp(headers={"Authorization": f"Bearer {token}"})   # doctest: +SKIP
        """
        return self._tokens.token(subject, issuer, audience, scopes, expires_in, claims)

    def advance(self, duration: timedelta) -> None:
        """Let time pass, and let everything happen that comes due, in order, each at its time.

        When it returns, nothing happens any more: see `settle`. Code takes no time of this clock:
        a step runs to its end before the next thing is due.

        Raises:
            TimeoutError: Something goes on and on; it says what.
        """
        end = self.clock.now_ms() + duration // _MILLISECOND
        self.settle()
        while (due := asyncio.run(self.service.runtime.next_due(end))) is not None:
            self._move_to(due)
        self._move_to(end)

    def _move_to(self, time: int) -> None:
        self.clock.advance((time - self.clock.now_ms()) * _MILLISECOND)
        asyncio.run(self.service.runtime.sweep())
        self.settle()

    def settle(self) -> None:
        """Wait until nothing happens any more unless time passes or somebody calls.

        No step of a workflow runs (but one that hangs), every `then_run` has run, nothing that
        is due waits.

        Raises:
            TimeoutError: Something goes on and on; it says what.
        """
        asyncio.run(self.service.runtime.settle(self._patience))

    def restart(self) -> None:
        """Stop the service and start it again, on the same file.

        `client`, `app`, `http` and `mcp()` are new ones afterwards.
        """
        self._stop()
        self._start()
        self.settle()

    def _stop(self) -> None:
        http, self._http = self._http, None
        try:
            if http is not None:
                http.__exit__(None, None, None)
        finally:
            self.service.runtime.stop()

    def _start(self) -> None:
        assert self._folder is not None
        settings = self._original.settings.model_copy(
            update={
                "database_url": f"sqlite:///{self._folder.name}/greenroom.db",
                "allowed_hosts": [*self._original.settings.allowed_hosts, _HOST],
            }
        )
        self.service = self._original.with_settings(
            settings, clock=self.clock, fetch=self._tokens.fetch
        )
        self._prepare(self.service)
        self.service.runtime.start()

    def _prepare(self, service: Service) -> None:
        """Hook: a service is about to start."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="greenroom-testkit-")
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._stop()
        finally:
            if self._folder is not None:
                self._folder.cleanup()
