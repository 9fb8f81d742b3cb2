"""What timers call: found by the names that are stored, and made ready to be run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.clock import to_datetime
from greenroom.components import (
    DUE_AT_KEY,
    TIMER_KEY,
    ActionDone,
    ActionFailed,
    Metadata,
    TimedActionContext,
)
from greenroom.errors import CommandError, GreenroomError
from greenroom.ids import EntityRef, entity_ref
from greenroom.runtime._calls import CallRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from greenroom.components import (
        ComponentDefinition,
        DeferredCall,
        HandlerDefinition,
        StoredTimer,
    )
    from greenroom.runtime._step_engine import StepEngine
    from greenroom.runtime._step_run import StepRun


class TargetGoneError(Exception):
    """The code has nothing that a timer's call could be made to; trying again is of no use."""


@dataclass(frozen=True, slots=True)
class Target:
    """A call, found in the code."""

    definition: ComponentDefinition
    handler: HandlerDefinition
    instance: str
    values: tuple[Any, ...]

    @property
    def is_action(self) -> bool:
        """Whether it is a timed action, and no command to an instance."""
        return self.definition.kind == "timed-action"


class TimerTargets:
    """The commands and timed actions of a service, as timers name them."""

    def __init__(
        self,
        definitions: Mapping[str, ComponentDefinition],
        dependencies: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._definitions = definitions
        self._dependencies = dependencies

    def find(self, call: DeferredCall) -> Target:
        """What a call is made to, with its arguments read.

        Raises:
            TargetGoneError: The code has no such component or method, or it takes other
                arguments now.
        """
        definition = self._definitions.get(call.component)
        if definition is None:
            known = ", ".join(self._definitions) or "none"
            raise TargetGoneError(
                f"the service has no component {call.component!r}; it has: {known}"
            )
        try:
            handler = definition.handler_named(call.handler)
            values = handler.decode_arguments(call.arguments.encode())
            if definition.kind != "timed-action":
                entity_ref(call.component, call.instance)
        except GreenroomError as error:
            raise TargetGoneError(str(error)) from None
        return Target(definition, handler, call.instance, values)

    def new_action(
        self,
        definition: ComponentDefinition,
        context: TimedActionContext,
        given_for_run: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> Any:
        """An object of a timed action's class, for one call; its constructor sees the context."""
        cls: Any = definition.cls
        made = cls.__new__(cls)
        made._greenroom = context
        given = given_for_run(self._dependencies[definition.id])
        made.__init__(**{name: given[name] for name in definition.dependencies})
        return made


def action_context(name: str, timer: StoredTimer, run: StepRun) -> TimedActionContext:
    """What an action may ask about the timer that runs it."""
    return TimedActionContext(
        timer=name,
        due_at=to_datetime(timer.due_at),
        attempt=run.attempt,
        idempotency_key=run.origin.run,
        cancellation=run.cancellation,
        started_at=to_datetime(run.started_at),
        metadata=Metadata(timer.plan.metadata),
        principal=timer.principal,
        correlation_id=timer.correlation,
        traceparent=timer.traceparent,
        last_error=timer.last_error,
    )


async def call_command(
    engine: StepEngine, target: Target, name: str, timer: StoredTimer, run: StepRun
) -> None:
    """Send a timer's command, with the key that is the same for every attempt."""
    ref, origin = EntityRef(target.definition.id, target.instance), run.origin
    handler, values = target.handler, target.values
    metadata = Metadata(timer.plan.metadata).set(TIMER_KEY, name)
    await engine.call(
        CallRequest(
            ref,
            handler,
            values,
            timeout=timer.plan.timeout_ms / 1000,
            metadata=metadata.set(DUE_AT_KEY, to_datetime(timer.due_at).isoformat()),
            idempotency_key=None if handler.read_only else origin.key_for(ref, handler, values),
            receipt_expires_at=origin.keep_until,
            correlation_id=origin.correlation_id,
            causation=origin.causation,
            traceparent=origin.traceparent,
            principal=origin.principal,
        )
    )


def problem_of(target: Target, result: Any) -> Exception | None:
    """Why an attempt that raised nothing has failed all the same; None when it succeeded."""
    if not target.is_action or type(result) is ActionDone:
        return None
    if type(result) is ActionFailed:
        return CommandError(result.error)
    return TypeError(
        f"{target.handler.target} returned {result!r:.100}; return self.effects.done() or "
        'self.effects.error("...")'
    )
