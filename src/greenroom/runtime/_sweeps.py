"""What comes due by itself: expiries, purging what was deleted, forgetting old keys."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from greenroom.errors import GreenroomError
from greenroom.runtime._control import Expire

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from greenroom.clock import Clock
    from greenroom.persistence import Journal
    from greenroom.runtime._directory import Directory
    from greenroom.runtime._writer import JournalWriter
    from greenroom.settings import Settings

_log = logging.getLogger("greenroom.runtime")

_ROUNDS = 100
"""Pages of one kind of work in one sweep; what is left waits for the next sweep."""


class Sweeper:
    """Looks through the owned slices for what has come due."""

    def __init__(
        self,
        journal: Journal,
        *,
        settings: Settings,
        clock: Clock,
        directory: Directory,
        writer: JournalWriter,
        owned: Callable[[], frozenset[int]],
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._directory = directory
        self._writer = writer
        self._owned = owned
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    def start(self) -> None:
        """Begin to sweep, on the running loop."""
        self._task = asyncio.create_task(self._run(), name="greenroom-sweeper")

    async def stop(self) -> None:
        """End after the sweep that is under way."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        every = self._settings.sweep_every.total_seconds()
        while True:
            try:
                await asyncio.wait_for(self._stopping.wait(), every)
            except TimeoutError:
                await self._sweep_and_log()
            else:
                return

    async def _sweep_and_log(self) -> None:
        try:
            await self.sweep()
        except GreenroomError as error:
            _log.warning("A sweep was cut short: %s", error)
        except Exception:
            _log.exception("A sweep failed; the next one tries again")

    async def sweep(self) -> None:
        """One look at everything that may be due."""
        async with self._one_at_a_time:
            await asyncio.to_thread(self._directory.passivate_idle)
            await self._expire()
            await asyncio.to_thread(self._clean_up)

    async def _expire(self) -> None:
        slices = sorted(self._owned())
        due = await asyncio.to_thread(self._journal.due, self._clock.now_ms(), slices=slices)
        for ref in due:
            if self._directory.knows(ref.component):
                self._directory.deliver_control(Expire(ref))

    def _clean_up(self) -> None:
        now = self._clock.now_ms()
        self._page_by_page(self._purge_deleted, now - _ms(self._settings.keep_deleted))
        self._page_by_page(self._journal.purge_receipts, now)
        self._page_by_page(self._journal.purge_states, now - _ms(self._settings.keep_history))

    def _page_by_page(self, purge: Callable[..., int], before: int) -> None:
        """Remove a page at a time; in between the writer gets its turn, and slices may go."""
        for _ in range(_ROUNDS):
            if self._stopping.is_set():
                return
            with self._writer.exclusive():
                removed = purge(before, slices=sorted(self._owned()))
            if not removed:
                return

    def _purge_deleted(self, before: int, *, slices: list[int]) -> int:
        purged = self._journal.purge_deleted(before, slices=slices)
        # What lives in memory under these ids still remembers its last life.
        self._directory.forget(set(purged))
        return len(purged)


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)
