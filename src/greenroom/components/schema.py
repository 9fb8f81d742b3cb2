"""JSON Schema 2020-12 of arguments and replies, in the form that clients and models can use.

What clients trip over decides the form: no `$ref` but for recursive types, no `$schema`, an
optional value is its type and not required, no titles made up from names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from types import NoneType
from typing import Any, get_origin

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from greenroom.components._hints import union_members
from greenroom.components._tidy import Schema, tidy
from greenroom.components.handlers import HandlerDefinition


def input_schema(handler: HandlerDefinition, *, id_parameter: str | None, id_text: str) -> Schema:
    """The schema of a tool's arguments; the instance id first, where it is one."""
    schema = tidy(handler.arguments.json_schema(mode="validation"), handler.target, output=False)
    properties: Schema = schema.get("properties", {})
    for parameter in handler.parameters:
        if not parameter.required and parameter.default is not None:
            properties[parameter.name]["default"] = _jsonable(parameter.default, parameter.type)
    required = list(schema.get("required", ()))
    if id_parameter is not None:
        own = {"type": "string", "minLength": 1, "maxLength": 255, "description": id_text}
        properties = {id_parameter: own, **properties}
        required = [id_parameter, *required]
    made: Schema = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    made["additionalProperties"] = False
    if "$defs" in schema:
        made["$defs"] = schema["$defs"]
    return made


def output_schema(handler: HandlerDefinition) -> Schema | None:
    """The schema of a tool's structured result; None when it answers with text."""
    shape = shape_of(handler.reply_type)
    if shape == "text":
        return None
    if shape == "mapping":
        return {"type": "object"}
    made = tidy(
        handler.reply_adapter.json_schema(mode="serialization"), handler.target, output=True
    )
    definitions = made.pop("$defs", None)
    if shape == "list":
        made = {"type": "object", "properties": {"result": made}, "required": ["result"]}
    elif "type" not in made:
        # A union of objects; clients look for the word at the root.
        made = {"type": "object", **made}
    return made if definitions is None else {**made, "$defs": definitions}


def shape_of(reply_type: Any) -> str:
    """How a reply is shown: `object`, `list`, `mapping` or `text`."""
    members = [one for one in union_members(reply_type) if one is not NoneType]
    if not members:
        return "text"
    shapes = {_shape_of_one(one) for one in members}
    return shapes.pop() if len(shapes) == 1 else "text"


def _shape_of_one(python_type: Any) -> str:
    origin = get_origin(python_type) or python_type
    if not isinstance(origin, type):
        return "text"
    if issubclass(origin, Mapping):
        return "mapping" if not _has_properties(python_type) else "object"
    if issubclass(origin, str | bytes):
        return "text"
    if issubclass(origin, Sequence | Set) or origin in (Collection, Iterable):
        return "list"
    return "object" if _has_properties(python_type) else "text"


def _has_properties(python_type: Any) -> bool:
    schema = TypeAdapter(python_type).json_schema(mode="serialization")
    while "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        schema = schema.get("$defs", {}).get(name, {})
    return "properties" in schema


def _jsonable(default: Any, python_type: Any) -> Any:
    try:
        return TypeAdapter(python_type).dump_python(default, mode="json", warnings="none")
    except Exception:
        return to_jsonable_python(default, fallback=str)
