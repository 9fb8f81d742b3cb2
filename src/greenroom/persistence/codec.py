"""Values of the application ⇄ JSON under permanent type names, with versions and upcasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from greenroom.errors import UnreadableRecordError
from greenroom.persistence.records import Encoded

Migration = Callable[[Any], Any]
"""Turns the raw JSON of one version into that of the next."""


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type that may be stored: its permanent name, its version, and how old ones are read."""

    name: str
    version: int
    python_type: Any
    migrations: Mapping[int, Migration] = field(default_factory=dict)
    """From version n to n + 1, for every n below `version`."""


class _Entry:
    __slots__ = ("_validate_json", "adapter", "may_change", "may_refuse", "stored", "to_json")

    def __init__(self, stored: StoredType) -> None:
        self.stored = stored
        self.adapter: TypeAdapter[Any] = TypeAdapter(stored.python_type)
        self.may_refuse = _may_refuse(self.adapter.core_schema)
        self.may_change = _may_change(self.adapter.core_schema)
        self.to_json = self.adapter.serializer.to_json
        self._validate_json = self.adapter.validator.validate_json

    def read(self, payload: bytes) -> Any:
        """The value of stored JSON, under field names or aliases."""
        return self._validate_json(payload, by_alias=True, by_name=True)

    def check(self, value: Any, payload: bytes) -> None:
        """Raises `ValueError` for what can be written but not be read again, as it was."""
        try:
            again = self.read(payload)
        except Exception as error:
            raise ValueError(
                f"{type(value).__qualname__} can't be stored, since it could not be read again: "
                f"{_problem(error)} (model_copy and model_construct check nothing; JSON has no "
                "NaN or infinite numbers)"
            ) from error
        if self.may_change and again != value and _is_comparable(value):
            raise ValueError(
                f"{type(value).__qualname__} can't be stored, since it would be read as something "
                f"else: {_difference(value, again)}. Objects of subclasses lose what they add, JSON "
                "knows no tuples, no keys but text and no NaN where the type says nothing, and a "
                "secret shows only its mask; say in the types what is stored"
            )


class Codec:
    """Encodes and decodes everything that one component stores.

    Example:
        >>> codec = Codec([StoredType("int", 1, int)])
        >>> codec.encode(3)
        Encoded(type_name='int', version=1, payload=b'3')
    """

    def __init__(self, types: Iterable[StoredType]) -> None:
        self._by_name = {stored.name: _Entry(stored) for stored in types}
        self._by_class = {
            entry.stored.python_type: entry
            for entry in self._by_name.values()
            if isinstance(entry.stored.python_type, type)
        }

    def encode(self, value: Any, *, name: str | None = None) -> Encoded:
        """The stored form of a value, under the name of its class or under the given one.

        Raises:
            TypeError: The value's class has no name here.
            ValueError: It could not be read again, or would be something else: it breaks a rule
                of its own type, or has parts that JSON has no form for.
            pydantic_core.PydanticSerializationError: A part of it does not fit its declared type.
        """
        entry = self._by_class.get(type(value)) if name is None else self._by_name.get(name)
        if entry is None:
            known = ", ".join(sorted(self._by_name))
            message = (
                f"{type(value).__qualname__} can't be stored here; this component stores: {known}. "
                "Give the class a @type_name and name it in the component's type parameters."
            )
            raise TypeError(message)
        if name is not None:
            _refuse_subclass(value, entry.stored.python_type)
        stored = entry.stored
        # By field names, whatever aliases there are for the outside; computed fields left out.
        payload = entry.to_json(value, by_alias=False, round_trip=True, warnings="error")
        if entry.may_refuse or entry.may_change or b"null" in payload:
            # What could not be read again must not be written: the instance would be lost; nor
            # what would be something else then. JSON has no NaN and no infinity; pydantic writes
            # null, which is no float.
            entry.check(value, payload)
        return Encoded(stored.name, stored.version, payload)

    def decode(self, encoded: Encoded) -> Any:
        """The value of a stored form, upcast from older versions.

        Raises:
            UnreadableRecordError: Unknown name, a version newer than the code, or another shape.
        """
        entry = self._by_name.get(encoded.type_name)
        if entry is None:
            known = ", ".join(sorted(self._by_name))
            raise UnreadableRecordError(
                f"type {encoded.type_name!r} (version {encoded.version}) is not known to the code, "
                f"which knows: {known}. Keep the class that has this @type_name."
            )
        try:
            if encoded.version == entry.stored.version:
                return entry.read(encoded.payload)
            return entry.read(_upcast(entry.stored, encoded))
        except UnreadableRecordError:
            raise
        except Exception as error:
            # Validators of the application may raise anything.
            raise UnreadableRecordError(
                f"type {encoded.type_name!r} version {encoded.version} does not have the shape "
                f"that the code expects of version {entry.stored.version}: {_problem(error)}. "
                "Add a new version and a @migrates function, or make the new field optional."
            ) from error


_NEVER_REFUSED = frozenset((
    "any", "bool", "bytes", "dataclass", "dataclass-args", "dataclass-field", "date", "datetime",
    "default", "definition-ref", "definitions", "dict", "enum", "float", "frozenset", "int",
    "list", "model", "model-field", "model-fields", "named-tuple", "named-tuple-field", "none",
    "nullable", "set", "str", "tagged-union", "time", "timedelta", "tuple", "typed-dict",
    "typed-dict-field", "union", "uuid",
))  # fmt: skip
"""Kinds of pydantic's schemas that read whatever was written with them, unless they have bounds."""
_BOUNDS = frozenset((
    "custom_init", "ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "now_op",
    "pattern", "post_init", "serialization_exclude", "str_max_length", "str_min_length",
    "str_strip_whitespace", "tz_constraint",
))  # fmt: skip
_OTHER = frozenset(("choices", "computed_fields", "default", "expected", "fields", "metadata"))
"""Keys whose values are no schemas, or schemas under names of the application."""


def _may_refuse(schema: Any) -> bool:
    """Whether a value can be written that reading refuses: bounds, validators, decimals."""
    if isinstance(schema, list | tuple):
        return any(map(_may_refuse, schema))
    if not isinstance(schema, Mapping):
        return False
    kind = schema.get("type")
    if kind not in _NEVER_REFUSED and kind is not None:
        return True
    if any(schema.get(bound) is not None and schema[bound] is not False for bound in _BOUNDS):
        return True
    return any(_may_refuse(one) for key, one in schema.items() if key not in _OTHER) or any(
        _may_refuse(list(one.values()) if isinstance(one, Mapping) else one)
        for key in ("choices", "fields")
        if (one := schema.get(key)) is not None
    )


_EXACT = frozenset((
    "bool", "bytes", "dataclass-args", "dataclass-field", "date", "datetime", "decimal", "default",
    "definitions", "dict", "enum", "float", "frozenset", "int", "list", "literal", "model-field",
    "model-fields", "named-tuple", "named-tuple-field", "none", "nullable", "set", "str", "time",
    "timedelta", "tuple", "typed-dict", "typed-dict-field", "uuid",
))  # fmt: skip
"""Kinds of schemas whose values read back as what they were."""
_CLASSES = frozenset(("model", "dataclass"))
"""Exact outside, where a subclass is refused; inside, a value may be of a subclass, and lose what
that adds."""
_WRAPPERS = frozenset(("default", "definitions", "nullable", None))
_SUBSCHEMAS = frozenset((
    "fields", "items_schema", "keys_schema", "schema", "values_schema", "extras_schema",
    "arguments_schema", "definitions",
))  # fmt: skip


def _may_change(schema: Any, *, inside: bool = False) -> bool:
    """Whether a value can be written that is read as another one.

    Only for such types is each value compared; an event of scalars pays nothing.
    """
    if isinstance(schema, list | tuple):
        return any(_may_change(one, inside=inside) for one in schema)
    if not isinstance(schema, Mapping):
        return False
    kind = schema.get("type")
    is_class = kind in _CLASSES
    known = kind is None or kind in _EXACT or (is_class and not inside)
    if not known or "serialization" in schema:
        return True
    # What is referred to from inside is told by the reference.
    followed = _SUBSCHEMAS - {"definitions"} if kind == "definitions" else _SUBSCHEMAS
    for key in followed & schema.keys():
        below = schema[key]
        if key == "fields" and isinstance(below, Mapping):
            below = list(below.values())
        if _may_change(below, inside=inside or kind not in _WRAPPERS):
            return True
    return False


def _is_comparable(value: Any) -> bool:
    """Whether equal objects of the class are known to be equal."""
    equal: Any = type(value).__eq__
    return equal is not object.__eq__


def _difference(value: Any, again: Any) -> str:
    """Where two values differ, if they have fields."""
    names: Any = getattr(type(value), "model_fields", None)
    if names is None:
        names = getattr(value, "__dataclass_fields__", ())
    for name in names:
        before, after = getattr(value, name), getattr(again, name)
        if before != after:
            return f"{name} is {before!r:.100}, and would be {after!r:.100}"
    return f"{value!r:.100} would be {again!r:.100}"


def _refuse_subclass(value: Any, declared: Any) -> None:
    """What a subclass adds would be left out in silence."""
    if type(value) is declared or not isinstance(declared, type):
        return
    # By the order of bases, not isinstance: TypedDict and protocols refuse that.
    if declared in type(value).__mro__ and not isinstance(value, (int, str, float, bytes)):
        raise TypeError(
            f"{type(value).__qualname__} would be stored as {declared.__qualname__}, without what "
            "it adds. Name it in the component's type parameters, in a union if there are several."
        )


def _upcast(stored: StoredType, encoded: Encoded) -> bytes:
    if encoded.version > stored.version:
        raise UnreadableRecordError(
            f"type {encoded.type_name!r} was stored in version {encoded.version}; the code "
            f"only knows version {stored.version}. Deploy the newer code."
        )
    try:
        # Not orjson: it turns integers beyond 64 bits into floats.
        raw = from_json(encoded.payload)
    except ValueError as error:
        raise UnreadableRecordError(
            f"type {encoded.type_name!r} version {encoded.version} is not JSON: {error}. "
            "Restore the record from a backup."
        ) from error
    for version in range(encoded.version, stored.version):
        migration = stored.migrations.get(version)
        if migration is None:
            raise UnreadableRecordError(
                f"type {encoded.type_name!r} version {encoded.version}: there is no way from "
                f"version {version} to {version + 1}. Add @migrates(..., from_version={version})."
            )
        try:
            raw = migration(raw)
        except Exception as error:
            raise UnreadableRecordError(
                f"type {encoded.type_name!r}: the migration from version {version} failed: "
                f"{type(error).__name__}: {error}. Correct that @migrates function."
            ) from error
    return to_json(raw)


def _problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}"
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in problem["loc"]) or "the value"
    return f"{place}: {problem['msg']}"
