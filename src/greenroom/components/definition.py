"""What is known of a component once its class has been read."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.components._hints import is_shareable, names_around, union_members
from greenroom.components.contexts import EntityContext
from greenroom.components.entity import Component
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.session import EntitySession
from greenroom.components.tools import ToolDefinition
from greenroom.components.type_names import StoredTypeInfo
from greenroom.errors import DefinitionError, UnknownHandlerError

if TYPE_CHECKING:
    from greenroom.components.step_definition import StepDefinition

C = TypeVar("C", bound=type[Component])

_MARK = "__greenroom_component__"


@dataclass(frozen=True, slots=True)
class ComponentMark:
    """What `@component` has said about a class."""

    id: str
    name: str | None
    description: str | None
    names: Mapping[str, Any]
    """Local names where the class was written, for annotations that mention them."""


def component(
    component_id: str, *, name: str | None = None, description: str | None = None
) -> Callable[[C], C]:
    """Make a class a component of a service.

    Little is checked here: `Service` reports every breach of every component at once.

    Args:
        component_id: Names what is stored, for ever: lower case letters, digits and hyphens.
            The class may be renamed freely.
        name: What people call it; the class name by default.
        description: What it is for; the docstring's first paragraph by default.

    Raises:
        DefinitionError: The id is no text.

    Example:
        >>> from greenroom.components import Effect, KeyValueEntity
        >>> @component("greeting")
        ... class Greeting(KeyValueEntity[str]):
        ...     def empty_state(self) -> str:
        ...         return "Hello"
        ...
        ...     def change(self, text: str) -> Effect[str]:
        ...         return self.effects.update_state(text).then_reply(text)
    """
    if not isinstance(component_id, str):
        said = f'@component takes an id, as @component("shopping-cart"), not {component_id!r}'
        raise DefinitionError([said])

    def mark(cls: C) -> C:
        names = names_around(sys._getframe(1))
        setattr(cls, _MARK, ComponentMark(component_id, name, description, names))
        return cls

    return mark


def component_mark(cls: type[Any]) -> ComponentMark | None:
    """What was said about this very class; a subclass inherits no id."""
    found = vars(cls).get(_MARK)
    return found if isinstance(found, ComponentMark) else None


@dataclass(slots=True)
class ComponentDefinition:
    """A component class, read and checked."""

    id: str
    kind: str
    cls: type[Any]
    name: str
    description: str
    state_type: Any
    event_types: tuple[type[Any], ...]
    stored_types: tuple[StoredTypeInfo, ...]
    """The state first, then the events."""
    handlers: Mapping[str, HandlerDefinition]
    dependencies: Mapping[str, Any]
    """What the constructor asks for: parameter name and type, `EntityContext` included."""
    tools: tuple[ToolDefinition, ...]
    steps: Mapping[str, StepDefinition] = field(default_factory=dict)
    """The steps of a workflow by their stored names."""
    operations: Mapping[str, HandlerDefinition] = field(default_factory=dict)
    """What the runtime itself answers to: suspending a workflow, say."""
    _by_function: dict[Any, HandlerDefinition] = field(default_factory=dict)

    @property
    def state_may_be_none(self) -> bool:
        """Whether None is a state that the class has named, `EventSourcedEntity[Cart | None, …]`."""
        return NoneType in union_members(self.state_type)

    @property
    def state_shareable(self) -> bool:
        """Whether states can't be changed in place, so that nobody needs to look whether they were."""
        return is_shareable(self.state_type)

    def empty_state_of(self, entity: Any) -> Any:
        """The state of an instance that nothing was stored for; its own, if it can be changed."""
        empty = entity.empty_state()
        return empty if self.state_shareable else copy.deepcopy(empty)

    def refuse_no_state(self, target: str, state: Any) -> None:
        """Raises `TypeError` when None is to be stored as a state and the class doesn't name it."""
        if state is None and not self.state_may_be_none:
            state_type = getattr(self.state_type, "__name__", self.state_type)
            message = (
                f"{target}: None is no state of {self.cls.__name__}. Use delete_entity() to remove "
                f"the state, or declare KeyValueEntity[{state_type} | None]."
            )
            raise TypeError(message)

    def handler_for(self, function: Callable[..., Any]) -> HandlerDefinition:
        """The handler that a function of the class, or of one of its bases, stands for.

        Raises:
            UnknownHandlerError: The component has no such handler.
        """
        found = self._by_function.get(function)
        if found is None:
            found = self._by_function[function] = self._find(function)
        return found

    def handler_named(self, name: str) -> HandlerDefinition:
        """The handler of a name; raises `UnknownHandlerError`."""
        found = self.handlers.get(name) or self.operations.get(name)
        if found is None:
            raise UnknownHandlerError(self.id, name, sorted(self.handlers))
        return found

    def step_for(self, function: Callable[..., Any]) -> StepDefinition:
        """The step that a method of the class, or of one of its bases, stands for.

        Raises:
            LookupError: The workflow has no such step.
        """
        plain = getattr(function, "__func__", function)
        name = getattr(plain, "__name__", repr(plain))
        owned = any(vars(base).get(name) is plain for base in self.cls.__mro__)
        found = next((one for one in self.steps.values() if one.method == name), None)
        if found is None or not owned:
            shown = getattr(plain, "__qualname__", name)
            message = (
                f"{shown} is no step of {self.cls.__name__}; its steps are: "
                f"{', '.join(one.method for one in self.steps.values())}"
            )
            raise LookupError(message)
        return found

    def _find(self, function: Callable[..., Any]) -> HandlerDefinition:
        name = getattr(function, "__name__", repr(function))
        owned = any(vars(base).get(name) is function for base in self.cls.__mro__)
        if not owned or name not in self.handlers:
            shown = getattr(function, "__qualname__", name)
            raise UnknownHandlerError(self.id, shown, sorted(self.handlers))
        return self.handlers[name]


def new_instance(
    definition: ComponentDefinition, session: EntitySession[Any], dependencies: Mapping[str, Any]
) -> Any:
    """An entity object that sees a session, even in its constructor.

    Args:
        definition: Of its class.
        session: What it will see as its id, state and contexts.
        dependencies: What its constructor is given, by parameter name.
    """
    cls: Any = definition.cls
    made = cls.__new__(cls)
    made._greenroom = session
    if not definition.dependencies:
        made.__init__()
        return made
    given = {
        name: EntityContext(session.entity_id) if kind is EntityContext else dependencies[name]
        for name, kind in definition.dependencies.items()
    }
    made.__init__(**given)
    return made
