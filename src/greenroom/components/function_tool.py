"""`@function_tool`: a handler that a model may call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, overload

from greenroom.components._said import listed
from greenroom.components.tasks import TaskSettings

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__greenroom_tool__"


class ToolAnnotation(Enum):
    """What a tool does to its surroundings, as a hint for whoever calls it."""

    READ_ONLY = ("read_only", True)
    MUTATING = ("read_only", False)
    DESTRUCTIVE = ("destructive", True)
    NON_DESTRUCTIVE = ("destructive", False)
    IDEMPOTENT = ("idempotent", True)
    NON_IDEMPOTENT = ("idempotent", False)
    OPEN_WORLD = ("open_world", True)
    CLOSED_WORLD = ("open_world", False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that may need a person's approval."""

    tool: str
    arguments: Mapping[str, Any]


Approval = bool | Callable[[ToolCall], bool]


@dataclass(frozen=True, slots=True)
class ToolMark:
    """What `@function_tool` has said about a method."""

    name: str | None
    description: str | None
    id_param: str | None
    annotations: tuple[ToolAnnotation, ...]
    requires_approval: Approval
    task: TaskSettings | None = None


@overload
def function_tool(fn: F, /) -> F: ...
@overload
def function_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    id_param: str | None = None,
    annotations: Collection[ToolAnnotation] = (),
    requires_approval: Approval = False,
    task: TaskSettings | None = None,
) -> Callable[[F], F]: ...
def function_tool(
    fn: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    id_param: str | None = None,
    annotations: Collection[ToolAnnotation] = (),
    requires_approval: Approval = False,
    task: TaskSettings | None = None,
) -> F | Callable[[F], F]:
    """Let models call this handler, through agents and over MCP.

    Args:
        fn: The handler, when used without parentheses.
        name: The tool's whole name; by default `<component id>_<method>`.
        description: What it does, for the model; by default the docstring's first paragraph.
        id_param: The name of the parameter that takes the instance id.
        annotations: Hints that replace those drawn from the effect type.
        requires_approval: Whether a person must agree to a call, or a function that says so.
        task: For a command that starts a workflow: MCP clients that know tasks are given the
            workflow as one, and come back for its result.

    Example:
        >>> @function_tool(description="Adds a product to a cart.")
        ... def add_item(self, product_id: str) -> "Effect[Cart]": ...
    """

    def mark(function: F) -> F:
        setattr(
            function,
            _MARK,
            ToolMark(name, description, id_param, listed(annotations), requires_approval, task),
        )
        return function

    return mark if fn is None else mark(fn)


def tool_mark(cls: type[Any], method: str) -> ToolMark | None:
    """What was said about a method, on the class itself or on a base that declares it."""
    for owner in cls.__mro__:
        found = getattr(vars(owner).get(method), _MARK, None)
        if isinstance(found, ToolMark):
            return found
    return None
