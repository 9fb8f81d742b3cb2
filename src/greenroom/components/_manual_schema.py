"""A tool's input schema that was written by hand: read, checked, and arguments checked by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

Check = Callable[[Mapping[str, Any]], list[str]]


def read_schema(given: Mapping[str, Any] | str) -> tuple[dict[str, Any], Check]:
    """The schema as it was given, and what checks arguments against it.

    Raises:
        ValueError: It is no JSON Schema of an object.
    """
    # Only who writes schemas by hand waits for it.
    from jsonschema import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    try:
        schema = orjson.loads(given if isinstance(given, str) else orjson.dumps(given))
    except (orjson.JSONDecodeError, TypeError) as error:
        message = f"is no JSON: {error}"
        raise ValueError(message) from error
    if not isinstance(schema, dict) or schema.get("type") != "object":
        message = 'must describe an object: {"type": "object", "properties": …}'
        raise ValueError(message)
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        message = f"is no JSON Schema: {error.message}"
        raise ValueError(message) from error
    validator = kind(schema)

    def check(arguments: Mapping[str, Any]) -> list[str]:
        # Best matches first would cost a second walk; by place is as good to read.
        found = sorted(validator.iter_errors(dict(arguments)), key=lambda one: list(one.path))
        return [
            f"{'.'.join(map(str, one.absolute_path)) or 'arguments'}: {one.message}"
            for one in found
        ]

    return schema, check


def differences(schema: Mapping[str, Any], required: set[str], known: set[str]) -> list[str]:
    """Where a schema and the parameters it should describe don't fit.

    Args:
        schema: As it was given.
        required: Parameters without a default.
        known: All parameters.
    """
    described = set(schema.get("properties", {}))
    problems = [f"describes {name!r}, which is no parameter" for name in sorted(described - known)]
    problems += [
        f"leaves out {name!r}, a parameter without a default"
        for name in sorted(required - described)
    ]
    return problems
