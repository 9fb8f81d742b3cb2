"""Reading types at run time: generic parameters, annotations, what may be shared."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

_IMMUTABLE = (
    int, float, str, bool, bytes, complex, NoneType, Decimal, datetime, date, time, timedelta, UUID,
)  # fmt: skip


def union_members(python_type: Any) -> tuple[Any, ...]:
    """The members of a union; a type that is no union is its own only member."""
    origin = get_origin(python_type)
    if origin is Annotated:
        return union_members(get_args(python_type)[0])
    value = getattr(python_type, "__value__", None)  # `type X = A | B`, from Python 3.12
    if value is not None:
        return union_members(value)
    if origin in (Union, UnionType):
        return tuple(one for arg in get_args(python_type) for one in union_members(arg))
    return (python_type,)


def type_arguments(
    cls: type[Any], base: type[Any], names: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """What a class gives for the type parameters of one of its generic bases."""
    for owner, arguments in _generic_bases(cls, {}):
        if owner is base:
            return tuple(_resolve(one, cls, names) for one in arguments)
    return None


def type_parameters_of(cls: type[Any], owner: type[Any]) -> dict[Any, Any]:
    """What the type variables of a base class stand for in a class."""
    parameters = getattr(owner, "__parameters__", ())
    for base, arguments in _generic_bases(cls, {}):
        if base is owner:
            return dict(zip(parameters, arguments, strict=False))
    return {}


def _generic_bases(
    cls: type[Any], known: dict[Any, Any]
) -> Iterator[tuple[type[Any], tuple[Any, ...]]]:
    # From __dict__: as an attribute it is inherited, and a subclass without brackets would show
    # its parent's.
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base)
        if origin is None:
            if isinstance(base, type) and base is not object:
                yield from _generic_bases(base, {})
            continue
        if origin in (typing.Generic, typing.Protocol):
            continue
        arguments = tuple(substitute(one, known) for one in get_args(base))
        yield origin, arguments
        parameters = getattr(origin, "__parameters__", ())
        yield from _generic_bases(origin, dict(zip(parameters, arguments, strict=False)))


def substitute(python_type: Any, known: Mapping[Any, Any]) -> Any:
    """The type with its type variables replaced, inside brackets too."""
    if isinstance(python_type, TypeVar):
        return known.get(python_type, python_type)
    parameters = getattr(python_type, "__parameters__", ())
    if parameters and known and get_origin(python_type) is not None:
        return python_type[tuple(known.get(one, one) for one in parameters)]
    return python_type


def _resolve(python_type: Any, cls: type[Any], names: Mapping[str, Any]) -> Any:
    if not isinstance(python_type, str | typing.ForwardRef):
        return python_type

    def dummy() -> None: ...

    dummy.__annotations__ = {"it": python_type}
    module = vars(__import__("sys").modules[cls.__module__])
    return typing.get_type_hints(dummy, module, {**names, cls.__name__: cls}, include_extras=True)[
        "it"
    ]


def hints_of(function: Any, cls: type[Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """A function's annotations, resolved where they were written.

    Raises:
        NameError: A name is unknown there.
    """
    inner = getattr(function, "__wrapped__", function)
    scope = getattr(inner, "__globals__", {})
    local = {**names, cls.__name__: cls}
    try:
        return typing.get_type_hints(function, scope, local, include_extras=True)
    except NameError:
        # Classes nested in the component; tried last, since a handler called `list` would
        # otherwise hide the built-in.
        nested = {**local, **vars(cls)}
        return typing.get_type_hints(function, scope, nested, include_extras=True)


def has_type_variable(python_type: Any) -> bool:
    """Whether a type variable is left over anywhere."""
    return isinstance(python_type, TypeVar) or bool(getattr(python_type, "__parameters__", ()))


def is_shareable(python_type: Any) -> bool:
    """Whether values of a type can't be changed, and so may be handed on as they are."""
    return _is_shareable(python_type, ())


def _is_shareable(  # noqa: PLR0911 - one line for each form of a type
    python_type: Any, seen: tuple[Any, ...]
) -> bool:
    if python_type in seen or python_type is Ellipsis:
        return True
    seen = (*seen, python_type)
    origin = get_origin(python_type)
    if origin is Annotated:
        return _is_shareable(get_args(python_type)[0], seen)
    if origin is Literal:
        return True
    if origin in (Union, UnionType, tuple, frozenset):
        return all(_is_shareable(one, seen) for one in get_args(python_type))
    if not isinstance(python_type, type) or origin is not None:
        return False
    if issubclass(python_type, enum.Enum) or python_type in _IMMUTABLE:
        return True
    fields = _frozen_fields(python_type)
    if fields is None:
        return False
    return all(_is_shareable(one, seen) for one in fields)


def _frozen_fields(cls: type[Any]) -> list[Any] | None:
    if issubclass(cls, BaseModel):
        if not cls.model_config.get("frozen"):
            return None
        return [field.annotation for field in cls.model_fields.values()]
    if dataclasses.is_dataclass(cls):
        if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return None
        return list(typing.get_type_hints(cls, include_extras=True).values())
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return list(typing.get_type_hints(cls, include_extras=True).values())
    return None
