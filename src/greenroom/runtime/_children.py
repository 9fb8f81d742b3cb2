"""Child workflows: started, waited for, and told when their parent is over."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from greenroom.components import OUTCOME, TERMINATE, ChildOutcome
from greenroom.errors import CallTimeoutError, GreenroomError, UnknownComponentError
from greenroom.ids import EntityRef
from greenroom.runtime._calls import CallOrigin, CallRequest

if TYPE_CHECKING:
    from greenroom.components import ComponentDefinition
    from greenroom.runtime._position import StoredCommand
    from greenroom.runtime._step_engine import StepEngine

_log = logging.getLogger("greenroom.workflows")

WAIT_SECONDS = 300.0
"""How long one question for the outcome waits; then it is asked again."""
PAUSE_SECONDS = 0.5
"""Before a question that could not be asked is asked again."""
LONGEST_PAUSE_SECONDS = 30.0
"""Before children are told again that could not be told; doubled up to this."""


async def run_child(
    engine: StepEngine, command: StoredCommand, origin: CallOrigin, parent: EntityRef
) -> ChildOutcome:
    """Start a child workflow, once, and wait for its end, however long that takes."""
    definition = _definition(engine, command.component)
    ref = EntityRef(command.component, command.instance)
    handler = definition.handler_named(command.handler)
    values = handler.decode_arguments(command.arguments.encode())
    await engine.call(
        CallRequest(
            ref,
            handler,
            values,
            idempotency_key=origin.key_for(ref, handler, values),
            receipt_expires_at=origin.keep_until,
            correlation_id=origin.correlation_id,
            causation=origin.causation,
            traceparent=origin.traceparent,
            principal=origin.principal,
            chain=(parent,),
        )
    )
    question = definition.operations[OUTCOME]
    while True:
        try:
            answer = await engine.call(CallRequest(ref, question, (), timeout=WAIT_SECONDS))
        except CallTimeoutError:
            continue
        except GreenroomError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            outcome: ChildOutcome = answer.value
            return outcome


async def tell_children(
    engine: StepEngine, children: tuple[tuple[str, str], ...], reason: str
) -> None:
    """Terminate children, and come back when all of them know."""
    left = [EntityRef(*one) for one in children]
    pause = PAUSE_SECONDS
    while True:
        # One that can't be told, now or ever, keeps none of the others waiting.
        left = [one for one in left if not await _is_terminated(engine, one, reason)]
        if not left:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def _is_terminated(engine: StepEngine, ref: EntityRef, reason: str) -> bool:
    try:
        handler = _definition(engine, ref.component).operations[TERMINATE]
        await engine.call(CallRequest(ref, handler, (reason,)))
    except GreenroomError as error:
        # Whether or not it was done, doing it twice does no harm.
        _log.warning("%s can't be terminated, and is told again: %s", ref, error)
        return False
    return True


def _definition(engine: StepEngine, component: str) -> ComponentDefinition:
    found = engine.definitions.get(component)
    if found is None:
        raise UnknownComponentError(component, sorted(engine.definitions))
    return found
