"""JSON Schema 2020-12 of arguments and replies, in the form that clients and models can use.

What clients trip over decides the form: no `$ref` but for recursive types, no `$schema`, an
optional value is its type and not required, no titles made up from names.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, get_origin

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from greenroom.components._hints import union_members
from greenroom.components.handlers import HandlerDefinition

_log = logging.getLogger("greenroom.components")

Schema = dict[str, Any]


def input_schema(handler: HandlerDefinition, *, id_parameter: str | None, id_text: str) -> Schema:
    """The schema of a tool's arguments; the instance id first, where it is one."""
    schema = tidy(handler.arguments.json_schema(mode="validation"), handler.target)
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
    schema = tidy(handler.reply_adapter.json_schema(mode="serialization"), handler.target)
    optional = {
        name
        for name, one in (schema.get("properties") or {}).items()
        if _is_nullable(handler.reply_type, name)
    }
    if shape == "list":
        definitions = schema.pop("$defs", None)
        made: Schema = {
            "type": "object",
            "properties": {"result": schema},
            "required": ["result"],
        }
        if definitions is not None:
            made["$defs"] = definitions
        return made
    if "required" in schema:
        # Fields that are null are left out of the result.
        schema["required"] = [name for name in schema["required"] if name not in optional]
    return schema


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
    if issubclass(origin, list | set | frozenset | Sequence):
        return "list"
    return "object" if _has_properties(python_type) else "text"


def _has_properties(python_type: Any) -> bool:
    schema = TypeAdapter(python_type).json_schema(mode="serialization")
    while "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        schema = schema.get("$defs", {}).get(name, {})
    return "properties" in schema


def _is_nullable(reply_type: Any, name: str) -> bool:
    fields = getattr(reply_type, "model_fields", None)
    if fields is None or name not in fields:
        return False
    return NoneType in union_members(fields[name].annotation)


def _jsonable(default: Any, python_type: Any) -> Any:
    try:
        return TypeAdapter(python_type).dump_python(default, mode="json")
    except Exception:
        return to_jsonable_python(default, fallback=str)


def tidy(schema: Mapping[str, Any], target: str) -> Schema:
    """A schema with definitions inlined and what confuses clients taken out."""
    definitions = schema.get("$defs", {})
    recursive = _recursive(definitions)
    if recursive:
        _log.warning(
            "%s: the schema keeps $defs for %s, which refer to themselves; some clients can't "
            "read that",
            target,
            ", ".join(sorted(recursive)),
        )
    made: Schema = _tidy(
        {key: value for key, value in schema.items() if key != "$defs"}, definitions, recursive
    )
    if recursive:
        made["$defs"] = {
            name: _tidy(definitions[name], definitions, recursive) for name in sorted(recursive)
        }
    return made


def _tidy(node: Any, definitions: Mapping[str, Any], recursive: set[str]) -> Any:
    if isinstance(node, list):
        return [_tidy(one, definitions, recursive) for one in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if reference is not None:
        name = reference.rsplit("/", 1)[1]
        if name not in recursive:
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return _tidy({**definitions[name], **beside}, definitions, recursive)
    made = {
        key: _properties(value, definitions, recursive)
        if key in ("properties", "$defs", "patternProperties")
        else value
        if key in ("const", "enum", "default", "examples")
        else _tidy(value, definitions, recursive)
        for key, value in node.items()
        # A title is kept only where it is a word of the user's own, which pydantic's are not.
        if not (key == "title" and isinstance(value, str))
    }
    return _without_null(made)


def _properties(node: Any, definitions: Mapping[str, Any], recursive: set[str]) -> Any:
    return {name: _tidy(one, definitions, recursive) for name, one in node.items()}


def _without_null(node: Schema) -> Schema:
    """`T | None` is shown as `T`; that it may be left out is said by `required`."""
    choices = node.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        others = [one for one in choices if one != {"type": "null"}]
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        if rest.get("default", ...) is None:
            del rest["default"]
        if len(others) == 1:
            return {**others[0], **rest}
        return {"anyOf": others, **rest}
    return node


def _recursive(definitions: Mapping[str, Any]) -> set[str]:
    """Definitions that refer to themselves, directly or through others."""
    direct = {name: _references(one) for name, one in definitions.items()}

    def reaches(start: str) -> bool:
        seen: set[str] = set()
        waiting = set(direct[start])
        while waiting:
            name = waiting.pop()
            if name == start:
                return True
            if name not in seen:
                seen.add(name)
                waiting |= direct.get(name, set())
        return False

    return {name for name in definitions if reaches(name)}


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*(_references(one) for one in node)) if node else set()
    if not isinstance(node, dict):
        return set()
    found = {node["$ref"].rsplit("/", 1)[1]} if isinstance(node.get("$ref"), str) else set()
    return found.union(*(_references(one) for one in node.values()))
