"""Reading types at run time: generic parameters, annotations, what may be shared."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import FrameType, ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel
from typing_extensions import TypeAliasType, is_typeddict

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
    if isinstance(python_type, NewType):
        return union_members(python_type.__supertype__)
    return (python_type,)


def shown(python_type: Any) -> str:
    """A type as people write it."""
    if get_origin(python_type) is not None:
        return str(python_type)
    return getattr(python_type, "__qualname__", None) or str(python_type)


def names_around(frame: FrameType | None) -> dict[str, Any]:
    """What annotations in a frame may mention and no module knows: local types.

    A function's own names, and for a class body also those of what is around it. Only types are
    kept, since the result lives as long as the class.
    """
    names: dict[str, Any] = {}
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**frame.f_locals, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break
        frame = frame.f_back
    return {name: one for name, one in names.items() if _may_be_mentioned(one)}


def _may_be_mentioned(thing: Any) -> bool:
    kinds = (type, ModuleType, NewType, TypeVar, UnionType, TypeAliasType)
    return isinstance(thing, kinds) or get_origin(thing) is not None


def type_arguments(
    cls: type[Any], base: type[Any], names: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """What a class gives for the type parameters of one of its generic bases.

    Raises:
        NameError: A name in the brackets is unknown.
    """
    for owner, arguments in _generic_bases(cls, {}, names):
        if owner is base:
            return arguments
    return None


def type_parameters_of(
    cls: type[Any], owner: type[Any], names: Mapping[str, Any]
) -> dict[Any, Any]:
    """What the type variables of a base class stand for in a class."""
    try:
        arguments = type_arguments(cls, owner, names) or ()
    except NameError:  # told where the class says what it stores
        arguments = ()
    return dict(zip(getattr(owner, "__parameters__", ()), arguments, strict=False))


def _generic_bases(
    cls: type[Any], known: Mapping[Any, Any], names: Mapping[str, Any]
) -> Iterator[tuple[type[Any], tuple[Any, ...]]]:
    # From __dict__: as an attribute it is inherited, and a subclass without brackets would show
    # its parent's.
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base)
        if origin is None:
            if isinstance(base, type) and base is not object:
                yield from _generic_bases(base, {}, names)
            continue
        if origin in (typing.Generic, typing.Protocol):
            continue
        arguments = tuple(substitute(_resolve(one, cls, names), known) for one in get_args(base))
        yield origin, arguments
        given = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
        yield from _generic_bases(origin, given, names)


def substitute(python_type: Any, known: Mapping[Any, Any]) -> Any:
    """The type with its type variables replaced, inside brackets too."""
    if isinstance(python_type, TypeVar):
        return known.get(python_type, python_type)
    parameters = getattr(python_type, "__parameters__", ())
    if parameters and known and get_origin(python_type) is not None:
        return python_type[tuple(known.get(one, one) for one in parameters)]
    return python_type


def _resolve(python_type: Any, cls: type[Any], names: Mapping[str, Any]) -> Any:
    """The type with names in quotes looked up, inside brackets too."""

    def dummy() -> None: ...

    dummy.__annotations__ = {"it": python_type}
    module = vars(sys.modules[cls.__module__])
    local = {**names, cls.__name__: cls}
    return typing.get_type_hints(dummy, module, local, include_extras=True)["it"]


def hints_of(function: Any, cls: type[Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """A function's annotations, resolved where they were written.

    Raises:
        NameError: A name is unknown there.
    """
    inner = inspect.unwrap(function)
    scope = getattr(inner, "__globals__", {})
    local = {**names, cls.__name__: cls}
    try:
        return typing.get_type_hints(inner, scope, local, include_extras=True)
    except NameError:
        # Classes nested in the component; tried last, since a handler called `list` would
        # otherwise hide the built-in.
        nested = {**local, **vars(cls)}
        return typing.get_type_hints(inner, scope, nested, include_extras=True)


def settle_annotations(python_type: Any, names: Mapping[str, Any]) -> None:
    """Look up, for good, the names in quotes of local dataclasses and TypedDicts.

    Pydantic looks up those of models when a model is made; those of a dataclass only later, when
    nobody knows its surroundings any more.
    """
    if names:
        _settle(python_type, names, set())


def _settle(python_type: Any, names: Mapping[str, Any], seen: set[int]) -> None:
    if id(python_type) in seen:
        return
    seen.add(id(python_type))
    for one in get_args(python_type):
        _settle(one, names, seen)
    is_dataclass = isinstance(python_type, type) and dataclasses.is_dataclass(python_type)
    if not is_dataclass and not is_typeddict(python_type):
        return
    try:
        hints = typing.get_type_hints(python_type, None, dict(names), include_extras=True)
    except NameError:  # pydantic says what is missing
        return
    if is_dataclass:
        for field in dataclasses.fields(python_type):
            field.type = hints[field.name]
    python_type.__annotations__ = {
        name: hints[name] for name in python_type.__annotations__ if name in hints
    }
    for one in hints.values():
        _settle(one, names, seen)


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
    if isinstance(python_type, NewType):
        return _is_shareable(python_type.__supertype__, seen)
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
        if not cls.model_config.get("frozen") or cls.model_config.get("extra") == "allow":
            return None
        return [field.annotation for field in cls.model_fields.values()]
    if dataclasses.is_dataclass(cls):
        if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return None
        return _field_types(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _field_types(cls)
    return None


def _field_types(cls: type[Any]) -> list[Any] | None:
    try:
        return list(typing.get_type_hints(cls, include_extras=True).values())
    except NameError:
        return None
