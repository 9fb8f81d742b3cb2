"""How deep values from outside may be nested, at every place where text becomes a value."""

from __future__ import annotations

from typing import Any, Final

MAX_DEPTH: Final = 64
"""Objects and arrays within each other; what walks a value recursively stays far from its limit."""


def is_too_deep(value: Any) -> bool:
    """Whether a value of JSON is nested deeper than `MAX_DEPTH`.

    Example:
        >>> is_too_deep({"a": [{"b": 1}]})
        False
    """
    level = _containers([value])
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [child for parent in level for child in _children(parent)]
    return bool(level)


def _children(value: Any) -> list[Any]:
    return _containers(value.values() if type(value) is dict else value)


def _containers(values: Any) -> list[Any]:
    return [one for one in values if type(one) in (dict, list)]
