"""The methods of a component class, as its rules look at them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from types import FunctionType
from typing import Any, NamedTuple


class Method(NamedTuple):
    """One method, of the class itself or inherited."""

    name: str
    function: FunctionType
    owner: type[Any]
    """The class whose body it stands in."""
    ordinary: bool
    """False for a static or class method."""


def methods_of(cls: type[Any], *, ours: Collection[type[Any]]) -> Iterator[Method]:
    """The methods that an application wrote, in the order of their names.

    Args:
        cls: The class.
        ours: Classes of greenroom whose own methods are left out.
    """
    for name in sorted(dir(cls)):
        if name.startswith("__"):
            continue
        found = inspect.getattr_static(cls, name)
        function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
        owner = next((one for one in cls.__mro__ if vars(one).get(name) is found), None)
        if isinstance(function, FunctionType) and owner is not None and owner not in ours:
            yield Method(name, function, owner, function is found)


def breach_at(breach: Callable[[str], None], name: str, problem: str) -> None:
    """Tell what is wrong with a method, after the name of the class."""
    breach(f".{name}{problem}")
