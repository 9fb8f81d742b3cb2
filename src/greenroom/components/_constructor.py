"""Reads what a constructor asks for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from greenroom.components._hints import hints_of


def read_constructor(
    cls: type[Any],
    names: Mapping[str, Any],
    breach: Callable[[str], None],
    refusal: Callable[[Any], str | None],
) -> dict[str, Any]:
    """The parameters of `__init__` by name, with their types.

    Args:
        cls: Whose constructor it is.
        names: Local names that its annotations may mention.
        breach: Takes what is wrong, told after the name of the class.
        refusal: Why a class of this kind is never given an object of a type, as " asks for…".
    """
    constructor = cls.__init__
    if constructor is object.__init__:
        return {}
    try:
        hints = hints_of(constructor, cls, names)
    except Exception as error:
        reason = getattr(error, "name", None) or error
        breach(f".__init__: the annotations mention {reason!r}, which is unknown")
        return {}
    wanted: dict[str, Any] = {}
    for one in list(inspect.signature(constructor).parameters.values())[1:]:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        kind = hints.get(one.name)
        problem = _wrong_with(one, kind) or refusal(kind)
        if problem is None:
            wanted[one.name] = kind
        else:
            breach(f".__init__{problem}")
    return wanted


def _wrong_with(one: inspect.Parameter, kind: Any) -> str | None:
    if kind is None:
        return f": {one.name} has no type, so nobody knows what to give it"
    if one.kind is one.POSITIONAL_ONLY:
        return f": {one.name} can't be given by name; drop the /"
    return None
