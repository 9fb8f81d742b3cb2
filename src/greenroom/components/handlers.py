"""What is known of one handler: its parameters, its reply, and how both cross a boundary."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from greenroom.components._hints import is_shareable, union_members
from greenroom.components._parameters import (
    Parameter,
    arguments_type,
    exact_kinds,
    is_scalar,
    is_text,
    passing_kinds,
)
from greenroom.errors import InvalidArgumentsError
from greenroom.fidelity import MAX_DIGITS, Care, Fidelity, difference
from greenroom.nesting import MAX_DEPTH, is_too_deep

_MOST_KINDS = 64
"""Combinations of argument types that a handler knows beforehand; beyond, all are validated."""


_SELF_EVIDENT = frozenset((bool, bytes, int, str))
"""Types whose values read back as they were written."""


class HandlerDefinition:
    """One handler of one component; made once, when the component is defined."""

    __slots__ = (
        "_arguments_to_json",
        "_copiers",
        "_fitting",
        "_has_sets",
        "_is_scalar",
        "_names",
        "_passing",
        "_reply",
        "_reply_fidelity",
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
        self.arguments: TypeAdapter[dict[str, Any]] = TypeAdapter(arguments_type(name, parameters))
        self._arguments_to_json = self.arguments.serializer.to_json
        self._validate_arguments = self.arguments.validator.validate_python
        self.reply_shareable = is_shareable(reply_type)
        self._reply: TypeAdapter[Any] = TypeAdapter(reply_type)
        self._reply_to_json = self._reply.serializer.to_json
        self._reply_fidelity = Fidelity(self._reply.core_schema)
        self._tag = name.encode() + b"\0"
        self._names = tuple(one.name for one in parameters)
        self._fitting = _fitting(parameters)
        self._is_scalar = all(is_scalar(one.type) for one in parameters)
        self._has_sets = _has_sets(self.arguments.core_schema)
        self._text = frozenset(one.name for one in parameters if is_text(one.type))
        passing = {place: passing_kinds(one) for place, one in enumerate(parameters)}
        self._passing = {place: kinds for place, kinds in passing.items() if kinds is not None}
        self._copiers: dict[int, TypeAdapter[Any]] = {
            place: TypeAdapter(parameters[place].type) for place in self._passing
        }

    @property
    def answers_text(self) -> bool:
        """Whether a reply is text, and shown as it is."""
        return {one for one in union_members(self.reply_type) if one is not NoneType} == {str}

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
        if self._fitting and not kwargs:
            # The types alone show that most calls fit.
            rest = self._fitting.get(tuple(map(type, args)))
            if rest is not None:
                return args + rest if rest else args
        return self._without_sharing(self._validated(self._named(args, kwargs)))

    def bind_mapping(
        self, arguments: Mapping[str, Any], *, beside: tuple[str, ...] = ()
    ) -> tuple[Any, ...]:
        """The positional values for a call from JSON.

        Text where an object or a number is due is decoded, but only after it has failed as it
        is: some models send arguments as JSON inside text.

        Args:
            arguments: By name.
            beside: What the caller may give as well and somebody else reads, to be named among
                what is known.

        Raises:
            InvalidArgumentsError: Names every parameter that does not fit.
        """
        try:
            return self._from_json(arguments)
        except ValidationError as error:
            decoded = self._with_text_decoded(arguments, error)
            if decoded is None:
                raise self._invalid(error, beside) from error
            try:
                return self._from_json(decoded)
            except ValidationError:
                raise self._invalid(error, beside) from error

    def _from_json(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            text = orjson.dumps(arguments)
        except TypeError:
            try:
                # Slower, and knows more: large integers, decimals, models.
                text = to_json(arguments)
            except PydanticSerializationError as error:
                raise InvalidArgumentsError(self.target, [f"not JSON: {error}"]) from error
        return self._in_order(self.arguments.validate_json(text))

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
        return tuple(
            validated[one.name] if one.name in validated else one.default_value()
            for one in self.parameters
        )

    def _without_sharing(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self._copiers:
            return values
        passing = self._passing
        return tuple(
            self._copy(place, value)
            if place in passing and type(value) not in passing[place]
            else value
            for place, value in enumerate(values)
        )

    def _copy(self, place: int, value: Any) -> Any:
        adapter = self._copiers[place]
        try:
            data = adapter.serializer.to_json(
                value, by_alias=False, round_trip=True, warnings="error"
            )
            return adapter.validator.validate_json(data, by_alias=True, by_name=True)
        except ValidationError as error:
            problems = describe(error, self._names)
        except PydanticSerializationError as error:
            problems = [str(error)]
        name = self._names[place]
        raise InvalidArgumentsError(
            self.target, [f"{name}: does not come back from JSON: {one}" for one in problems]
        )

    def _with_text_decoded(
        self, arguments: Mapping[str, Any], error: ValidationError
    ) -> dict[str, Any] | None:
        failed = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
        decoded = dict(arguments)
        for name in failed - self._text:
            if isinstance(value := decoded.get(str(name)), str):
                try:
                    # Not orjson: it turns integers beyond 64 bits into floats.
                    inner = from_json(value, allow_inf_nan=False)
                except ValueError:
                    continue
                if is_too_deep(inner):
                    said = f"{name}: the text is nested deeper than {MAX_DEPTH} levels"
                    raise InvalidArgumentsError(self.target, [said])
                decoded[str(name)] = inner
        return None if decoded == arguments else decoded

    def _invalid(
        self, error: ValidationError, beside: tuple[str, ...] = ()
    ) -> InvalidArgumentsError:
        return InvalidArgumentsError(self.target, describe(error, (*beside, *self._names)))

    def encode_arguments(self, values: tuple[Any, ...]) -> bytes:
        """Arguments as JSON, to cross to another process.

        Raises:
            InvalidArgumentsError: They can't cross: text that is no Unicode, bytes that are no text.
        """
        named = dict(zip(self._names, values, strict=True))
        try:
            return self._arguments_to_json(named, by_alias=False, round_trip=True)
        except PydanticSerializationError as error:
            raise InvalidArgumentsError(self.target, [str(error)]) from error

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
        if self._has_sets:
            # Sets are written in an order that differs between processes.
            named = dict(zip(self._names, values, strict=True))
            data = _sorted(_ordered(self.arguments.dump_python(named, by_alias=False)))
        elif not self._is_scalar:
            # Not orjson: it turns integers beyond 64 bits into floats.
            data = _sorted(from_json(data))
        return hashlib.blake2b(self._tag + data, digest_size=16).hexdigest()

    # -- replies ---------------------------------------------------------------------------

    def encode_reply(self, value: Any) -> bytes:
        """A reply as JSON.

        Raises:
            pydantic_core.PydanticSerializationError: It does not fit the declared reply type.
            pydantic.ValidationError: It could not be read again: None or NaN where a value is
                due, or a rule of its own type is broken.
            ValueError: It would be read again as another value; names the part.
        """
        data = self._reply_to_json(value, by_alias=True, warnings="error")
        # Whoever gets the reply must be able to read it, and so must whoever repeats the key.
        if data == b"null" or type(value) not in _SELF_EVIDENT or len(data) > MAX_DIGITS:
            again = self.decode_reply(data)
            changes = self._reply_fidelity.care_for(data) is Care.COMPARE
            if changes and (said := difference(value, again)) is not None:
                message = (
                    f"the reply of {self.target} would be read as another value: {said}. Declare "
                    "types that JSON can tell apart, and give a serializer the validator that "
                    "undoes it."
                )
                raise ValueError(message)
        return data

    def write_reply(self, value: Any, *, without_null: bool = False) -> bytes:
        """A reply as JSON that nobody has to read back into the type.

        Args:
            value: The reply.
            without_null: Leave out fields that are null; entries of mappings stay.

        Raises:
            pydantic.ValidationError: It does not fit the declared reply type, or has None or NaN
                where a value is due.
        """
        if isinstance(value, Iterator):
            # Who looks at it first uses it up.
            value = self._reply.validate_python(value)
        try:
            data = self._reply_to_json(
                value, by_alias=True, exclude_none=without_null, warnings="error"
            )
        except PydanticSerializationError:
            # Of another type, but perhaps as good: an int for a float, a set for any `Set`.
            fitting = self._reply.validate_python(value)
            data = self._reply_to_json(
                fitting, by_alias=True, exclude_none=without_null, warnings="error"
            )
        if b"null" in data:
            self._refuse_nulls(data)
        return data

    def _refuse_nulls(self, data: bytes) -> None:
        """Raises where null stands for what can't be null: pydantic writes None and NaN so."""
        try:
            self.decode_reply(data)
        except ValidationError as error:
            if any(one["input"] is None for one in error.errors(include_url=False)):
                raise

    def decode_reply(self, data: bytes) -> Any:
        """The reply again."""
        return self._reply.validate_json(data, by_alias=True, by_name=True)

    def check_reply(self, value: Any) -> None:
        """Raises what `encode_reply` raises, unless the types show that the reply is right."""
        if type(value) is not self.reply_type or self._reply_fidelity.may_change():
            self.encode_reply(value)

    def without_null_fields(self, reply: bytes) -> bytes:
        """A reply as JSON without the fields that are null; entries of mappings all stay."""
        return self._reply_to_json(self.decode_reply(reply), by_alias=True, exclude_none=True)

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


def _fitting(parameters: tuple[Parameter, ...]) -> dict[tuple[type[Any], ...], tuple[Any, ...]]:
    """For the types of arguments that need no look: the defaults that follow them."""
    known: dict[tuple[type[Any], ...], tuple[Any, ...]] = {}
    kinds = [exact_kinds(one) for one in parameters]
    for given in range(len(parameters), -1, -1):
        rest = parameters[given:]
        if any(one.required or not (one.default is None or is_shareable(one.type)) for one in rest):
            break
        if math.prod(len(one) for one in kinds[:given]) + len(known) > _MOST_KINDS:
            continue
        defaults = tuple(one.default for one in rest)
        known |= dict.fromkeys(itertools.product(*kinds[:given]), defaults)
    return known


def _has_sets(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        kind = schema.get("type")
        return kind in ("set", "frozenset", "any") or any(map(_has_sets, schema.values()))
    return isinstance(schema, list | tuple) and any(map(_has_sets, schema))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _ordered(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_ordered(one) for one in value), key=_sorted)
    if isinstance(value, list | tuple):
        return [_ordered(one) for one in value]
    return to_jsonable_python(value)


def _sorted(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
