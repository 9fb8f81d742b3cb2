"""What all live timers of a service share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.runtime._host import EntityHost

if TYPE_CHECKING:
    from greenroom.components import ComponentDefinition
    from greenroom.runtime._step_engine import StepEngine
    from greenroom.runtime._timer_targets import TimerTargets


class TimerHost(EntityHost):
    """The timers of one running service."""

    def __init__(
        self,
        definition: ComponentDefinition,
        *,
        engine: StepEngine,
        targets: TimerTargets,
        **parts: Any,
    ) -> None:
        super().__init__(definition, **parts)
        self.engine = engine
        self.targets = targets
        self.keep_keys_ms = int(self.settings.keep_step_keys.total_seconds() * 1000)
        # What is due before the next sweeps have looked twice is kept in memory.
        self.horizon_ms = int(self.settings.sweep_every.total_seconds() * 2000)
