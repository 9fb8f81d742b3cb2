"""Permanent names for what is stored, versions, and how old versions are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin
from uuid import UUID

from greenroom.components._hints import union_members
from greenroom.errors import DefinitionError

T = TypeVar("T", bound=type[Any])
M = TypeVar("M", bound=Callable[[Any], Any])

_MARK = "__greenroom_type__"
_NAME = re.compile(r"[a-z][a-z0-9.-]*\Z")
_SCALARS = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    bytes: "bytes",
    NoneType: "none",
    Decimal: "decimal",
    datetime: "datetime",
    date: "date",
    time: "time",
    timedelta: "timedelta",
    UUID: "uuid",
}
_CONTAINERS = {list: "list", dict: "dict", tuple: "tuple", set: "set", frozenset: "frozenset"}
_TAKEN = frozenset((*_SCALARS.values(), *_CONTAINERS.values()))


@dataclass
class TypeMark:
    """What `@type_name` and `@migrates` have said about a class."""

    cls: type[Any]
    name: str
    version: int
    migrations: dict[int, Callable[[Any], Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoredTypeInfo:
    """A type that a component stores."""

    name: str
    version: int
    python_type: Any
    migrations: Mapping[int, Callable[[Any], Any]]
    """From version n to n + 1, on raw JSON, for every n below `version`."""


def type_name(name: str, *, version: int = 1) -> Callable[[T], T]:
    """Give a class the permanent name it is stored under.

    Args:
        name: Lower case letters, digits, dots and hyphens; never to be changed, whereas the
            class may be renamed and moved freely.
        version: The version of its shape, from 1. Raise it when stored data must be migrated,
            and say how with `@migrates`.

    Raises:
        DefinitionError: The name is no text, or the version no number.

    Example:
        >>> from pydantic import BaseModel
        >>> @type_name("item-added", version=2)
        ... class ItemAdded(BaseModel, frozen=True):
        ...     product_id: str
        ...     quantity: int
        >>> @migrates(ItemAdded, from_version=1)
        ... def count_from_one(old):
        ...     return {**old, "quantity": 1}
    """
    if not isinstance(name, str):
        raise DefinitionError(
            [f'@type_name takes a name, as @type_name("item-added"), not {name!r}']
        )
    if type(version) is not int:
        raise DefinitionError(
            [f"@type_name({name!r}): a version is a whole number, not {version!r}"]
        )

    def mark(cls: T) -> T:
        found = TypeMark(cls, name, version)
        if not _NAME.match(name):
            found.problems.append(
                f"@type_name({name!r}) must be lower case letters, digits, dots and hyphens, "
                "beginning with a letter"
            )
        if name in _TAKEN:
            found.problems.append(
                f"@type_name({name!r}) is the name of a built-in type; choose another"
            )
        if version < 1:
            found.problems.append(f"versions count from 1, not {version}")
        setattr(cls, _MARK, found)
        return cls

    return mark


def migrates(cls: type[Any], *, from_version: int) -> Callable[[M], M]:
    """Say how the stored JSON of one version becomes that of the next.

    Args:
        cls: A class with a `@type_name` whose version is above `from_version`.
        from_version: The version that the function takes; it returns the next one.

    Raises:
        DefinitionError: The class has no `@type_name`, or the version is no number.
    """
    if type(from_version) is not int:
        raise DefinitionError([f"@migrates: a version is a whole number, not {from_version!r}"])

    def mark(migration: M) -> M:
        found = mark_of(cls)
        if found is None:
            shown = getattr(cls, "__qualname__", repr(cls))
            raise DefinitionError([f"@migrates({shown}): the class has no @type_name"])
        if from_version in found.migrations:
            found.problems.append(f"there are two migrations from version {from_version}")
        if not 1 <= from_version < found.version:
            found.problems.append(
                f"a migration from version {from_version} does not lead to version {found.version}; "
                "raise @type_name(..., version=)"
            )
        found.migrations[from_version] = migration
        return migration

    return mark


def mark_of(python_type: Any) -> TypeMark | None:
    """What was said about this very class; subclasses inherit attributes, but no name."""
    mark = getattr(python_type, "__dict__", {}).get(_MARK)
    # A dataclass with slots is a second class that took the attribute along.
    return mark if isinstance(mark, TypeMark) else None


def missing_migrations(mark: TypeMark) -> list[int]:
    """Versions below the current one that have no way up."""
    return [version for version in range(1, mark.version) if version not in mark.migrations]


def without_none(python_type: Any) -> Any:
    """`X` of an optional `X | None`, without annotations; any other type as it is.

    None is stored under the name of what may be missing, so that a state may become optional.
    """
    members = union_members(python_type)
    others = [one for one in members if one is not NoneType]
    return others[0] if len(others) == 1 else python_type


def built_in_name(python_type: Any) -> str | None:
    """The name of a scalar, or of a container of types that have names; None for the others."""
    python_type = without_none(python_type)
    known = _SCALARS.get(python_type) or _CONTAINERS.get(python_type)
    if known is not None:
        return known
    mark = mark_of(python_type)
    if mark is not None:
        return mark.name
    members = union_members(python_type)
    if len(members) > 1:
        return _joined("|", members)
    origin = get_origin(python_type)
    if origin in _CONTAINERS:
        arguments = [arg for arg in get_args(python_type) if arg is not Ellipsis]
        inner = _joined(",", arguments)
        return None if inner is None else f"{_CONTAINERS[origin]}[{inner}]"
    return None


def _joined(separator: str, types: Sequence[Any]) -> str | None:
    names = [built_in_name(one) for one in types]
    return None if None in names else separator.join(name for name in names if name)


def marks_within(python_type: Any) -> Iterator[TypeMark]:
    """The marks of the named classes that a container or union is made of."""
    for one in union_members(python_type):
        mark = mark_of(one)
        if mark is not None:
            yield mark
        for argument in get_args(one):
            yield from marks_within(argument)
