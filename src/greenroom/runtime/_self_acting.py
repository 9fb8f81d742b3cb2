"""What timers and workflows have in common: they also act when nobody calls them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.errors import ConcurrentWriteError
from greenroom.runtime._control import Expire
from greenroom.runtime._entity_actor import EntityActor
from greenroom.runtime._failures import Failures
from greenroom.runtime._host import EntityHost

if TYPE_CHECKING:
    from greenroom.components import ComponentDefinition
    from greenroom.ids import EntityRef
    from greenroom.runtime._alarms import Alarm
    from greenroom.runtime._step_engine import StepEngine


class SelfActingHost(EntityHost):
    """What all live instances of one such component share."""

    def __init__(
        self, definition: ComponentDefinition, *, engine: StepEngine, **parts: Any
    ) -> None:
        super().__init__(definition, **parts)
        self.engine = engine
        self.keep_step_keys_ms = int(self.settings.keep_step_keys.total_seconds() * 1000)
        # What is due before the next sweeps have looked twice is kept in memory.
        self.horizon_ms = int(self.settings.sweep_every.total_seconds() * 2000)


class SelfActingActor(EntityActor):
    """Wakes when something is due, and comes back by itself after a failure."""

    host: SelfActingHost

    def __init__(self, host: SelfActingHost, ref: EntityRef) -> None:
        super().__init__(host, ref)
        self._alarm: Alarm | None = None

    def _forget(self) -> None:
        """Stop what runs, and send back what waits: the state is about to be dropped."""
        raise NotImplementedError

    def drop(self) -> None:
        """Forget everything but the calls that wait; then recover by itself, and go on."""
        self._forget()
        self._call_off_alarm()
        super().drop()
        if not self.actor_stopped.is_set():
            self.actor_inbox.put_first([Expire(self.ref)])

    def abandon(self) -> None:
        """This process no longer owns the instance."""
        self.actor_stopped.set()
        super().abandon()

    def _settle_failed_writes(self) -> None:
        error = None if self._last is None else self._last.error
        if error is not None and not isinstance(error, ConcurrentWriteError):
            # A store that takes nothing must not be asked in a circle.
            self._failures = (self._failures or Failures()).one_more()
        super()._settle_failed_writes()

    def _wake_at(self, due: int | None) -> None:
        """Set the one alarm anew, in milliseconds since 1970; None for never."""
        if self._alarm is not None:
            if self._alarm.at == due:
                return
            self._call_off_alarm()
        if due is not None:
            engine = self.host.engine
            self._alarm = engine.alarms.set(due, partial(engine.wake, self.ref))

    def _call_off_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.call_off()
            self._alarm = None

    def _stop_unless_due(self, due: int | None) -> bool:
        """Leave memory if idle, unless something is to be done soon."""
        if due is not None and due - self.host.clock.now_ms() < self.host.horizon_ms:
            return False
        if not super().stop_if_idle():
            return False
        self._call_off_alarm()
        return True
