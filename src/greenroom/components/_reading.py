"""Reads component classes, and tells every breach of the rules at once."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

from greenroom.components._action_rules import check_action_dependencies, read_actions
from greenroom.components._constructor import read_constructor
from greenroom.components._docs import first_paragraph
from greenroom.components._handler_rules import BASES, read_handlers
from greenroom.components._hints import (
    has_type_variable,
    shown,
    type_arguments,
    union_members,
)
from greenroom.components._step_rules import read_steps
from greenroom.components._stored import read_stored, read_stored_event, type_name_clashes
from greenroom.components._task_rules import read_task
from greenroom.components.definition import (
    ComponentDefinition,
    ComponentMark,
    component_mark,
)
from greenroom.components.entity import Entity
from greenroom.components.event_sourced_entity import EventSourcedEntity
from greenroom.components.function_tool import tool_mark
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.timed_action import TimedAction
from greenroom.components.timers import TIMERS
from greenroom.components.tools import ToolDefinition, define_tool
from greenroom.components.type_names import StoredTypeInfo, without_none
from greenroom.components.workflow import Workflow
from greenroom.components.workflow_operations import operations
from greenroom.errors import DefinitionError
from greenroom.ids import is_component_id

KINDS = (*BASES, TimedAction)
_NEVER_GIVEN = frozenset(
    (
        "ComponentClient",
        "AsyncComponentClient",
        "EntityClient",
        "AsyncEntityClient",
        "TimerScheduler",
        "AsyncTimerScheduler",
        "Runtime",
    )
)
"""By name, since nothing here may import what carries components out."""


def define(cls: type[Any]) -> ComponentDefinition:
    """Read and check one component class.

    Raises:
        DefinitionError: Lists every breach of the rules.
    """
    return define_all([cls])[0]


@dataclass(frozen=True, slots=True)
class ComponentsRead:
    """What could be read of some component classes."""

    definitions: Mapping[type[Any], ComponentDefinition]
    """Of the classes without a breach."""
    broken: Mapping[type[Any], tuple[ToolDefinition, ...]]
    """The other classes, with those of their tools that could be read all the same."""
    problems: list[str]
    """Every breach of the rules."""


def define_all(classes: Iterable[type[Any]]) -> list[ComponentDefinition]:
    """Read and check the component classes of a service.

    Raises:
        DefinitionError: Lists every breach of every class, and what clashes between them.
    """
    read = read_all(classes)
    if read.problems:
        raise DefinitionError(read.problems)
    return list(read.definitions.values())


def read_all(classes: Iterable[type[Any]]) -> ComponentsRead:
    """What could be read of some classes, and every breach of the rules.

    What clashes between classes is looked for in those with breaches too: who mends one mistake
    must not meet the next one only then.
    """
    readers = [_Reader(cls) for cls in classes]
    for reader in readers:
        reader.read()
    problems = [problem for reader in readers for problem in reader.problems]
    problems += _id_clashes(readers)
    problems += type_name_clashes(one for reader in readers for one in reader.stored_types)
    return ComponentsRead(
        {one.cls: one.definition for one in readers if one.definition is not None},
        {one.cls: one.tools for one in readers if one.definition is None},
        list(dict.fromkeys(problems)),
    )


def _id_clashes(readers: Sequence[_Reader]) -> list[str]:
    problems = []
    ids: dict[str, _Reader] = {}
    for one in readers:
        if one.id is None:
            continue
        other = ids.setdefault(one.id, one)
        if other is not one:
            problems.append(
                f"{one.name} and {other.name} both have the component id "
                f"{one.id!r}" + (" (the class was given twice)" if other.cls is one.cls else "")
            )
    return problems


class _Reader:
    """Reads one class, and notes every breach it comes across."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.name = getattr(cls, "__qualname__", repr(cls))
        self.problems: list[str] = []
        self.id: str | None = None
        """As `@component` gives it; None without one."""
        self.stored_types: tuple[StoredTypeInfo, ...] = ()
        self.tools: tuple[ToolDefinition, ...] = ()
        self.definition: ComponentDefinition | None = None
        """None when anything is wrong with the class."""

    def read(self) -> None:
        """Read as far as it goes."""
        mark = self._component_mark()
        if mark is None:
            return
        names = dict(mark.names)
        if issubclass(self.cls, TimedAction):
            self._read_actions(mark, names)
            return
        types = self._types(names)
        self._check_state_methods()
        handlers = read_handlers(self.cls, mark.id, names, self._breach)
        is_workflow = issubclass(self.cls, Workflow)
        steps = read_steps(self.cls, names, self._breach) if is_workflow else {}
        refusal = _nothing_refused if is_workflow else _never_given
        dependencies = read_constructor(self.cls, names, self._breach, refusal)
        summary = first_paragraph(self.cls)
        operated = operations(mark.id) if is_workflow else {}
        self.tools = self._tools(mark, handlers, operated, summary)
        if types is None or self.problems:
            return
        state_type, event_types = types
        self.definition = ComponentDefinition(
            id=mark.id,
            kind=self.cls.kind,
            cls=self.cls,
            name=mark.name or self.cls.__name__,
            description=mark.description or summary,
            state_type=state_type,
            event_types=event_types,
            stored_types=self.stored_types,
            handlers=handlers,
            dependencies=dependencies,
            tools=self.tools,
            steps=steps,
            operations=operated,
        )

    def _read_actions(self, mark: ComponentMark, names: dict[str, Any]) -> None:
        handlers = read_actions(self.cls, mark.id, names, self._breach)
        dependencies = read_constructor(self.cls, names, self._breach, _nothing_refused)
        check_action_dependencies(dependencies, self._breach)
        if not self.problems:
            self.definition = ComponentDefinition(
                id=mark.id,
                kind=self.cls.kind,
                cls=self.cls,
                name=mark.name or self.cls.__name__,
                description=mark.description or first_paragraph(self.cls),
                state_type=None,
                event_types=(),
                stored_types=(),
                handlers=handlers,
                dependencies=dependencies,
                tools=(),
            )

    def _breach(self, text: str) -> None:
        self.problems.append(f"{self.name}{text}")

    def _component_mark(self) -> ComponentMark | None:
        if not isinstance(self.cls, type) or not issubclass(self.cls, KINDS):
            self._breach(
                " is not a component; subclass EventSourcedEntity, KeyValueEntity, Workflow or "
                "TimedAction"
            )
            return None
        bases = [base.__name__ for base in KINDS if issubclass(self.cls, base)]
        if len(bases) > 1:
            self._breach(f" is {' and '.join(bases)} at once; be one of them")
            return None
        mark = component_mark(self.cls)
        if mark is None:
            self._breach(' has no @component("its-id")')
            # The rest of the class is read all the same.
            return ComponentMark(self.name, None, None, {})
        self.id = mark.id
        if not is_component_id(mark.id):
            self._breach(
                f": the component id {mark.id!r} must be lower case letters, digits and hyphens, "
                "beginning with a letter"
            )
        elif mark.id == TIMERS and self.cls.kind != "timer":
            self._breach(f": the component id {mark.id!r} is greenroom's own; choose another")
        return mark

    # -- types -----------------------------------------------------------------------------

    def _types(self, names: dict[str, Any]) -> tuple[Any, tuple[Any, ...]] | None:
        base = next(one for one in BASES if issubclass(self.cls, one))
        try:
            arguments = type_arguments(self.cls, base, names)
        except NameError as error:
            self._breach(f": its type parameters mention {error.name!r}, which is not known there")
            return None
        if arguments is None or any(has_type_variable(one) for one in arguments):
            wanted = "[State, Event]" if base is EventSourcedEntity else "[State]"
            self._breach(f" must say what it stores: {base.__name__}{wanted}")
            return None
        state_type, *events = arguments
        event_types = union_members(events[0]) if events else ()
        found = [read_stored(state_type, names)]
        found += [read_stored_event(one, names) for one in event_types]
        for _, problems in found:
            for problem in problems:
                self._breach(f" stores {problem}")
        inner = without_none(state_type)
        if inner is not state_type and inner in event_types:
            self._breach(
                f" stores {inner.__name__} as an event and as a state that may be None, under one "
                "name; give the state a class of its own"
            )
        self.stored_types = tuple(one for one, _ in found if one is not None)
        if self.cls.empty_state is Entity.empty_state and not _may_be_none(state_type):
            self._breach(
                f" has no empty_state(self), so it begins with None, which is no {shown(state_type)};"
                f" add the method, or say that the state may be None: {shown(state_type)} | None"
            )
        return state_type, event_types

    def _check_state_methods(self) -> None:
        if self.cls.empty_state is not Entity.empty_state:
            self._check_method("empty_state", (), "self alone")
        if not issubclass(self.cls, EventSourcedEntity):
            return
        if self.cls.apply_event is EventSourcedEntity.apply_event:
            self._breach(" has no apply_event(self, event), which makes state of its events")
        else:
            self._check_method("apply_event", ("event",), "self and the event")

    def _check_method(self, name: str, given: tuple[str, ...], shown: str) -> None:
        method = getattr(self.cls, name)
        if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
            self._breach(f".{name} must be a plain def: it computes and never waits")
            return
        try:
            inspect.signature(method).bind("self", *given)
        except TypeError:
            self._breach(f".{name} must be a method that takes {shown}")

    def _tools(
        self,
        mark: ComponentMark,
        handlers: Mapping[str, HandlerDefinition],
        operated: Mapping[str, HandlerDefinition],
        summary: str,
    ) -> tuple[ToolDefinition, ...]:
        tools = []
        for name, handler in handlers.items():
            said = tool_mark(self.cls, name)
            if said is None:
                continue
            tool, problems = define_tool(mark.id, summary, handler, said)
            if tool is not None and said.task is not None:
                tool, problems = read_task(tool, said.task, handlers, operated)
            self.problems += [f"{self.name}: {problem}" for problem in problems]
            if tool is not None:
                tools.append(tool)
        return tuple(tools)


def _may_be_none(state_type: Any) -> bool:
    return not {NoneType, Any, object}.isdisjoint(union_members(state_type))


def _nothing_refused(_kind: Any) -> None:
    """What a workflow may ask for."""


def _never_given(kind: Any) -> str | None:
    for member in union_members(kind):
        name = getattr(member, "__name__", "")
        if name in _NEVER_GIVEN:
            return (
                f" asks for a {name}; entities compute and call nobody. Let a workflow or an "
                "endpoint make the call"
            )
    return None
