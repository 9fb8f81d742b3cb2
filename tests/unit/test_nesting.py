"""How deep a value is nested."""

from typing import Any

import pytest

from greenroom.nesting import MAX_DEPTH, is_too_deep


def nested(depth: int, *, as_object: bool) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": 1, "b": value} if as_object else [1, value]
    return value


@pytest.mark.parametrize("as_object", [True, False])
def test_each_object_and_array_is_a_level(as_object: bool) -> None:
    assert not is_too_deep(nested(0, as_object=as_object))
    assert not is_too_deep(nested(MAX_DEPTH, as_object=as_object))
    assert is_too_deep(nested(MAX_DEPTH + 1, as_object=as_object))
    assert is_too_deep(nested(100_000, as_object=as_object))
