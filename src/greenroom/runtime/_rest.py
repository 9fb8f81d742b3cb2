"""Waiting until nothing happens any more: for tests, whose time passes only when they say so.

Nothing of this costs anything while a service serves: it asks the instances that are not at
rest, each with a message of its own, and waits for their answers; then it looks again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from threading import Barrier
from typing import TYPE_CHECKING

from greenroom.errors import OverloadedError
from greenroom.runtime._control import Control
from greenroom.runtime._workflow_actor import WorkflowActor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ThreadPoolExecutor

    from greenroom.runtime._alarms import Alarms
    from greenroom.runtime._directory import Directory
    from greenroom.runtime._entity_actor import EntityActor
    from greenroom.runtime._step_engine import StepEngine
    from greenroom.runtime._writer import JournalWriter

LONGEST = 60.0
"""Seconds after which whatever still goes on is taken to go on for ever."""
LOOK_AGAIN = 0.001
"""Seconds before another look at who waits for whom."""


class Rest:
    """The state in which nothing happens, unless time passes or somebody calls."""

    def __init__(
        self,
        *,
        directory: Directory,
        writer: JournalWriter,
        engine: StepEngine,
        alarms: Alarms,
        executors: Sequence[ThreadPoolExecutor],
    ) -> None:
        self._directory = directory
        self._writer = writer
        self._engine = engine
        self._alarms = alarms
        self._executors = executors
        self._loop = engine.loop
        self._changed = asyncio.Event()
        self._busy: list[str] = []

    async def come(self, patience: float) -> None:
        """Wait for it. On the runtime's loop.

        Args:
            patience: Seconds after which a step that has not come back is taken to hang.

        Raises:
            TimeoutError: Something goes on and on.
        """
        self._engine.on_change = self._tell
        try:
            async with asyncio.timeout(LONGEST):
                await self._come(patience)
        except TimeoutError:
            message = f"After {LONGEST:g} s there is still no rest: {', '.join(self._busy[:5])}."
            raise TimeoutError(message) from None
        finally:
            self._engine.on_change = None

    async def _come(self, patience: float) -> None:
        while True:
            self._changed.clear()
            self._alarms.ring()
            if busy := self._instances_at_work():
                self._busy = [str(one.ref) for one in busy]
                await asyncio.gather(*map(self._turn_of, busy))
            elif await self._steps_moved(patience):
                continue
            else:
                for executor in self._executors:
                    await asyncio.to_thread(_pass_through, executor)
                if not self._changed.is_set() and not self._instances_at_work():
                    return

    def _instances_at_work(self) -> list[EntityActor]:
        # Whoever commits tells the instances before it lets go of the lock.
        with self._writer.exclusive():
            return [one for one in self._directory.live() if not one.is_at_rest()]

    async def _turn_of(self, actor: EntityActor) -> None:
        """Come back when an instance has done what was queued, and its writes are settled."""
        done = asyncio.Event()

        def tell() -> None:
            self._loop.call_soon_threadsafe(done.set)

        look = Control(partial(actor.tell_when_written, tell))
        try:
            actor.actor_inbox.put(look)
        except OverloadedError:
            actor.actor_inbox.put_control(look)
        await done.wait()

    async def _steps_moved(self, patience: float) -> bool:
        """Wait for attempts under way; False when there are none that need be waited for."""
        runs = [one for one in self._engine.runs if not one.held]
        steps = [one for one in runs if not one.waits]
        if steps:
            self._busy = [str(one) for one in steps]
            await self._wait_for_change(patience)
            if not self._changed.is_set():
                for one in steps:
                    one.held = True
            return True
        # Each attempt that waits for a child is at rest when the child has noted its question.
        questions = sum(
            one.questions() for one in self._directory.live() if isinstance(one, WorkflowActor)
        )
        if len(runs) > questions:
            self._busy = [str(one) for one in runs]
            await self._wait_for_change(LOOK_AGAIN)
            return True
        return False

    async def _wait_for_change(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _tell(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)


def _pass_through(executor: ThreadPoolExecutor) -> None:
    """Come back when everything has been done that was queued in an executor before."""
    threads = executor._max_workers
    barrier = Barrier(threads)
    for future in [executor.submit(barrier.wait) for _ in range(threads)]:
        future.result()
