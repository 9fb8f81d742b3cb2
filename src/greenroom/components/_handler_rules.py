"""Reads the command handlers of a class, and notes every breach of their rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from types import FunctionType, NoneType
from typing import Annotated, Any, get_args, get_origin

from greenroom.components._docs import first_paragraph, parameter_texts
from greenroom.components._hints import (
    has_type_variable,
    hints_of,
    settle_annotations,
    shown,
    substitute,
    type_parameters_of,
    union_members,
)
from greenroom.components._parameters import (
    Parameter,
    alias_of,
    read_parameter,
    wrong_default,
)
from greenroom.components.contexts import CommandContext, ToolContext
from greenroom.components.effects import Effect, ReadOnlyEffect
from greenroom.components.entity import Component, Entity
from greenroom.components.event_sourced_entity import EventSourcedEntity
from greenroom.components.function_tool import tool_mark
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.key_value_entity import KeyValueEntity
from greenroom.components.mcp_methods import mcp_mark
from greenroom.components.workflow import Workflow
from greenroom.fidelity import starred

BASES = (EventSourcedEntity, KeyValueEntity, Workflow)
_OURS = (object, Component, Entity, *BASES)

Breach = Callable[[str], None]
"""Takes what is wrong, told after the name of the class."""


def read_handlers(
    cls: type[Any], component_id: str, names: dict[str, Any], breach: Breach
) -> dict[str, HandlerDefinition]:
    """The handlers by name: public methods, inherited ones too, that return an effect."""
    reader = _Handlers(cls, component_id, names, breach)
    found = dict(reader.read())
    if not reader.seen:
        breach(" has no handlers: public methods that return an Effect[...]")
    elif found and all(one.read_only for one in found.values()) and len(found) == reader.seen:
        breach(" has no handler that changes anything; return Effect[...] from one of its methods")
    return found


class _Handlers:
    def __init__(
        self, cls: type[Any], component_id: str, names: dict[str, Any], breach: Breach
    ) -> None:
        self._cls = cls
        self._component_id = component_id
        self._names = names
        self._breach = breach
        self.seen = 0
        """How many methods are meant to be handlers, right or wrong."""

    def read(self) -> Iterator[tuple[str, HandlerDefinition]]:
        for name in sorted(dir(self._cls)):
            if name.startswith("__"):
                continue
            found = inspect.getattr_static(self._cls, name)
            function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
            owner = next((one for one in self._cls.__mro__ if vars(one).get(name) is found), None)
            if not isinstance(function, FunctionType) or owner is None or owner in _OURS:
                continue
            handler = self._look_at(name, function, owner, ordinary=function is found)
            if handler is not None:
                yield name, handler

    def _look_at(
        self, name: str, function: FunctionType, owner: type[Any], *, ordinary: bool
    ) -> HandlerDefinition | None:
        is_tool = tool_mark(self._cls, name) is not None
        breach = partial(_at, self._breach, name)
        if mcp_mark(function) is not None:
            self.seen += 1
            breach(
                " is marked for an MCP endpoint, and this is no class with @mcp_endpoint; use "
                "@function_tool"
            )
            return None
        try:
            hints = hints_of(function, self._cls, self._names)
        except Exception as error:
            if _mentions_effect(function) or is_tool:
                self.seen += 1
                breach(unreadable(error))
            return None
        effect = hints.get("return")
        if get_origin(effect) is Annotated:
            effect = get_args(effect)[0]
        if not _is_effect(effect):
            self._check_other(name, owner, effect, is_tool=is_tool)
            return None
        if name.startswith("_"):
            if is_tool:
                breach(" has @function_tool, but is not public")
            return None
        self.seen += 1
        if not ordinary:
            breach(" is a static or class method; a handler takes self")
            return None
        return self._read(name, function, owner, hints, effect)

    def _check_other(self, name: str, owner: type[Any], returned: Any, *, is_tool: bool) -> None:
        """A method that returns no effect, but looks as if it should."""
        if any(_is_effect(one) for one in union_members(returned)):
            self.seen += 1
            self._breach(f".{name} must return one Effect[...], not {shown(returned)}")
        elif is_tool:
            self.seen += 1
            self._breach(
                f".{name} has @function_tool, but does not return Effect[...] or "
                "ReadOnlyEffect[...]"
            )
        elif returned is None:
            bases = self._cls.__mro__[self._cls.__mro__.index(owner) + 1 :]
            for base in bases:
                hidden = vars(base).get(name)
                if base not in _OURS and _mentions_effect(hidden):
                    self.seen += 1
                    self._breach(
                        f".{name} overrides a handler of {base.__name__} without saying what it "
                        "returns; annotate it too"
                    )
                    return

    def _read(
        self,
        name: str,
        function: FunctionType,
        owner: type[Any],
        hints: Mapping[str, Any],
        effect: Any,
    ) -> HandlerDefinition | None:
        problems: list[str] = []
        if any(hasattr(base, name) for base in BASES if issubclass(self._cls, base)):
            problems.append(" hides an attribute of the base class; rename the handler")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            problems.append(" must be a plain def: command handlers compute and never wait")
        known = type_parameters_of(self._cls, owner, self._names)
        reply_type = substitute(get_args(effect)[0], known) if get_args(effect) else None
        if not get_args(effect):
            problems.append(f" must say what it answers: {shown(effect)}[...]")
        elif has_type_variable(reply_type):
            problems.append(f": the type of its reply, {shown(reply_type)}, is left open here")
        parameters = read_parameters(function, hints, known, problems.append)
        for problem in problems:
            self._breach(f".{name}{problem}")
        if problems:
            return None
        for one in (reply_type, *(parameter.type for parameter in parameters)):
            settle_annotations(one, self._names)
        try:
            made = HandlerDefinition(
                component=self._component_id,
                name=name,
                function=function,
                read_only=issubclass(get_origin(effect) or effect, ReadOnlyEffect),
                description=first_paragraph(function),
                parameters=parameters,
                reply_type=NoneType if reply_type is None else reply_type,
            )
        except Exception as error:
            reason = str(error).splitlines()[0]
            self._breach(f".{name}: pydantic can't use its parameter or reply types: {reason}")
            return None
        wrong = [*wrong_defaults(made), *secrets_of(made)]
        for problem in wrong:
            self._breach(f".{name}{problem}")
        return None if wrong else made


def wrong_defaults(handler: HandlerDefinition) -> list[str]:
    """What is wrong with the defaults of a handler's parameters."""
    return [
        f": {one.name} can't be {one.default!r} by default: {said}"
        for one in handler.parameters
        if (said := wrong_default(one))
    ]


def secrets_of(handler: HandlerDefinition) -> list[str]:
    """Where arguments or the reply hold what JSON only shows as stars."""
    secret = [f"its parameter {name}" for name in starred(handler.arguments.core_schema)]
    secret += [
        f"its reply's field {place}" if place else "its reply"
        for place in starred(handler.reply_adapter.core_schema)
    ]
    return [
        f": {what} is a secret, which crosses between processes as stars; declare text, or give "
        "the field a serializer that writes the secret itself"
        for what in secret
    ]


def read_parameters(
    function: Any,
    hints: Mapping[str, Any],
    known: Mapping[Any, Any],
    breach: Breach,
    *,
    given: Collection[str] = (),
) -> tuple[Parameter, ...]:
    """The parameters of a method after `self`, without those that are given to it."""
    texts = parameter_texts(function)
    declared = list(inspect.signature(function).parameters.values())
    if not declared or declared[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        breach(" takes no self")
    read = []
    for one in declared[1:]:
        if one.name in given:
            continue
        annotation = substitute(hints.get(one.name), known)
        problem = parameter_problem(one, annotation, known=one.name in hints)
        if problem is None:
            read.append(read_parameter(one, annotation, texts))
        else:
            breach(problem)
    return tuple(read)


def parameter_problem(  # noqa: PLR0911 - one line per rule
    one: inspect.Parameter, annotation: Any, *, known: bool
) -> str | None:
    """What keeps a parameter from being one that a call from elsewhere can fill, told after `.name`."""
    if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
        return f" takes *{one.name}; name every parameter instead"
    if one.kind is one.KEYWORD_ONLY:
        return f": {one.name} can only be given by keyword; drop the *"
    if not known:
        return f": {one.name} has no type annotation"
    if has_type_variable(annotation):
        return f": {one.name} has no concrete type here"
    if annotation in (ToolContext, CommandContext):
        return f": {one.name} is not given to handlers; read self.command_context instead"
    if alias_of(annotation) is not None:
        return f": {one.name} has an alias, {alias_of(annotation)!r}; rename the parameter instead"
    return None


def _at(breach: Breach, name: str, problem: str) -> None:
    breach(f".{name}{problem}")


def _is_effect(python_type: Any) -> bool:
    origin = get_origin(python_type) or python_type
    return isinstance(origin, type) and issubclass(origin, Effect)


def _mentions_effect(function: Any) -> bool:
    return "Effect" in str(getattr(function, "__annotations__", {}).get("return", ""))


def unreadable(error: Exception) -> str:
    """Why the annotations of a method can't be read."""
    if isinstance(error, NameError):
        return (
            f": the annotations mention {error.name!r}, which is unknown there; import it for "
            "real, not under TYPE_CHECKING"
        )
    return f": the annotations can't be read: {error}"
