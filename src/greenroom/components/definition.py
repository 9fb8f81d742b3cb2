"""Everything that is read from a component class, once; every breach of the rules at once."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, NoneType
from typing import Any, TypeVar, get_args, get_origin

from greenroom.components._hints import (
    has_type_variable,
    hints_of,
    substitute,
    type_arguments,
    type_parameters_of,
    union_members,
)
from greenroom.components.contexts import EntityContext
from greenroom.components.effects import Effect, ReadOnlyEffect
from greenroom.components.entity import Component, Entity
from greenroom.components.event_sourced_entity import EventSourcedEntity
from greenroom.components.function_tool import tool_mark
from greenroom.components.handlers import HandlerDefinition, Parameter, read_parameter
from greenroom.components.key_value_entity import KeyValueEntity
from greenroom.components.session import EntitySession
from greenroom.components.tools import ToolDefinition, define_tool
from greenroom.components.type_names import built_in_name, mark_of, missing_migrations
from greenroom.errors import DefinitionError, UnknownHandlerError
from greenroom.ids import is_component_id

C = TypeVar("C", bound=type[Component])

_MARK = "__greenroom_component__"
_BASES = (EventSourcedEntity, KeyValueEntity)


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

    Args:
        component_id: Names what is stored, for ever: lower case letters, digits and hyphens.
            The class may be renamed freely.
        name: What people call it; the class name by default.
        description: What it is for; the docstring's first paragraph by default.
    """
    frame = sys._getframe(1)
    names = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)

    def mark(cls: C) -> C:
        setattr(cls, _MARK, ComponentMark(component_id, name, description, names))
        return cls

    return mark


@dataclass(frozen=True, slots=True)
class StoredTypeInfo:
    """A type that a component stores."""

    name: str
    version: int
    python_type: Any
    migrations: Mapping[int, Callable[[Any], Any]]


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
    tools: tuple[ToolDefinition, ...]
    _by_function: dict[Any, HandlerDefinition] = field(default_factory=dict)

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
        found = self.handlers.get(name)
        if found is None:
            raise UnknownHandlerError(self.id, name, sorted(self.handlers))
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
    """An entity object that sees a session, even in its constructor."""
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


def define(cls: type[Any]) -> ComponentDefinition:
    """Read and check one component class.

    Raises:
        DefinitionError: Lists every breach of the rules.
    """
    return define_all([cls])[0]


def define_all(classes: Iterable[type[Any]]) -> list[ComponentDefinition]:
    """Read and check the component classes of a service.

    Raises:
        DefinitionError: Lists every breach of every class, and what clashes between them.
    """
    found, problems = read_all(classes)
    if problems:
        raise DefinitionError(problems)
    return found


def read_all(classes: Iterable[type[Any]]) -> tuple[list[ComponentDefinition], list[str]]:
    """What could be read of some classes, and every breach of the rules."""
    readers = [_Reader(cls) for cls in classes]
    found = [made for reader in readers if (made := reader.read()) is not None]
    problems = [problem for reader in readers for problem in reader.problems]
    return found, problems + _clashes(found)


def _clashes(found: Sequence[ComponentDefinition]) -> list[str]:
    problems = []
    ids: dict[str, ComponentDefinition] = {}
    names: dict[str, Any] = {}
    for one in found:
        other = ids.setdefault(one.id, one)
        if other is not one:
            problems.append(
                f"{one.cls.__qualname__} and {other.cls.__qualname__} both have the component id "
                f"{one.id!r}" + (" (the class was given twice)" if other.cls is one.cls else "")
            )
        for stored in one.stored_types:
            known = names.setdefault(stored.name, stored.python_type)
            if known is not stored.python_type and built_in_name(known) is None:
                continue
            if known is not stored.python_type and mark_of(known) is not None:
                problems.append(
                    f"{_shown(known)} and {_shown(stored.python_type)} both have the type name "
                    f"{stored.name!r}"
                )
    return problems


class _Reader:
    """Reads one class, and notes every breach it comes across."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self._name = getattr(cls, "__qualname__", repr(cls))
        self.problems: list[str] = []
        self._mark: ComponentMark | None = None
        self._locals: Mapping[str, Any] = {}

    def read(self) -> ComponentDefinition | None:
        if not self._is_component():
            return None
        assert self._mark is not None
        base = next(one for one in _BASES if issubclass(self._cls, one))
        types = self._type_arguments(base)
        handlers = self._handlers()
        dependencies = self._dependencies()
        summary = _first_paragraph(self._cls)
        tools = self._tools(handlers, summary)
        if types is None or self.problems:
            return None
        state_type, event_types = types
        stored = [self._stored(state_type), *(self._stored(one) for one in event_types)]
        self._check_apply_event()
        if self.problems:
            return None
        return ComponentDefinition(
            id=self._mark.id,
            kind=self._cls.kind,
            cls=self._cls,
            name=self._mark.name or self._cls.__name__,
            description=self._mark.description or summary,
            state_type=state_type,
            event_types=event_types,
            stored_types=tuple(one for one in stored if one is not None),
            handlers=handlers,
            dependencies=dependencies,
            tools=tools,
        )

    def _breach(self, text: str) -> None:
        self.problems.append(f"{self._name}{text}")

    def _is_component(self) -> bool:
        if not isinstance(self._cls, type) or not issubclass(self._cls, _BASES):
            self._breach(" is not a component; subclass EventSourcedEntity or KeyValueEntity")
            return False
        mark = vars(self._cls).get(_MARK)
        if not isinstance(mark, ComponentMark):
            self._breach(' has no @component("its-id")')
            return False
        if not is_component_id(mark.id):
            self._breach(
                f": the component id {mark.id!r} must be lower case letters, digits and hyphens, "
                "beginning with a letter"
            )
        self._mark = mark
        self._locals = mark.names
        return True

    # -- types -----------------------------------------------------------------------------

    def _type_arguments(self, base: type[Any]) -> tuple[Any, tuple[type[Any], ...]] | None:
        try:
            arguments = type_arguments(self._cls, base, self._locals)
        except NameError as error:
            self._breach(f": its type parameters mention {error.name!r}, which is not known there")
            return None
        wanted = "[State, Event]" if base is EventSourcedEntity else "[State]"
        if arguments is None or any(has_type_variable(one) for one in arguments):
            self._breach(f" must say what it stores: {base.__name__}{wanted}")
            return None
        events = union_members(arguments[1]) if len(arguments) > 1 else ()
        return arguments[0], events

    def _stored(self, python_type: Any) -> StoredTypeInfo | None:
        mark = mark_of(python_type)
        if mark is None:
            name = built_in_name(python_type)
            if name is None:
                self._breach(
                    f" stores {_shown(python_type)}, which has no permanent name; give the class "
                    'a @type_name("...")'
                )
                return None
            return StoredTypeInfo(name, 1, python_type, {})
        for problem in mark.problems:
            if problem not in self.problems:
                self.problems.append(problem)
        for version in missing_migrations(mark):
            self._breach(
                f": {mark.cls.__qualname__} is at version {mark.version}, but nothing says how "
                f"version {version} is read; add @migrates({mark.cls.__name__}, "
                f"from_version={version})"
            )
        return StoredTypeInfo(mark.name, mark.version, python_type, mark.migrations)

    def _check_apply_event(self) -> None:
        if issubclass(self._cls, EventSourcedEntity):
            if self._cls.apply_event is EventSourcedEntity.apply_event:
                self._breach(" has no apply_event(self, event), which makes state of its events")
            elif inspect.iscoroutinefunction(self._cls.apply_event):
                self._breach(".apply_event must be a plain def: it computes and never waits")

    # -- handlers --------------------------------------------------------------------------

    def _handlers(self) -> dict[str, HandlerDefinition]:
        found: dict[str, HandlerDefinition] = {}
        for name in sorted(dir(self._cls)):
            function = inspect.getattr_static(self._cls, name)
            if not isinstance(function, FunctionType) or (name.startswith("__")):
                continue
            self._look_at(name, function, found)
        if found and all(one.read_only for one in found.values()) and not self.problems:
            self._breach(
                " has no handler that changes anything; return Effect[...] from one of its methods"
            )
        if not found and not self.problems:
            self._breach(" has no handlers: public methods that return an Effect[...]")
        return found

    def _look_at(
        self, name: str, function: FunctionType, found: dict[str, HandlerDefinition]
    ) -> None:
        owner = next(base for base in self._cls.__mro__ if vars(base).get(name) is function)
        if owner in (object, Component, Entity, *_BASES):
            return
        is_tool = tool_mark(self._cls, name) is not None
        try:
            hints = hints_of(function, self._cls, self._locals)
        except NameError as error:
            if "Effect" in str(getattr(function, "__annotations__", {}).get("return", "")):
                self._breach(f".{name}: the annotations mention {error.name!r}, which is unknown")
            return
        effect = hints.get("return")
        origin = get_origin(effect) or effect
        if not (isinstance(origin, type) and issubclass(origin, Effect)):
            if is_tool:
                self._breach(
                    f".{name} has @function_tool, but does not return Effect[...] or "
                    "ReadOnlyEffect[...]"
                )
            return
        if name.startswith("_"):
            if is_tool:
                self._breach(f".{name} has @function_tool, but is not public")
            return
        handler = self._read_handler(name, function, owner, hints, effect)
        if handler is not None:
            found[name] = handler

    def _read_handler(
        self,
        name: str,
        function: FunctionType,
        owner: type[Any],
        hints: Mapping[str, Any],
        effect: Any,
    ) -> HandlerDefinition | None:
        before = len(self.problems)
        if any(hasattr(base, name) for base in _BASES if issubclass(self._cls, base)):
            self._breach(f".{name} hides an attribute of the base class; rename the handler")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            self._breach(f".{name} must be a plain def: entity handlers compute and never wait")
        if not get_args(effect):
            self._breach(f".{name} must say what it answers: {_shown(effect)}[...]")
        known = type_parameters_of(self._cls, owner)
        parameters = self._parameters(name, function, hints, known)
        if len(self.problems) > before:
            return None
        reply_type = substitute(get_args(effect)[0], known)
        if reply_type is None:
            reply_type = NoneType
        assert self._mark is not None
        try:
            return HandlerDefinition(
                component=self._mark.id,
                name=name,
                function=function,
                read_only=issubclass(get_origin(effect) or effect, ReadOnlyEffect),
                description=_first_paragraph(function),
                parameters=parameters,
                reply_type=reply_type,
            )
        except Exception as error:
            reason = str(error).splitlines()[0]
            self._breach(f".{name}: pydantic can't use its parameter or reply types: {reason}")
            return None

    def _parameters(
        self, name: str, function: FunctionType, hints: Mapping[str, Any], known: Mapping[Any, Any]
    ) -> tuple[Parameter, ...]:
        documented = documented_parameters(function)
        parameters = []
        for one in list(inspect.signature(function).parameters.values())[1:]:
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
                self._breach(f".{name} takes *{one.name}; name every parameter instead")
            elif one.kind is one.KEYWORD_ONLY:
                self._breach(f".{name}: {one.name} can only be given by keyword; drop the *")
            elif one.name not in hints:
                self._breach(f".{name}: {one.name} has no type annotation")
            else:
                annotation = substitute(hints[one.name], known)
                if has_type_variable(annotation):
                    self._breach(f".{name}: {one.name} has no concrete type here")
                else:
                    parameters.append(read_parameter(one, annotation, documented))
        return tuple(parameters)

    def _tools(
        self, handlers: Mapping[str, HandlerDefinition], summary: str
    ) -> tuple[ToolDefinition, ...]:
        assert self._mark is not None
        tools = []
        for name, handler in handlers.items():
            mark = tool_mark(self._cls, name)
            if mark is None:
                continue
            tool, problems = define_tool(self._mark.id, summary, handler, mark)
            self.problems += [f"{self._name}: {problem}" for problem in problems]
            if tool is not None:
                tools.append(tool)
        return tuple(tools)

    # -- constructor -----------------------------------------------------------------------

    def _dependencies(self) -> dict[str, Any]:
        constructor = self._cls.__init__
        if constructor is object.__init__:
            return {}
        try:
            hints = hints_of(constructor, self._cls, self._locals)
        except NameError as error:
            self._breach(f".__init__: the annotations mention {error.name!r}, which is unknown")
            return {}
        wanted: dict[str, Any] = {}
        for one in list(inspect.signature(constructor).parameters.values())[1:]:
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
                continue
            kind = hints.get(one.name)
            if kind is None:
                self._breach(f".__init__: {one.name} has no type, so nobody knows what to give it")
            elif getattr(kind, "__name__", "") in ("ComponentClient", "AsyncComponentClient"):
                self._breach(
                    f".__init__ asks for a {kind.__name__}; entities compute and call nobody. Let "
                    "a workflow or an endpoint make the call"
                )
            else:
                wanted[one.name] = kind
        return wanted


def documented_parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Parameter descriptions from the `Args:` section of a docstring (Google style)."""
    text = inspect.getdoc(function) or ""
    section = re.search(
        r"^(?:Args|Arguments|Parameters):\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE
    )
    if section is None:
        return {}
    found: dict[str, str] = {}
    name = None
    for line in section.group(1).splitlines():
        start = re.match(r"\s{2,8}(\w+)(?:\s*\([^)]*\))?:\s*(.*)", line)
        indent = len(line) - len(line.lstrip())
        if start is not None and indent <= 4:
            name = start.group(1)
            found[name] = start.group(2).strip()
        elif name is not None and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}


def _first_paragraph(thing: Any) -> str:
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    text = inspect.cleandoc(own or "")
    return " ".join(text.split("\n\n", 1)[0].split())


def _shown(python_type: Any) -> str:
    return getattr(python_type, "__qualname__", None) or str(python_type)
