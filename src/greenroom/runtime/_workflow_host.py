"""What all live instances of one workflow share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.components import WorkflowSession, new_instance
from greenroom.persistence import Codec, Head, StoredType
from greenroom.runtime._position import Position, Progress, read_position
from greenroom.runtime._recovery import recover_latest
from greenroom.runtime._run_clients import clients_of_run
from greenroom.runtime._self_acting import SelfActingHost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.components import ComponentDefinition, StoredTypeInfo
    from greenroom.ids import EntityRef
    from greenroom.runtime._calls import CallOrigin
    from greenroom.runtime._workflow_plans import WorkflowPlan


@dataclass(slots=True)
class RecoveredWorkflow:
    """An instance, ready for its next command or step."""

    entity: Any
    session: WorkflowSession[Any]
    head: Head
    position: Position
    progress: Progress
    since_snapshot: int = 0


class WorkflowHost(SelfActingHost):
    """One workflow in one running service."""

    def __init__(
        self,
        definition: ComponentDefinition,
        *,
        plan: WorkflowPlan,
        **parts: Any,
    ) -> None:
        super().__init__(definition, **parts)
        # Each command and each step has a state of its own.
        self.watches_state = False
        self.plan = plan
        self.step_codec = step_codec(definition)

    def new_object(self, session: WorkflowSession[Any], *, origin: CallOrigin | None = None) -> Any:
        """A fresh object of the workflow's class: one for each command and each step."""
        given = self.dependencies if origin is None else clients_of_run(self.dependencies, origin)
        return new_instance(self.definition, session, given)

    def recover(self, ref: EntityRef) -> Any:
        """Read where an instance stands. Blocks on the database."""
        stored = self.journal.load(ref, latest_only=True)
        session: WorkflowSession[Any] = WorkflowSession(ref.instance)
        entity = self.new_object(session)
        session.state = self.definition.empty_state_of(entity)
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
