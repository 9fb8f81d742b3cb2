"""What all live instances of one workflow share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.components import WorkflowSession, new_instance
from greenroom.persistence import Codec, Head, StoredType
from greenroom.runtime._host import EntityHost
from greenroom.runtime._position import Position, Progress, StoredValue, read_position
from greenroom.runtime._recovery import recover_latest
from greenroom.runtime._transitions import OUTCOMES
from greenroom.runtime._workflow_actor import WorkflowActor

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from greenroom.components import ChildOutcome, ComponentDefinition, StoredTypeInfo
    from greenroom.ids import EntityRef
    from greenroom.runtime._alarms import Alarms
    from greenroom.runtime._calls import Answer, CallRequest
    from greenroom.runtime._step_threads import StepThreads
    from greenroom.runtime._workflow_plans import WorkflowPlan


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


@dataclass(slots=True)
class RecoveredWorkflow:
    """An instance, ready for its next command or step."""

    entity: Any
    session: WorkflowSession[Any]
    head: Head
    position: Position
    progress: Progress
    since_snapshot: int = 0


class WorkflowHost(EntityHost):
    """One workflow in one running service."""

    def __init__(
        self,
        definition: ComponentDefinition,
        *,
        engine: StepEngine,
        plan: WorkflowPlan,
        **parts: Any,
    ) -> None:
        super().__init__(definition, **parts)
        self.engine = engine
        self.plan = plan
        self.step_codec = step_codec(definition)
        settings = self.settings
        self.keep_step_keys_ms = int(settings.keep_step_keys.total_seconds() * 1000)
        # What is due before the next sweeps have looked twice is kept in memory.
        self.horizon_ms = int(settings.sweep_every.total_seconds() * 2000)

    def new_actor(self, ref: EntityRef) -> WorkflowActor:
        """A cold instance; its first message recovers it."""
        return WorkflowActor(self, ref)

    def new_object(self, session: WorkflowSession[Any]) -> Any:
        """A fresh object of the workflow's class: one for each command and each step."""
        return new_instance(self.definition, session, self.dependencies)

    def encode_outcome(self, outcome: ChildOutcome) -> StoredValue:
        """How a child ended, as the result of its branch."""
        return StoredValue.of(OUTCOMES.encode(outcome))

    def recover(self, ref: EntityRef) -> Any:
        """Read where an instance stands. Blocks on the database."""
        stored = self.journal.load(ref, latest_only=True)
        session: WorkflowSession[Any] = WorkflowSession(ref.instance)
        entity = self.new_object(session)
        session.state = entity.empty_state()
        deleted = stored.head.deleted_at is not None
        position, progress = Position(), Progress()
        if not deleted:
            recover_latest(self.codec, ref, session, stored.records)
            position, progress = read_position(stored.records)
        session.deleted = deleted
        return RecoveredWorkflow(entity, session, stored.head, position, progress)


def step_codec(definition: ComponentDefinition) -> Codec:
    """The codec of the inputs and results of a workflow's steps."""
    by_name: dict[str, StoredTypeInfo] = {}
    for info in _step_types(definition):
        known = by_name.get(info.name)
        # One step may take `Cart`, another `Cart | None`, under one name: the wider one reads both.
        if known is None or isinstance(known.python_type, type):
            by_name[info.name] = info
    return Codec(
        StoredType(info.name, info.version, info.python_type, info.migrations)
        for info in by_name.values()
    )


def _step_types(definition: ComponentDefinition) -> Iterator[StoredTypeInfo]:
    for step in definition.steps.values():
        for parameter in step.parameters:
            yield parameter.stored
        if step.result is not None:
            yield step.result
