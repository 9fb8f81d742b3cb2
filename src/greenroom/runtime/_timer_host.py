"""What all live timers of a service share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.runtime._self_acting import SelfActingHost

if TYPE_CHECKING:
    from greenroom.components import ComponentDefinition
    from greenroom.runtime._timer_targets import TimerTargets


class TimerHost(SelfActingHost):
    """The timers of one running service."""

    def __init__(
        self,
        definition: ComponentDefinition,
        *,
        targets: TimerTargets,
        **parts: Any,
    ) -> None:
        super().__init__(definition, **parts)
        self.targets = targets
