"""Whether what a decorator was given is of the types that it says, before anybody relies on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def listed(given: Iterable[Any]) -> tuple[Any, ...]:
    """What was given as a list; one that is none is kept, to be told by `wrong_types`."""
    return tuple(given) if isinstance(given, Iterable) else given


def wrong_types(said: DataclassInstance) -> list[str]:
    """Which arguments of a decorator are of another type than they must be.

    Args:
        said: What the decorator keeps: a field for each of its arguments.

    Example:
        >>> from greenroom.components.mcp_methods import McpInstancesMark
        >>> wrong_types(McpInstancesMark(5))
        ['target= must be str, not 5']
    """
    hints = get_type_hints(type(said))
    return [
        f"{one.name}= must be {_told(hints[one.name])}, not {getattr(said, one.name)!r}"
        for one in fields(said)
        if not _fits(getattr(said, one.name), hints[one.name])
    ]


def _told(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        return f"a list of {_told(inner[0])}"
    if origin in (Union, UnionType):
        return " or ".join(_told(one) for one in inner if one is not NoneType)
    if origin is Literal:
        return " or ".join(map(repr, inner))
    return (origin or hint).__name__  # type: ignore[no-any-return]


def _fits(value: Any, hint: Any) -> bool:  # noqa: PLR0911 - one line per kind of type
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is None:
        kind = (int, float) if hint is float else hint
        return isinstance(value, kind) and (hint in (bool, object) or not isinstance(value, bool))
    if origin in (tuple, Set):
        return isinstance(value, origin) and all(_fits(one, inner[0]) for one in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(name, inner[0]) and _fits(one, inner[1]) for name, one in value.items()
        )
    return isinstance(value, origin)
