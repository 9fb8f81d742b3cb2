"""Finds protobuf messages in types, without importing protobuf."""

from __future__ import annotations

import typing
from typing import Any, get_args


def mentions_protobuf(python_type: Any, _seen: frozenset[int] = frozenset()) -> bool:
    """Whether a type is a protobuf message, or has one anywhere inside."""
    if id(python_type) in _seen:
        return False
    seen = _seen | {id(python_type)}
    if any(mentions_protobuf(one, seen) for one in get_args(python_type)):
        return True
    if not isinstance(python_type, type) or python_type.__module__ == "builtins":
        return False
    if any(
        base.__name__ == "Message" and base.__module__ == "google.protobuf.message"
        for base in python_type.__mro__
    ):
        return True
    try:
        fields = typing.get_type_hints(python_type)
    except Exception:  # names that only its own module knows; pydantic says what it thinks
        return False
    return any(mentions_protobuf(one, seen) for one in fields.values())
