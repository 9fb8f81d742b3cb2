"""A real service on a file of its own, with a clock that you move."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from greenroom.testkit._clock import ManualClock

if TYPE_CHECKING:
    from greenroom.runtime import ComponentClient
    from greenroom.service import Service


class ServiceTestKit:
    """Runs a service on a temporary SQLite file, from entering to leaving.

    Args:
        service: The service; it is not started itself, but one like it.

    Example:
        >>> with ServiceTestKit(service) as kit:                         # doctest: +SKIP
        ...     cart = kit.client.for_event_sourced_entity(ShoppingCart, "c-1")
        ...     cart.ask(ShoppingCart.add_item, "tea")
        ...     kit.restart()
        ...     kit.advance(timedelta(days=8))
    """

    def __init__(self, service: Service) -> None:
        self._original = service
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.clock = ManualClock()
        self.service = service

    @property
    def client(self) -> ComponentClient:
        """Calls the components of the running service."""
        return self.service.client

    def advance(self, duration: timedelta) -> None:
        """Let time pass, and let everything happen that has come due."""
        self.clock.advance(duration)
        asyncio.run(self.service.runtime.sweep())

    def restart(self) -> None:
        """Stop the service and start it again, on the same file."""
        self.service.runtime.stop()
        self._start()

    def _start(self) -> None:
        assert self._folder is not None
        settings = self._original.settings.model_copy(
            update={"database_url": f"sqlite:///{self._folder.name}/greenroom.db"}
        )
        self.service = self._original.with_settings(settings, clock=self.clock)
        self.service.runtime.start()

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
        self.service.runtime.stop()
        if self._folder is not None:
            self._folder.cleanup()
