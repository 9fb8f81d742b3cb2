"""Reads what a service has stored, without running it: for tools beside a running service."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from greenroom import migrations
from greenroom.components import TIMERS, ComponentDefinition, HistoryEntry, TimerStatus
from greenroom.errors import SchemaError, UnknownComponentError
from greenroom.persistence import open_store
from greenroom.runtime._host import EntityHost
from greenroom.runtime._look import StoredEvent, events, history, instances, state_at
from greenroom.runtime._steering import steering_token
from greenroom.runtime._stranded import StrandedStep, stranded_steps, stranded_timers
from greenroom.runtime._timer_look import stored_timers
from greenroom.runtime._timer_requests import TIMER_DEFINITION
from greenroom.runtime._timer_targets import TimerTargets
from greenroom.runtime._workflow_look import listed, stored_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.clock import Clock
    from greenroom.components import WorkflowStatus
    from greenroom.ids import EntityRef
    from greenroom.persistence import InstanceSummary, Journal, Store
    from greenroom.runtime._runtime import Runtime
    from greenroom.runtime._workflow_plans import WorkflowPlan
    from greenroom.settings import Settings


@contextmanager
def reading(runtime: Runtime) -> Iterator[StoredReader]:
    """What is stored for the components of a runtime, which need not be started.

    Takes no ownership, so another process may own the database meanwhile.

    Raises:
        SchemaError: There is no database, or it is not at this version's migration.
        PersistenceError: The database can't be opened.
    """
    file = runtime.settings.sqlite_file
    if file is not None and not file.exists():
        # SQLite would make an empty file where there is none.
        raise SchemaError(f"There is no database at {file}. Run `greenroom db upgrade`.")
    pending = [one.revision for one in migrations.history(runtime.settings) if not one.applied]
    if pending:
        raise SchemaError(
            f"The database lacks {len(pending)} migration(s), from {pending[0]}. "
            "Run `greenroom db upgrade`."
        )
    store = open_store(runtime.settings, runtime.clock)
    try:
        yield StoredReader(
            runtime.definitions,
            runtime._dependencies,
            runtime._plans,
            store,
            settings=runtime.settings,
            clock=runtime.clock,
        )
    finally:
        store.close()


class StoredReader:
    """What the instances of a service have been through, read from its journal.

    Starts nothing and writes nothing, so it may look while another process owns the database.
    """

    def __init__(
        self,
        definitions: Mapping[str, ComponentDefinition],
        dependencies: Mapping[str, Mapping[str, Any]],
        plans: Mapping[str, WorkflowPlan],
        store: Store,
        *,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._journal = store.journal
        self._ownership = store.ownership
        self._plans = plans
        self._hosts = {
            name: _still_host(
                definition, dependencies.get(name, {}), store.journal, settings, clock
            )
            for name, definition in {**definitions, TIMERS: TIMER_DEFINITION}.items()
            if definition.kind != "timed-action"
        }
        self._targets = TimerTargets(definitions, dependencies)

    def instances(self, component: str, *, after: str | None, limit: int) -> list[InstanceSummary]:
        """Instances of a component in the order of their ids, from after an id."""
        self._host(component)
        return instances(self._journal, component, after, limit)

    def exists(self, ref: EntityRef) -> bool:
        """Whether anything was ever stored for an instance."""
        self._host(ref.component)
        return self._journal.load(ref, latest_only=True).head.instance_id != 0

    def events(self, ref: EntityRef, *, after: int, limit: int) -> list[StoredEvent[Any]]:
        """What an instance has been through, after a sequence number."""
        return events(self._host(ref.component), ref, after, limit)

    def state_at(self, ref: EntityRef, sequence_number: int | None) -> Any:
        """The durable state of an instance after a sequence number (None: now)."""
        return state_at(self._host(ref.component), ref, sequence_number)

    def history(self, ref: EntityRef, *, after: int, limit: int) -> list[HistoryEntry]:
        """What a workflow has been through, after a sequence number."""
        return history(self._host(ref.component), ref, after, limit)

    def workflow_status(self, ref: EntityRef) -> WorkflowStatus:
        """Where a workflow stands, as far as it is stored."""
        self._host(ref.component)
        return stored_status(self._journal, ref)

    def workflows(
        self, component: str, *, status: str | None, after: str | None, limit: int
    ) -> Iterator[tuple[EntityRef, WorkflowStatus]]:
        """Instances of a workflow in the order of their ids, all or those of one status.

        Args:
            component: The id of the workflow.
            status: As `WorkflowStatus` has it, or `suspended`; None for every one.
            after: Begin after this instance id.
            limit: At most so many.
        """
        self._host(component)
        found = listed(self._journal, component, status=status, after=after)
        return itertools.islice(found, limit)

    def stranded_steps(self) -> list[StrandedStep]:
        """Steps that instances are in the middle of, and that the code has not any more."""
        return list(stranded_steps(self._journal, self._plans))

    def steering_token(self) -> str:
        """What a process that runs the service on this database takes as permission to steer."""
        return steering_token(self._ownership.peer_secret())

    def stored_types(self, component: str) -> list[tuple[str, int]]:
        """Every type name and version that is stored for a component."""
        return self._journal.type_names(component)

    def timers(self, **chosen: Any) -> list[TimerStatus]:
        """Timers in the order of their names; see `TimerScheduler.list`."""
        return stored_timers(self._journal, self._host(TIMERS).codec, **chosen)

    def stranded_timers(self) -> list[str]:
        """Each call of timers that leads nowhere in the code, with how many there are."""
        return stranded_timers(self._journal, self._host(TIMERS).codec, self._targets)

    def _host(self, component: str) -> EntityHost:
        host = self._hosts.get(component)
        if host is None:
            raise UnknownComponentError(component, sorted(self._hosts))
        return host


class _NoDispatcher:
    blocking_allowed = True


def _still_host(
    definition: ComponentDefinition,
    dependencies: Mapping[str, Any],
    journal: Journal,
    settings: Settings,
    clock: Clock,
) -> EntityHost:
    # A host without the parts that only live instances need: nothing here makes one.
    absent = cast("Any", None)
    return EntityHost(
        definition,
        actor_class=absent,
        settings=settings,
        clock=clock,
        journal=journal,
        writer=absent,
        dispatcher=cast("Any", _NoDispatcher()),
        dependencies=dependencies,
        read_later=absent,
        redeliver=absent,
    )
