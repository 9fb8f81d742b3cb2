"""What comes due by itself: expiries, workflows that go on, purging, forgetting old keys."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from greenroom.errors import GreenroomError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from greenroom.clock import Clock
    from greenroom.ids import EntityRef
    from greenroom.persistence import DueInstance, Journal
    from greenroom.runtime._alarms import Alarms
    from greenroom.runtime._directory import Directory
    from greenroom.runtime._writer import JournalWriter
    from greenroom.settings import Settings

_log = logging.getLogger("greenroom.runtime")

_PAGE = 1000
_ROUNDS = 100
"""Pages of one kind of work in one sweep; what is left waits for the next sweep."""


class Sweeper:
    """Looks through the owned slices for what has come due."""

    def __init__(  # noqa: PLR0913 - the runtime wires it once
        self,
        journal: Journal,
        *,
        settings: Settings,
        clock: Clock,
        directory: Directory,
        writer: JournalWriter,
        owned: Callable[[], frozenset[int]],
        alarms: Alarms,
        wake: Callable[[EntityRef], None],
        histories: Mapping[str, timedelta],
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._directory = directory
        self._writer = writer
        self._owned = owned
        self._alarms = alarms
        self._wake = wake
        self._histories = histories
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
            await self.take_up()
            await self.wake_due()
            self._alarms.ring()
            await asyncio.to_thread(self._clean_up)

    async def take_up(self) -> None:
        """Wake the workflows that were in the middle of a step and are not in memory.

        After a start and when slices were taken over; and again and again, since an instance
        may have been lost from memory by a database that could not be read.
        """
        after = 0
        for _ in range(_ROUNDS):
            slices = sorted(self._owned())
            page = await asyncio.to_thread(self._journal.unfinished, slices=slices, after=after)
            for number, ref in page:
                after = number
                if not self._directory.is_live(ref):
                    self._wake(ref)
            if len(page) < _PAGE:
                return

    async def wake_due(self) -> None:
        """Wake what is due, and set alarms for what will be before the next sweeps."""
        now = self._clock.now_ms()
        horizon = now + 2 * _ms(self._settings.sweep_every)
        last: DueInstance | None = None
        for _ in range(_ROUNDS):
            slices = sorted(self._owned())
            page = await asyncio.to_thread(
                self._journal.due, horizon, slices=slices, after=last, limit=_PAGE
            )
            for last in page:
                if last.at <= now:
                    self._wake(last.ref)
                elif not self._directory.is_live(last.ref):
                    self._alarms.set(last.at, partial(self._wake, last.ref))
            if len(page) < _PAGE:
                return

    async def next_due(self, until: int) -> int | None:
        """When something next comes due, after now and at a given time at the latest."""
        now = self._clock.now_ms()
        known = self._alarms.next_at()
        times = [] if known is None or known > until else [known]
        last: DueInstance | None = None
        slices = sorted(self._owned())
        while page := await asyncio.to_thread(
            self._journal.due, until, slices=slices, after=last, limit=_PAGE
        ):
            last = page[-1]
            if last.at > now:
                times.append(next(one.at for one in page if one.at > now))
                break
        return min(times, default=None)

    def _clean_up(self) -> None:
        now = self._clock.now_ms()
        self._page_by_page(self._purge_deleted, now - _ms(self._settings.keep_deleted))
        self._page_by_page(self._journal.purge_receipts, now)
        for component, keep in self._histories.items():
            purge = partial(self._journal.purge_states, component=component)
            self._page_by_page(purge, now - _ms(keep))
        purge = partial(self._journal.purge_states, others_than=list(self._histories))
        self._page_by_page(purge, now - _ms(self._settings.keep_history))

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
