"""Values of the application ⇄ JSON under permanent type names, with versions and upcasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from greenroom.errors import UnreadableRecordError
from greenroom.fidelity import MAX_DIGITS, Care, Fidelity, difference
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
    __slots__ = ("_validate_json", "adapter", "care_for", "careful", "stored", "to_json")

    def __init__(self, stored: StoredType) -> None:
        self.stored = stored
        self.adapter: TypeAdapter[Any] = TypeAdapter(stored.python_type)
        fidelity = Fidelity(self.adapter.core_schema, class_is_known=True)
        self.care_for = fidelity.care_for
        self.careful = fidelity.care is not Care.NONE or bool(fidelity.parts)
        """Whether it takes more than a glance at their JSON to see that values come back."""
        self.to_json = self.adapter.serializer.to_json
        self._validate_json = self.adapter.validator.validate_json

    def read(self, payload: bytes) -> Any:
        """The value of stored JSON, under field names or aliases."""
        return self._validate_json(payload, by_alias=True, by_name=True)

    def check(self, value: Any, payload: bytes) -> None:
        """Raises `ValueError` for what can be written but not be read again as it was."""
        care = self.care_for(payload)
        if care is Care.NONE:
            return
        name = f"{type(value).__qualname__} can't be stored, since"
        try:
            again = self.read(payload)
        except Exception as error:
            raise ValueError(
                f"{name} it could not be read again: {_problem(error)} (model_copy and "
                "model_construct check nothing; JSON has no NaN or infinite numbers, and integers "
                f"of at most {MAX_DIGITS:,} digits)"
            ) from error
        if care is Care.COMPARE and (said := difference(value, again)) is not None:
            raise ValueError(
                f"{name} it would be read again as another value: {said}. Declare types that JSON "
                "can tell apart, and give a serializer the validator that undoes it."
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
            ValueError: It could not be read again, since it breaks a rule of its own type, or
                would be read as another value; names the part.
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
        if entry.careful or b"null" in payload or len(payload) > MAX_DIGITS:
            # What could not be read again must not be written: the instance would be lost. What
            # would be read as another value must not either: it would change on a recovery.
            entry.check(value, payload)
        return Encoded(stored.name, stored.version, payload)

    def fingerprint(self, value: Any, *, name: str) -> bytes | None:
        """The same for as long as the value is; None where it can't be told.

        Nothing is checked: it is for telling whether somebody has changed the value in place.
        """
        try:
            return self._by_name[name].to_json(value, round_trip=True, warnings=False)
        except Exception:
            return None

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
