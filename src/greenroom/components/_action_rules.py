"""Reads the actions of a timed action class, and notes every breach of their rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FunctionType, NoneType
from typing import Annotated, Any, get_args, get_origin

from greenroom.components._docs import first_paragraph
from greenroom.components._handler_rules import read_parameters, wrong_defaults
from greenroom.components._hints import (
    hints_of,
    settle_annotations,
    shown,
    type_parameters_of,
    union_members,
)
from greenroom.components.contexts import EntityContext
from greenroom.components.entity import Component
from greenroom.components.function_tool import tool_mark
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.timed_action import TimedAction, TimedActionEffect

Breach = Callable[[str], None]
"""Takes what is wrong, told after the name of the class."""


def read_actions(
    cls: type[Any], component_id: str, names: dict[str, Any], breach: Breach
) -> dict[str, HandlerDefinition]:
    """The actions by name: public methods, inherited ones too, that return an effect."""
    found: dict[str, HandlerDefinition] = {}
    seen = 0
    for name, function, owner, ordinary in _methods(cls):
        at = partial(_at, breach, name)
        try:
            hints = hints_of(function, cls, names)
        except Exception as error:
            if not name.startswith("_"):
                seen += 1
                reason = getattr(error, "name", None) or error
                at(f": the annotations mention {reason!r}, which is unknown there")
            continue
        returned = _bare(hints.get("return"))
        if not _is_meant(cls, name, returned, hints, at):
            continue
        seen += 1
        if not ordinary:
            at(" is a static or class method; an action takes self")
            continue
        made = _read(cls, component_id, name, function, owner, hints, names, at)
        if made is not None:
            found[name] = made
    if not seen:
        breach(" has no actions: public methods that return a TimedActionEffect")
    return found


def check_action_dependencies(wanted: Mapping[str, Any], breach: Breach) -> None:
    """What the constructor of a timed action may not ask for."""
    for name, kind in wanted.items():
        if kind is EntityContext:
            breach(
                f".__init__: {name} is an EntityContext, but a timed action is no instance of "
                "anything; read self.context instead"
            )


def _methods(cls: type[Any]) -> Iterator[tuple[str, FunctionType, type[Any], bool]]:
    for name in sorted(dir(cls)):
        if name.startswith("__"):
            continue
        found = inspect.getattr_static(cls, name)
        owner = next((one for one in cls.__mro__ if vars(one).get(name) is found), None)
        function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
        if isinstance(function, FunctionType) and owner not in (
            None,
            object,
            Component,
            TimedAction,
        ):
            assert owner is not None
            yield name, function, owner, function is found


def _is_meant(
    cls: type[Any], name: str, returned: Any, hints: Mapping[str, Any], breach: Breach
) -> bool:
    """Whether a method is an action; tells of those that only look as if they should be."""
    if tool_mark(cls, name) is not None:
        breach(" has @function_tool; only timers call timed actions")
    if _is_effect(returned):
        return not name.startswith("_")
    if any(_is_effect(_bare(one)) for one in (*union_members(returned), *get_args(returned))):
        breach(f" must return a TimedActionEffect, not {shown(returned)}")
    elif "return" not in hints and _overrides_action(cls, name):
        breach(" overrides an action without saying what it returns; annotate it too")
    return False


def _overrides_action(cls: type[Any], name: str) -> bool:
    for base in cls.__mro__[1:]:
        annotations = getattr(vars(base).get(name), "__annotations__", {})
        if "TimedActionEffect" in str(annotations.get("return", "")):
            return True
    return False


def _read(  # noqa: PLR0913, PLR0917 - all that is known of one method
    cls: type[Any],
    component_id: str,
    name: str,
    function: FunctionType,
    owner: type[Any],
    hints: Mapping[str, Any],
    names: dict[str, Any],
    breach: Breach,
) -> HandlerDefinition | None:
    problems: list[str] = []
    if hasattr(TimedAction, name):
        problems.append(" hides an attribute of the base class; rename the action")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problems.append(" is a generator; an action returns one TimedActionEffect")
    known = type_parameters_of(cls, owner, names)
    parameters = read_parameters(function, hints, known, problems.append)
    for problem in problems:
        breach(problem)
    if problems:
        return None
    for one in parameters:
        settle_annotations(one.type, names)
    try:
        made = HandlerDefinition(
            component=component_id,
            name=name,
            function=function,
            read_only=False,
            description=first_paragraph(function),
            parameters=parameters,
            reply_type=NoneType,
        )
    except Exception as error:
        breach(f": pydantic can't use its parameter types: {str(error).splitlines()[0]}")
        return None
    wrong = wrong_defaults(made)
    for problem in wrong:
        breach(problem)
    return None if wrong else made


def _at(breach: Breach, name: str, problem: str) -> None:
    breach(f".{name}{problem}")


def _bare(python_type: Any) -> Any:
    return get_args(python_type)[0] if get_origin(python_type) is Annotated else python_type


def _is_effect(python_type: Any) -> bool:
    return isinstance(python_type, type) and issubclass(python_type, TimedActionEffect)
