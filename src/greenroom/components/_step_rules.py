"""Reads the steps of a workflow class, and notes every breach of their rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Annotated, Any, get_args, get_origin

from greenroom.components._handler_rules import Breach, unreadable
from greenroom.components._hints import (
    has_type_variable,
    hints_of,
    settle_annotations,
    shown,
    substitute,
    type_parameters_of,
)
from greenroom.components._methods import breach_at, methods_of
from greenroom.components._stored import read_stored
from greenroom.components.entity import Entity
from greenroom.components.function_tool import tool_mark
from greenroom.components.step import StepMark, is_async, step_mark
from greenroom.components.step_definition import StepDefinition, StepParameter
from greenroom.components.type_names import StoredTypeInfo
from greenroom.components.workflow import Workflow
from greenroom.components.workflow_effects import BranchEffect, StepEffect

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}\Z")


def read_steps(cls: type[Any], names: dict[str, Any], breach: Breach) -> dict[str, StepDefinition]:
    """The steps by their stored names: methods with `@step`, inherited ones too."""
    found: dict[str, StepDefinition] = {}
    seen = 0
    for method, function, mark, owner in _marked(cls, names, breach):
        seen += 1
        made = _read(cls, method, function, mark, owner, names, partial(breach_at, breach, method))
        if made is None:
            continue
        other = found.setdefault(made.name, made)
        if other is not made:
            breach(f".{method} and .{other.method} are both the step {made.name!r}; rename one")
    if not seen:
        breach(" has no steps: methods with @step that return a StepEffect")
    return found


def _marked(
    cls: type[Any], names: dict[str, Any], breach: Breach
) -> Iterator[tuple[str, FunctionType, StepMark, type[Any]]]:
    for method, function, owner, ordinary in methods_of(cls, ours=(object, Entity, Workflow)):
        mark = step_mark(function)
        if mark is None:
            _check_unmarked(cls, method, function, names, breach)
        elif not ordinary:
            breach(f".{method} is a static or class method; a step takes self")
        else:
            yield method, function, mark, owner


def _check_unmarked(
    cls: type[Any], method: str, function: FunctionType, names: dict[str, Any], breach: Breach
) -> None:
    """A method that is no step, but looks as if it should be."""
    try:
        returned = hints_of(function, cls, names).get("return")
    except Exception:  # told where handlers are read
        return
    if _is_step_effect(returned):
        breach(f".{method} returns {shown(returned)}, but has no @step")
    elif any(step_mark(vars(base).get(method)) for base in cls.__mro__):
        breach(f".{method} overrides a step; give it @step too")


def _read(
    cls: type[Any],
    method: str,
    function: FunctionType,
    mark: StepMark,
    owner: type[Any],
    names: dict[str, Any],
    breach: Breach,
) -> StepDefinition | None:
    problems: list[str] = []
    name = method if mark.name is None else mark.name
    if not _NAME.match(name):
        problems.append(
            f": the step name {name!r} must be letters, digits, dots, hyphens and underscores"
        )
    if tool_mark(cls, method) is not None:
        problems.append(" is a step; only command handlers are tools")
    if hasattr(Workflow, method):
        problems.append(" hides an attribute of the base class; rename the step")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problems.append(" is a generator; a step returns one StepEffect")
    try:
        hints = hints_of(function, cls, names)
    except Exception as error:
        breach(unreadable(error))
        return None
    known = type_parameters_of(cls, owner, names)
    returned = hints.get("return")
    if not _is_step_effect(returned):
        problems.append(
            f" must return a StepEffect (or, in a branch, a BranchEffect[...]), not "
            f"{shown(returned)}"
        )
    result = None
    if not problems and _origin(returned) is BranchEffect:
        result = _result(returned, known, names, problems.append)
    parameters = tuple(_parameters(function, hints, known, names, problems.append))
    for problem in problems:
        breach(problem)
    if problems:
        return None
    return StepDefinition(
        name=name,
        function=function,
        is_async=is_async(function),
        parameters=parameters,
        result=result,
        timeout=mark.timeout,
        recovery=mark.recovery,
    )


def _result(
    returned: Any, known: Mapping[Any, Any], names: dict[str, Any], breach: Breach
) -> StoredTypeInfo | None:
    arguments = get_args(returned)
    if not arguments:
        breach(" must say what its result is: BranchEffect[...]")
        return None
    python_type = substitute(arguments[0], known)
    stored, problems = read_stored(python_type, names)
    for problem in problems:
        breach(f" has a result of {problem}")
    return stored


def _parameters(
    function: FunctionType,
    hints: Mapping[str, Any],
    known: Mapping[Any, Any],
    names: dict[str, Any],
    breach: Breach,
) -> Iterator[StepParameter]:
    declared = list(inspect.signature(function).parameters.values())
    if not declared:
        breach(" takes no self")
    for one in declared[1:]:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
            breach(f": {one.name} must be an ordinary parameter, given by name or by position")
            continue
        python_type = substitute(hints.get(one.name), known)
        if one.name not in hints or has_type_variable(python_type):
            breach(f": {one.name} has no type, and is stored")
            continue
        settle_annotations(python_type, names)
        stored, problems = read_stored(python_type, names)
        for problem in problems:
            breach(f": {one.name} is stored as {problem}")
        if stored is not None:
            yield StepParameter(one.name, stored)


def _origin(python_type: Any) -> Any:
    if get_origin(python_type) is Annotated:
        python_type = get_args(python_type)[0]
    return get_origin(python_type) or python_type


def _is_step_effect(python_type: Any) -> bool:
    origin = _origin(python_type)
    return isinstance(origin, type) and issubclass(origin, StepEffect | BranchEffect)
