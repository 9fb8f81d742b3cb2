"""What timers and workflows of a service run their attempts with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from greenroom.components import ComponentDefinition
    from greenroom.ids import EntityRef
    from greenroom.runtime._alarms import Alarms
    from greenroom.runtime._calls import Answer, CallRequest
    from greenroom.runtime._step_threads import StepThreads

    Wrap: TypeAlias = Callable[[Any, Callable[[], Any], bool], Callable[[], Any]]
    """Makes of the code of an attempt (a `StepRun`), async or not, what is run instead."""

CANCEL_SECONDS = 1.0
"""How long a stop waits for coroutines to end that were cancelled."""


class UnderWay(Protocol):
    """An attempt of a step, as far as stopping it goes."""

    task: asyncio.Task[None] | None

    @property
    def waits(self) -> bool:
        """Whether it does nothing but wait for another workflow."""
        ...

    held: bool

    def cancel(self, engine: StepEngine) -> None:
        """Nobody waits for this any more."""
        ...


@dataclass(slots=True)
class StepEngine:
    """What timers and workflows of a service run their attempts with."""

    loop: asyncio.AbstractEventLoop
    threads: StepThreads
    alarms: Alarms
    definitions: Mapping[str, ComponentDefinition]
    call: Callable[[CallRequest], Awaitable[Answer]]
    wake: Callable[[EntityRef], None]
    """Let an instance look at what is due for it, if it lives in this process."""
    stopping: bool = False
    """No step is begun any more, and a failure may only mean that the service stops."""
    runs: set[UnderWay] = field(default_factory=set)
    """Every attempt under way in this process."""
    wrap: Wrap | None = None
    """Given each attempt of a step before it begins; for tests."""
    on_change: Callable[[], None] | None = None
    """Told on any thread when an attempt has ended or is held up; for tests."""

    def forget(self, run: UnderWay) -> None:
        """An attempt is under way no more."""
        self.runs.discard(run)
        self.tell()

    def tell(self) -> None:
        """Something about the attempts under way has changed."""
        on_change = self.on_change
        if on_change is not None:
            on_change()

    def begin_to_stop(self) -> None:
        """Begin no more steps, and wait for no more children: others will, or a later start."""
        self.stopping = True
        for run in tuple(self.runs):
            if run.waits:
                run.cancel(self)

    async def stop(self) -> None:
        """Throw away what is still under way, and end its tasks."""
        self.threads.stop()
        runs = tuple(self.runs)
        for run in runs:
            run.cancel(self)
        await asyncio.sleep(0)
        tasks = [run.task for run in runs if run.task is not None]
        if tasks:
            # Code that will not be cancelled must not keep the service from stopping.
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
