"""What all workflows of a service run their steps with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Mapping

    from greenroom.components import ComponentDefinition
    from greenroom.ids import EntityRef
    from greenroom.runtime._alarms import Alarms
    from greenroom.runtime._calls import Answer, CallRequest
    from greenroom.runtime._step_threads import StepThreads


@dataclass(slots=True)
class StepEngine:
    """What all workflows of a service run their steps with."""

    loop: asyncio.AbstractEventLoop
    threads: StepThreads
    alarms: Alarms
    definitions: Mapping[str, ComponentDefinition]
    call: Callable[[CallRequest], Awaitable[Answer]]
    wake: Callable[[EntityRef], None]
    """Let an instance look at what is due for it, if it lives in this process."""
    stopping: bool = False
    """No step is begun any more, and a failure may only mean that the service stops."""
