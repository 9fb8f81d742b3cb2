"""What is known of one handler: its parameters, its reply, and how both cross a boundary."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, NotRequired, get_args, get_origin
from uuid import UUID

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import Field, FieldInfo
from typing_extensions import TypedDict

from greenroom.components._hints import is_shareable, union_members
from greenroom.errors import InvalidArgumentsError

_EXACT = (int, str, bool, float, bytes, Decimal, datetime, date, time, timedelta, UUID)
"""Types whose values need no look when they are exactly of the type."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a handler."""

    name: str
    type: Any
    """As annotated, with descriptions moved into a pydantic `Field`."""
    required: bool
    default: Any
    description: str | None


class HandlerDefinition:
    """One handler of one component; made once, when the component is defined."""

    __slots__ = (
        "_arguments_to_json",
        "_copiers",
        "_exact",
        "_names",
        "_plain",
        "_reply",
        "_reply_to_json",
        "_tag",
        "_text",
        "_validate_arguments",
        "arguments",
        "component",
        "description",
        "function",
        "name",
        "parameters",
        "read_only",
        "reply_shareable",
        "reply_type",
    )

    def __init__(
        self,
        *,
        component: str,
        name: str,
        function: Callable[..., Any],
        read_only: bool,
        description: str,
        parameters: tuple[Parameter, ...],
        reply_type: Any,
    ) -> None:
        self.component = component
        self.name = name
        self.function = function
        self.read_only = read_only
        self.description = description
        self.parameters = parameters
        self.reply_type = reply_type
        self.arguments: TypeAdapter[dict[str, Any]] = TypeAdapter(_typed_dict(name, parameters))
        self._arguments_to_json = self.arguments.serializer.to_json
        self._validate_arguments = self.arguments.validator.validate_python
        self.reply_shareable = is_shareable(reply_type)
        self._reply: TypeAdapter[Any] = TypeAdapter(reply_type)
        self._reply_to_json = self._reply.serializer.to_json
        self._tag = name.encode() + b"\0"
        self._names = tuple(one.name for one in parameters)
        self._exact = tuple(_exact(one.type) for one in parameters)
        self._plain = None not in self._exact
        self._text = frozenset(one.name for one in parameters if _is_text(one.type))
        self._copiers: dict[int, TypeAdapter[Any]] = {
            place: TypeAdapter(one.type)
            for place, one in enumerate(parameters)
            if not is_shareable(one.type)
        }

    @property
    def target(self) -> str:
        """How the handler is named in messages."""
        return f"{self.component}.{self.name}"

    # -- arguments -------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The positional values for a call from Python code, checked and not shared.

        Raises:
            InvalidArgumentsError: Names every parameter that does not fit.
        """
        if self._plain and not kwargs and len(args) == len(self._exact):
            for value, kind in zip(args, self._exact, strict=True):
                if type(value) is not kind:
                    break
            else:
                return args
        return self._without_sharing(self._validated(self._named(args, kwargs)))

    def bind_mapping(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """The positional values for a call from JSON.

        Text where an object or a number is due is decoded, but only after it has failed as it
        is: some models send arguments as JSON inside text.

        Raises:
            InvalidArgumentsError: Names every parameter that does not fit.
        """
        given = self._without_absent(arguments)
        try:
            return self._in_order(self.arguments.validate_json(orjson.dumps(given)))
        except ValidationError as error:
            decoded = self._with_text_decoded(given)
            if decoded == given:
                raise self._invalid(error) from error
            try:
                return self._in_order(self.arguments.validate_json(orjson.dumps(decoded)))
            except ValidationError:
                raise self._invalid(error) from error
        except TypeError as error:
            raise InvalidArgumentsError(self.target, [f"not JSON: {error}"]) from error

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if not kwargs and len(args) <= len(self._names):
            return dict(zip(self._names, args, strict=False))
        if len(args) > len(self._names):
            raise InvalidArgumentsError(
                self.target,
                [f"takes {len(self._names)} argument(s), {len(args)} were given"],
            )
        named = dict(zip(self._names, args, strict=False))
        twice = sorted(named.keys() & kwargs.keys())
        if twice:
            raise InvalidArgumentsError(self.target, [f"{name}: given twice" for name in twice])
        return {**named, **kwargs}

    def _validated(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            validated = self._validate_arguments(named)
        except ValidationError as error:
            raise self._invalid(error) from error
        if len(validated) == len(self._names):
            # A validated TypedDict has its keys in the order in which they were declared.
            return tuple(validated.values())
        return self._in_order(validated)

    def _in_order(self, validated: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(validated.get(one.name, one.default) for one in self.parameters)

    def _without_sharing(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self._copiers:
            return values
        return tuple(
            values[place]
            if (adapter := self._copiers.get(place)) is None
            else adapter.validate_json(
                adapter.dump_json(values[place], by_alias=False, round_trip=True),
                by_alias=True,
                by_name=True,
            )
            for place in range(len(values))
        )

    def _without_absent(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        absent = {one.name for one in self.parameters if not one.required and one.default is None}
        return {
            name: value
            for name, value in arguments.items()
            if value is not None or name not in absent
        }

    def _with_text_decoded(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        decoded = dict(arguments)
        for name, value in arguments.items():
            if isinstance(value, str) and name not in self._text:
                try:
                    decoded[name] = orjson.loads(value)
                except orjson.JSONDecodeError:
                    continue
        return decoded

    def _invalid(self, error: ValidationError) -> InvalidArgumentsError:
        return InvalidArgumentsError(self.target, describe(error, self._names))

    def encode_arguments(self, values: tuple[Any, ...]) -> bytes:
        """Arguments as JSON, to cross to another process."""
        named = dict(zip(self._names, values, strict=True))
        return self._arguments_to_json(named, by_alias=False, round_trip=True)

    def decode_arguments(self, data: bytes) -> tuple[Any, ...]:
        """The arguments again.

        Raises:
            InvalidArgumentsError: They can't cross: JSON has no NaN and no infinity.
        """
        try:
            return self._in_order(self.arguments.validate_json(data, by_alias=True, by_name=True))
        except ValidationError as error:
            raise self._invalid(error) from error

    def fingerprint(self, values: tuple[Any, ...]) -> str:
        """The same for the same handler and arguments, on every machine; others differ."""
        data = self.encode_arguments(values)
        if not self._plain:
            data = orjson.dumps(orjson.loads(data), option=orjson.OPT_SORT_KEYS)
        return hashlib.blake2b(self._tag + data, digest_size=16).hexdigest()

    # -- replies ---------------------------------------------------------------------------

    def encode_reply(self, value: Any) -> bytes:
        """A reply as JSON.

        Raises:
            pydantic_core.PydanticSerializationError: It does not fit the declared reply type.
        """
        return self._reply_to_json(value, by_alias=True, warnings="error")

    def decode_reply(self, data: bytes) -> Any:
        """The reply again."""
        return self._reply.validate_json(data, by_alias=True, by_name=True)

    def check_reply(self, value: Any) -> None:
        """Raises what `encode_reply` raises for a reply of another type than declared."""
        if type(value) is not self.reply_type:
            self.encode_reply(value)

    @property
    def reply_adapter(self) -> TypeAdapter[Any]:
        """Pydantic's view of the reply type."""
        return self._reply


def describe(error: ValidationError, known: tuple[str, ...]) -> list[str]:
    """One line per problem, naming the parameter."""
    lines = []
    for problem in error.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in problem["loc"]) or "arguments"
        message = problem["msg"]
        if problem["type"] == "extra_forbidden":
            message = f"unknown parameter; known: {', '.join(known) or 'none'}"
        elif problem["type"] == "missing":
            message = "is required"
        lines.append(f"{place}: {message}")
    return lines


def read_parameter(
    parameter: inspect.Parameter, annotation: Any, documented: Mapping[str, str]
) -> Parameter:
    """A parameter with its description: from the annotation, else from the docstring."""
    required = parameter.default is inspect.Parameter.empty
    described, text = _described(annotation, documented.get(parameter.name))
    return Parameter(
        parameter.name, described, required, None if required else parameter.default, text
    )


def alias_of(annotation: Any) -> str | None:
    """Another name that a `Field` gives a parameter, which no caller could know."""
    extras = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    for one in extras:
        if isinstance(one, FieldInfo):
            for alias in (one.alias, one.validation_alias, one.serialization_alias):
                if alias is not None:
                    return str(alias)
    return None


def _described(annotation: Any, documented: str | None) -> tuple[Any, str | None]:
    if get_origin(annotation) is not Annotated:
        if documented is None:
            return annotation, None
        return Annotated[annotation, Field(description=documented)], documented
    inner, *extras = get_args(annotation)
    text = next((one for one in extras if isinstance(one, str)), None)
    kept = [one for one in extras if not isinstance(one, str)]
    for one in kept:
        if isinstance(one, FieldInfo) and one.description:
            text = text or one.description
    text = text or documented
    # pydantic does not read bare text, so it goes into a Field.
    if text is not None:
        kept.append(Field(description=text))
    return Annotated[(inner, *kept)], text


def _typed_dict(name: str, parameters: tuple[Parameter, ...]) -> Any:
    fields = {one.name: one.type if one.required else NotRequired[one.type] for one in parameters}
    make: Any = TypedDict  # a type checker only knows it with a literal name
    made = make(f"{name}_arguments", fields)
    made.__pydantic_config__ = ConfigDict(extra="forbid")
    return made


def _exact(python_type: Any) -> Any:
    """The type, when a value that is exactly of it needs no further look; else None."""
    if get_origin(python_type) is Annotated:
        inner, *extras = get_args(python_type)
        if any(not isinstance(one, FieldInfo) or one.metadata for one in extras):
            return None
        python_type = inner
    return python_type if python_type in _EXACT else None


def _is_text(python_type: Any) -> bool:
    members = [one for one in union_members(python_type) if one is not type(None)]
    return str in members
