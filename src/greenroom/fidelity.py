"""Whether a value comes back from JSON as what it was, told as cheaply as its type allows.

Whoever stores a value, or answers with one, must not find another one later: a mapping whose
keys became text, a secret that became stars, a NaN that became null. Most types can't do that,
which their schema shows once; only values of the others are read again and compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum, Flag, IntEnum
from typing import Any, Final

from pydantic import BaseModel


class Care(IntEnum):
    """How closely the JSON of a value must be looked at before it may be relied on."""

    NONE = 0
    """It reads back as it was."""
    READ = 1
    """It may break a rule of its own type, and then can't be read; else it is as it was."""
    COMPARE = 2
    """It may be read as another value."""


class Fidelity:
    """What one type does to its values on their way through JSON.

    Args:
        schema: Pydantic's core schema of the type.
        class_is_known: Whether values are always of the very class, and no subclass of it.

    Example:
        >>> from pydantic import TypeAdapter
        >>> Fidelity(TypeAdapter(list[int]).core_schema).care_for(b"[1]")
        <Care.NONE: 0>
        >>> Fidelity(TypeAdapter(dict).core_schema).care_for(b'{"1":2}')
        <Care.COMPARE: 2>
    """

    __slots__ = ("_has_floats", "care", "parts")

    def __init__(self, schema: Mapping[str, Any], *, class_is_known: bool = False) -> None:
        look = _Look(schema)
        self.care: Care = look.care
        """What every value of the type needs."""
        self.parts: tuple[type[Any], ...] = tuple(look.parts)
        """Classes in it; an object of a subclass, in its place, would lose what that adds."""
        if class_is_known and schema["type"] in ("model", "dataclass"):
            self.parts = tuple(one for one in look.parts if one is not schema["cls"])
        self._has_floats = look.has_floats

    def may_change(self) -> bool:
        """Whether a value may come back as another one, whatever its JSON looks like."""
        if self.care is Care.COMPARE:
            return True
        for part in self.parts:  # noqa: SIM110 - any() would take three times as long
            if part.__subclasses__():
                return True
        return False

    def care_for(self, payload: bytes) -> Care:
        """What a value needs that was written as this JSON."""
        care = self.care
        if self.may_change():
            return Care.COMPARE
        if b"null" in payload:
            # NaN and infinity are written as null, which an optional number can be.
            return Care.COMPARE if self._has_floats else Care.READ
        if care is Care.NONE and _has_huge_number(payload):
            return Care.READ
        return care


MAX_DIGITS: Final = 4300
"""Digits of an integer that can be read; Python and pydantic refuse longer ones."""
_STEP: Final = MAX_DIGITS // 2


def _has_huge_number(payload: bytes) -> bool:
    """Whether there may be a number so long that it can't be read."""
    # So long a row of digits covers one of these places whole.
    return len(payload) > MAX_DIGITS and any(
        payload[place : place + 64].isdigit() for place in range(0, len(payload), _STEP)
    )


# -- what a type may do ----------------------------------------------------------------------

_FAITHFUL: Final = frozenset((
    "bool", "bytes", "dataclass", "dataclass-args", "dataclass-field", "date", "datetime",
    "default", "definition-ref", "definitions", "dict", "enum", "float", "frozenset", "int",
    "list", "model", "model-field", "model-fields", "named-tuple", "named-tuple-field", "none",
    "nullable", "set", "str", "tagged-union", "time", "timedelta", "tuple", "union", "uuid",
))  # fmt: skip
"""Kinds of schemas that read what was written with them, as it was, unless a key says otherwise."""
_STRICT: Final = frozenset(("decimal", "literal"))
"""Kinds that read a value as it was or not at all."""
_BOUNDS: Final = frozenset((
    "ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "now_op", "pattern",
    "str_max_length", "str_min_length", "tz_constraint", "version",
))  # fmt: skip
"""Keys by which reading refuses some values."""
_CHANGES: Final = frozenset((
    "custom_init", "init_only", "post_init", "serialization", "serialization_exclude",
    "serialization_exclude_if", "ser_json_bytes", "ser_json_inf_nan", "ser_json_temporal",
    "ser_json_timedelta", "str_strip_whitespace", "str_to_lower", "str_to_upper",
    "strip_whitespace", "to_lower", "to_upper", "val_json_bytes", "val_temporal_unit",
))  # fmt: skip
"""Keys by which a value may be written or read as another one."""
_OTHER: Final = frozenset(("computed_fields", "default", "expected", "members", "metadata"))
"""Keys whose values are no schemas."""
_NAMED: Final = frozenset(("choices", "fields"))
"""Keys whose values are schemas under names of the application."""
_ITEMS: Final = {
    "dict": ("keys_schema", "values_schema"),
    "frozenset": ("items_schema",),
    "list": ("items_schema",),
    "set": ("items_schema",),
    "tuple": ("items_schema",),
}
"""What a container must say of its items; without it they may be anything."""
_KEYS: Final = frozenset((
    "bool", "bytes", "date", "datetime", "float", "int", "str", "time", "timedelta", "uuid",
))  # fmt: skip
"""Kinds of keys that are read as they were from the text that every key of JSON is."""
_JSON_KINDS: Final = {
    **dict.fromkeys(("bytes", "date", "datetime", "str", "time", "timedelta", "uuid"), "text"),
    **dict.fromkeys(("frozenset", "list", "named-tuple", "set", "tuple"), "array"),
    **dict.fromkeys(("dataclass", "dict", "model"), "object"),
    **{kind: kind for kind in ("bool", "float", "int", "none")},
}
"""What values are in JSON; members of a union that differ here are told from each other."""


class _Look:
    """One walk through a schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.care = Care.NONE
        self.has_floats = False
        self.parts: dict[type[Any], None] = {}
        self._see(schema)

    def _see(self, node: Any) -> None:
        if isinstance(node, list | tuple):
            for one in node:
                self._see(one)
            return
        if not isinstance(node, Mapping):
            return
        kind = node.get("type")
        if kind is not None:
            self._raise(_care_of_kind(kind, node))
            self.has_floats |= kind == "float"
            if kind in ("model", "dataclass"):
                self.parts[node["cls"]] = None
        if any(_is_set(node, key) for key in _CHANGES):
            self._raise(Care.COMPARE)
        elif any(_is_set(node, key) for key in _BOUNDS):
            self._raise(Care.READ)
        if "allow" in (node.get("extra_behavior"), node.get("extra_fields_behavior")):
            self._raise(Care.COMPARE)
        for key, one in node.items():
            if key in _NAMED and isinstance(one, Mapping):
                self._see(list(one.values()))
            elif key not in _OTHER:
                self._see(one)

    def _raise(self, care: Care) -> None:
        self.care = max(self.care, care)


def _is_set(node: Mapping[str, Any], key: str) -> bool:
    return node.get(key) is not None and node[key] is not False


def _care_of_kind(kind: str, node: Mapping[str, Any]) -> Care:
    if kind in _STRICT:
        plain = all(
            type(one) in (str, int, bool) or one is None for one in node.get("expected", ())
        )
        return Care.READ if plain else Care.COMPARE
    if kind not in _FAITHFUL or _may_change(kind, node):
        return Care.COMPARE
    return Care.NONE


def _may_change(kind: str, node: Mapping[str, Any]) -> bool:
    """Whether a kind that is faithful as a rule is not, as it is used here."""
    if kind == "union":
        return node.get("mode", "smart") != "smart" or not _told_apart(node["choices"])
    if kind == "enum":
        members = node["members"]
        return any(isinstance(one, Flag) or type(one.value) not in (str, int) for one in members)
    if kind == "dict" and not _are_good_keys(node.get("keys_schema", {})):
        return True
    if kind in ("model-fields", "dataclass-args"):
        return _aliases_clash(node["fields"])
    return (
        # Declared without its items, they are anything.
        any(key not in node for key in _ITEMS.get(kind, ()))
        or (kind == "tagged-union" and not isinstance(node["discriminator"], str))
        or (kind == "default" and node.get("on_error", "raise") != "raise")
        or (kind == "dataclass-field" and node.get("init") is False)
    )


def _told_apart(choices: Any) -> bool:
    schemas = [one[0] if isinstance(one, tuple) else one for one in choices]
    kinds = [None if one.get("root_model") else _JSON_KINDS.get(one["type"]) for one in schemas]
    return None not in kinds and len(set(kinds)) == len(kinds)


def _are_good_keys(schema: Mapping[str, Any]) -> bool:
    if schema.get("type") == "enum":
        return all(type(one.value) is str for one in schema["members"])
    return schema.get("type") in _KEYS


def _aliases_clash(fields: Any) -> bool:
    """Whether a field is also read under a name that another one is written under."""
    named = (
        fields.items() if isinstance(fields, Mapping) else ((one["name"], one) for one in fields)
    )
    names = [
        (
            {name, *_texts(one.get("validation_alias"))},
            {name, *_texts(one.get("serialization_alias"))},
        )
        for name, one in named
    ]
    return any(
        read & written
        for place, (read, _) in enumerate(names)
        for other, (_, written) in enumerate(names)
        if place != other
    )


def _texts(alias: Any) -> Iterator[str]:
    if isinstance(alias, str):
        yield alias
    elif isinstance(alias, list):
        for one in alias:
            yield from _texts(one)


def starred(schema: Any) -> list[str]:
    """Where a type has secrets that JSON shows as stars: names of fields, "" for the type itself.

    A field whose serializer gives the secret away is none of them.

    Example:
        >>> from pydantic import SecretStr, TypeAdapter
        >>> starred(TypeAdapter(SecretStr).core_schema)
        ['']
    """
    return list(dict.fromkeys(_starred(schema, "")))


def _starred(node: Any, place: str) -> Iterator[str]:
    if isinstance(node, list | tuple):
        for one in node:
            yield from _starred(one, place)
        return
    if not isinstance(node, Mapping):
        return
    if node.get("type") == "dataclass-field":
        place = node["name"]
    serialization = node.get("serialization")
    if serialization is not None and serialization.get("type") != "function-wrap":
        function = serialization.get("function")
        if getattr(function, "__module__", "") == "pydantic.types" and "secret" in str(function):
            yield place
        return
    for key, one in node.items():
        if key == "fields" and isinstance(one, Mapping):
            for name, field in one.items():
                yield from _starred(field, name)
        elif key == "choices" and isinstance(one, Mapping):
            yield from _starred(list(one.values()), place)
        elif key not in _OTHER:
            yield from _starred(one, place)


# -- what became of a value ------------------------------------------------------------------

_ABSENT: Final = object()
_SCALARS: Final = frozenset((bool, bytes, float, int, str, type(None)))
_ALIKE: Final = ((int, float), str, bytes, Mapping)


def difference(value: Any, again: Any) -> str | None:
    """Where a value that was read again is another one; None when it is as it was.

    The parts themselves are not shown: they may be nobody's business.

    Example:
        >>> difference({"sizes": (1, 2)}, {"sizes": [1, 2]})
        'sizes: tuple would come back as list'
    """
    found = _difference(value, again, ())
    if found is None:
        return None
    place, before, after = found
    kind, new = type(before).__qualname__, type(after).__qualname__
    if after is _ABSENT:
        said = "would not come back"
    elif before is _ABSENT:
        said = "would come back without having been there"
    elif kind != new:
        said = f"{kind} would come back as {new}"
    else:
        said = f"would come back as another {kind}"
    return f"{'.'.join(place) or 'the value'}: {said}"


_Found = tuple[tuple[str, ...], Any, Any]


def _difference(value: Any, again: Any, place: tuple[str, ...]) -> _Found | None:
    kind = type(value)
    if kind is not type(again):
        if not _are_alike(value, again):
            return place, value, again
    elif kind in _SCALARS:
        # Nearly every part there is, so it is asked first.
        return None if _are_equal(value, again) else (place, value, again)
    if value is again:
        return None
    parts = _parts(value)
    if parts is not None:
        return _first_difference(parts, _parts(again) or {}, place)
    if _are_equal(value, again) or _has_no_equality(kind):
        return None
    return place, value, again


def _are_alike(value: Any, again: Any) -> bool:
    """Whether the types don't matter: a number is a number, a text a text, a mapping a mapping."""
    if isinstance(value, Enum) or isinstance(again, Enum):
        return False
    return any(isinstance(value, kind) and isinstance(again, kind) for kind in _ALIKE)


def _are_equal(value: Any, again: Any) -> bool:
    # Only NaN is not itself.
    return bool(value == again or (value != value and again != again))  # noqa: PLR0124


def _has_no_equality(kind: type[Any]) -> bool:
    """Whether two objects of a class are never equal, whatever is in them."""
    return getattr(kind, "__eq__", None) is object.__eq__


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """What a value is made of; None when it is to be compared as it is."""
    if isinstance(value, BaseModel):
        # Not private attributes, which are never written, nor what was cached.
        values, extra = value.__dict__, value.__pydantic_extra__
        parts = {name: values[name] for name in type(value).model_fields if name in values}
        return parts | extra if extra else parts
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if isinstance(value, dict | Mapping):
        return value
    if dataclasses.is_dataclass(value):
        return {
            one.name: getattr(value, one.name, _ABSENT)
            for one in dataclasses.fields(value)
            if one.compare
        }
    return vars(value) if _has_no_equality(type(value)) and hasattr(value, "__dict__") else None


def _first_difference(
    value: Mapping[Any, Any], again: Mapping[Any, Any], place: tuple[str, ...]
) -> _Found | None:
    for key, one in value.items():
        if key != key:  # noqa: PLR0124 - only NaN is not itself, and no mapping finds it again
            continue
        other = again.get(key, _ABSENT)
        there = (*place, f"{key!s:.40}")
        if other is _ABSENT:
            if isinstance(key, str):
                return there, one, _ABSENT
            return (*there, "[key]"), key, str(key)
        found = _difference(one, other, there)
        if found is not None:
            return found
    if len(value) != len(again):
        new = next((key for key in again if key not in value), "")
        return (*place, str(new)), _ABSENT, again.get(new)
    return None
