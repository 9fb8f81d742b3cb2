"""The component client, for threads and for asyncio: the way from code to every component."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.components import (
    EventSourcedEntity,
    HistoryEntry,
    KeyValueEntity,
    Kinded,
    TimedAction,
    Workflow,
)
from greenroom.errors import InvalidCallError
from greenroom.ids import EntityRef, entity_ref
from greenroom.runtime._instance_client import (
    AsyncEntityClient,
    AsyncWorkflowClient,
    Caller,
    EntityClient,
    WorkflowClient,
)
from greenroom.runtime._timers import (
    AsyncTimerScheduler,
    TimedActionClient,
    TimerScheduler,
    timed_action_client,
)

if TYPE_CHECKING:
    from greenroom.components import ComponentDefinition
    from greenroom.persistence import InstanceSummary
    from greenroom.runtime._look import StoredEvent

S = TypeVar("S")
E = TypeVar("E")
EventSourced = TypeVar("EventSourced", bound=EventSourcedEntity[Any, Any])
KeyValue = TypeVar("KeyValue", bound=KeyValueEntity[Any])
WorkflowClass = TypeVar("WorkflowClass", bound=Workflow[Any])
Action = TypeVar("Action", bound=TimedAction)


class ComponentClient:
    """Calls components from threads; every method blocks until it has its answer.

    Example:
        >>> cart = client.for_event_sourced_entity(ShoppingCart, "cart-1")  # doctest: +SKIP
        >>> cart.ask(ShoppingCart.add_item, "tea", quantity=2)              # doctest: +SKIP
    """

    __slots__ = ("_caller",)

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def for_event_sourced_entity(
        self, component: type[EventSourced], entity_id: str
    ) -> EntityClient[EventSourced]:
        """The instance of an event sourced entity under an id.

        Raises:
            UnknownComponentError: The service has no such component.
            InvalidCallError: It is no event sourced entity.
            InvalidIdError: The id can't be one.
        """
        return EntityClient(
            self._caller, *_entity(self._caller, component, EventSourcedEntity, entity_id)
        )

    def for_key_value_entity(
        self, component: type[KeyValue], entity_id: str
    ) -> EntityClient[KeyValue]:
        """The instance of a key value entity under an id; raises as its sibling does."""
        return EntityClient(
            self._caller, *_entity(self._caller, component, KeyValueEntity, entity_id)
        )

    def for_workflow(
        self, component: type[WorkflowClass], workflow_id: str
    ) -> WorkflowClient[WorkflowClass]:
        """The instance of a workflow under an id; raises as its siblings do."""
        return WorkflowClient(
            self._caller, *_entity(self._caller, component, Workflow, workflow_id)
        )

    def for_timed_action(self, component: type[Action]) -> TimedActionClient[Action]:
        """Names the actions of a timed action, for timers to run; only timers do."""
        return timed_action_client(self._caller.definition_of(component), component)

    @property
    def timers(self) -> TimerScheduler:
        """Starts, lists and cancels timers."""
        return TimerScheduler(self._caller)

    def workflow_history(
        self, component: type[Workflow[Any]], workflow_id: str, *, after: int = 0, limit: int = 1000
    ) -> list[HistoryEntry]:
        """What a workflow has been through: transitions, attempts, errors, and how long they took.

        Args:
            component: The workflow.
            workflow_id: The instance.
            after: The sequence number after which to begin.
            limit: How many entries at most.
        """
        _, ref = _address(self._caller, component, workflow_id)
        return self._caller.history(ref, after, limit)

    def instances(
        self, component: type[Any], *, after: str | None = None, limit: int = 100
    ) -> list[InstanceSummary]:
        """Instances of a component in the order of their ids, from after an id.

        Raises:
            InvalidCallError: `after` can't be an id, or `limit` is below 1.
        """
        return self._caller.instances(self._caller.definition_of(component).id, after, limit)

    def events(
        self,
        component: type[Kinded[Any, Any, E]],
        entity_id: str,
        *,
        after: int = 0,
        limit: int = 1000,
    ) -> list[StoredEvent[E]]:
        """What an event sourced instance has been through, after a sequence number.

        Raises:
            InvalidCallError: `after` is below 0, or `limit` below 1.
        """
        _, ref = _address(self._caller, component, entity_id)
        return self._caller.events(ref, after, limit)

    def state_at(
        self,
        component: type[Kinded[Any, S, Any]],
        entity_id: str,
        sequence_number: int | None = None,
    ) -> S:
        """The durable state of an instance as it was after a sequence number (default: now).

        Raises:
            InvalidCallError: The number can't be one, or the instance has not come so far.
        """
        _, ref = _address(self._caller, component, entity_id)
        return self._caller.state_at(ref, sequence_number)  # type: ignore[no-any-return]


class AsyncComponentClient:
    """Calls components from coroutines; mirrors `ComponentClient`.

    Example:
        >>> cart = client.for_event_sourced_entity(ShoppingCart, "cart-1")  # doctest: +SKIP
        >>> await cart.ask(ShoppingCart.add_item, "tea", quantity=2)        # doctest: +SKIP
    """

    __slots__ = ("_caller",)

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def for_event_sourced_entity(
        self, component: type[EventSourced], entity_id: str
    ) -> AsyncEntityClient[EventSourced]:
        """The instance of an event sourced entity under an id."""
        return AsyncEntityClient(
            self._caller, *_entity(self._caller, component, EventSourcedEntity, entity_id)
        )

    def for_key_value_entity(
        self, component: type[KeyValue], entity_id: str
    ) -> AsyncEntityClient[KeyValue]:
        """The instance of a key value entity under an id."""
        return AsyncEntityClient(
            self._caller, *_entity(self._caller, component, KeyValueEntity, entity_id)
        )

    def for_workflow(
        self, component: type[WorkflowClass], workflow_id: str
    ) -> AsyncWorkflowClient[WorkflowClass]:
        """The instance of a workflow under an id."""
        return AsyncWorkflowClient(
            self._caller, *_entity(self._caller, component, Workflow, workflow_id)
        )

    def for_timed_action(self, component: type[Action]) -> TimedActionClient[Action]:
        """Names the actions of a timed action, for timers to run; only timers do."""
        return timed_action_client(self._caller.definition_of(component), component)

    @property
    def timers(self) -> AsyncTimerScheduler:
        """Starts, lists and cancels timers."""
        return AsyncTimerScheduler(self._caller)

    async def workflow_history(
        self, component: type[Workflow[Any]], workflow_id: str, *, after: int = 0, limit: int = 1000
    ) -> list[HistoryEntry]:
        """What a workflow has been through; see `ComponentClient.workflow_history`."""
        _, ref = _address(self._caller, component, workflow_id)
        return await asyncio.to_thread(self._caller.history, ref, after, limit)

    async def instances(
        self, component: type[Any], *, after: str | None = None, limit: int = 100
    ) -> list[InstanceSummary]:
        """Instances of a component in the order of their ids, from after an id."""
        name = self._caller.definition_of(component).id
        return await asyncio.to_thread(self._caller.instances, name, after, limit)

    async def events(
        self,
        component: type[Kinded[Any, Any, E]],
        entity_id: str,
        *,
        after: int = 0,
        limit: int = 1000,
    ) -> list[StoredEvent[E]]:
        """What an event sourced instance has been through, after a sequence number."""
        _, ref = _address(self._caller, component, entity_id)
        return await asyncio.to_thread(self._caller.events, ref, after, limit)

    async def state_at(
        self,
        component: type[Kinded[Any, S, Any]],
        entity_id: str,
        sequence_number: int | None = None,
    ) -> S:
        """The durable state of an instance as it was after a sequence number (default: now)."""
        _, ref = _address(self._caller, component, entity_id)
        state: S = await asyncio.to_thread(self._caller.state_at, ref, sequence_number)
        return state


def _address(
    caller: Caller, component: type[Any], entity_id: str
) -> tuple[ComponentDefinition, EntityRef]:
    definition = caller.definition_of(component)
    return definition, entity_ref(definition.id, entity_id)


_METHODS: dict[type[Any], tuple[str, str]] = {
    EventSourcedEntity: ("for_event_sourced_entity", "an event sourced entity"),
    KeyValueEntity: ("for_key_value_entity", "a key value entity"),
    Workflow: ("for_workflow", "a workflow"),
    TimedAction: ("for_timed_action", "a timed action"),
}


def _entity(
    caller: Caller, component: type[Any], wanted: type[Any], entity_id: str
) -> tuple[ComponentDefinition, EntityRef]:
    address = _address(caller, component, entity_id)
    if not issubclass(component, wanted):
        name = component.__name__
        right, kind = next(one for base, one in _METHODS.items() if issubclass(component, base))
        raise InvalidCallError(
            f"{name} is {kind}: call {right}({name}, ...), not {_METHODS[wanted][0]}."
        )
    return address
