"""Pydantic's JSON Schema, brought into the form that clients and models can use."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

_log = logging.getLogger("greenroom.components")

Schema = dict[str, Any]

_NULL: Final[Schema] = {"type": "null"}
_AS_IT_IS: Final = ("const", "enum", "default", "examples")
_NAMED: Final = ("properties", "patternProperties")


def tidy(schema: Mapping[str, Any], target: str, *, output: bool) -> Schema:
    """A schema with definitions inlined and what confuses clients taken out.

    An optional value is shown as its type. Of a result, null fields are left out, so a field
    that may be null is not required; of arguments, only one that may be left out is shown so.

    Args:
        schema: As pydantic makes it, with its `$defs`.
        target: Whose schema it is, for the log.
        output: Whether it describes a result.
    """
    return _Tidier(schema.get("$defs", {}), output=output).whole(schema, target)


class _Tidier:
    def __init__(self, definitions: Mapping[str, Any], *, output: bool) -> None:
        self._definitions = definitions
        self._recursive = _recursive(definitions)
        self._output = output

    def whole(self, schema: Mapping[str, Any], target: str) -> Schema:
        root = {key: value for key, value in schema.items() if key != "$defs"}
        if "$ref" in root:
            # Clients want to see an object at the root, even of a type that refers to itself.
            root = dict(self._definitions[_name_in(root["$ref"])])
        made: Schema = self._node(root)
        if self._output:
            made = _without_null(made)
        if self._recursive:
            names = sorted(self._recursive)
            _log.warning(
                "%s: the schema keeps $defs for %s, which refer to themselves; some clients "
                "can't read that",
                target,
                ", ".join(names),
            )
            made["$defs"] = {name: self._node(self._definitions[name]) for name in names}
        return made

    def _node(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._node(one) for one in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node and (name := _name_in(node["$ref"])) not in self._recursive:
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return self._node({**self._definitions[name], **beside})
        made = {key: self._member(key, value) for key, value in node.items() if _is_kept(key, node)}
        if made.get("propertyNames", {}).get("type", "string") != "string":
            # Names are text in JSON, whatever pydantic makes of them.
            del made["propertyNames"]
        if "properties" in made:
            self._show_optional(made)
        return made

    def _member(self, key: str, value: Any) -> Any:
        if key in _AS_IT_IS:
            return value
        if key in _NAMED:
            return {name: self._node(one) for name, one in value.items()}
        return self._node(value)

    def _show_optional(self, node: Schema) -> None:
        required = [
            name
            for name in node.pop("required", ())
            if not (self._output and allows_null(node["properties"][name]))
        ]
        node["properties"] = {
            name: one if name in required else _without_null(one)
            for name, one in node["properties"].items()
        }
        if required:
            node["required"] = required


def allows_null(schema: Mapping[str, Any]) -> bool:
    """Whether null is a value that a schema describes."""
    if "anyOf" in schema or "oneOf" in schema:
        return any(allows_null(one) for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())))
    if "enum" in schema:
        return None in schema["enum"]
    if "const" in schema:
        return schema["const"] is None
    return "$ref" not in schema and schema.get("type", "null") == "null"


def _without_null(node: Schema) -> Schema:
    """`T | None` shown as `T`; that it may be left out is said by `required`."""
    rest = {key: one for key, one in node.items() if not (key == "default" and one is None)}
    if None in rest.get("enum", ()):
        rest["enum"] = [one for one in rest["enum"] if one is not None]
    choices = rest.get("anyOf", ())
    if _NULL not in choices:
        return rest
    others = [one for one in choices if one != _NULL]
    del rest["anyOf"]
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}


def _is_kept(key: str, node: Mapping[str, Any]) -> bool:
    if key == "title":
        # Pydantic makes titles of names, which say nothing new; a property may be called so.
        return not isinstance(node[key], str)
    # What `oneOf` says already; its mapping would point at definitions that are gone.
    return key != "discriminator"


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
    found = {_name_in(node["$ref"])} if isinstance(node.get("$ref"), str) else set()
    return found.union(*(_references(one) for one in node.values()))


def _name_in(reference: str) -> str:
    return reference.rsplit("/", 1)[1]
