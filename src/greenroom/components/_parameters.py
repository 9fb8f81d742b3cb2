"""One parameter of a handler: its type, its description, its default."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Optional, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import Field, FieldInfo
from typing_extensions import TypedDict

from greenroom.components._hints import is_shareable, union_members

_SCALARS = (int, str, bool, float, bytes, Decimal, datetime, date, time, timedelta, UUID)
_CLOSED = frozenset((*_SCALARS, NoneType))
_EXACT = frozenset(_SCALARS) - {Decimal}
"""Types whose values need no look when they are exactly of the type; a Decimal may be no number."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a handler."""

    name: str
    type: Any
    """As annotated, with descriptions moved into a pydantic `Field`."""
    required: bool
    default: Any
    description: str | None

    def default_value(self) -> Any:
        """The default, which no two calls share if it can be changed."""
        if self.default is None or is_shareable(self.type):
            return self.default
        return copy.deepcopy(self.default)


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
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        # A text may stand inside: `Annotated[T, "text"]` or None.
        members = [_described(one, None) for one in get_args(annotation)]
        annotation = Union[tuple(one for one, _ in members)]  # noqa: UP007 - made at run time
        said = next((text for _, text in members if text is not None), None)
        if said is not None:
            return annotation, said
    if origin is not Annotated:
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


def arguments_type(name: str, parameters: tuple[Parameter, ...]) -> Any:
    """The TypedDict of a handler's arguments.

    What is None by default may be given as None, whatever the annotation says.
    """
    fields = {one.name: _field_type(one) for one in parameters}
    make: Any = TypedDict  # a type checker only knows it with a literal name
    made = make(f"{name}_arguments", fields)
    made.__pydantic_config__ = ConfigDict(extra="forbid")
    return made


def _field_type(parameter: Parameter) -> Any:
    if parameter.required:
        return parameter.type
    if parameter.default is None and NoneType not in union_members(parameter.type):
        return NotRequired[Optional[parameter.type]]  # noqa: UP045 - made at run time
    return NotRequired[parameter.type]


def wrong_default(parameter: Parameter) -> str | None:
    """Why a default can't be; given from another process it would be refused as an argument."""
    if parameter.required or parameter.default is None:
        return None
    if isinstance(parameter.default, FieldInfo):
        return "put the Field into the annotation, as Annotated[int, Field(gt=0)] = 1"
    try:
        TypeAdapter(parameter.type).validate_python(parameter.default)
    except ValidationError as error:
        return str(error.errors(include_url=False, include_context=False)[0]["msg"])
    return None


def exact_kinds(parameter: Parameter) -> tuple[type[Any], ...]:
    """The classes whose objects need no further look and may be handed on; often none."""
    kinds = [_exact_kind(one) for one in _members(parameter.type)]
    if parameter.default is None and not parameter.required:
        kinds.append(NoneType)
    return () if None in kinds else tuple(dict.fromkeys(one for one in kinds if one))


def _members(python_type: Any) -> tuple[Any, ...]:
    """As `union_members`, with the constraints of each member."""
    if get_origin(python_type) in (Union, UnionType):
        return tuple(one for arg in get_args(python_type) for one in _members(arg))
    return (python_type,)


def _exact_kind(python_type: Any) -> type[Any] | None:
    if get_origin(python_type) is Annotated:
        inner, *extras = get_args(python_type)
        if any(not isinstance(one, FieldInfo) or one.metadata for one in extras):
            return None
        python_type = inner
    if python_type in _EXACT or python_type is NoneType:
        return python_type  # type: ignore[no-any-return]
    if not isinstance(python_type, type) or not is_shareable(python_type):
        return None
    if issubclass(python_type, BaseModel):
        checked_again = python_type.model_config.get("revalidate_instances", "never")
        return python_type if checked_again == "never" else None
    # Pydantic takes objects of these as they are.
    return python_type if _is_taken_as_it_is(python_type) else None


def _is_taken_as_it_is(cls: type[Any]) -> bool:
    return issubclass(cls, Enum) or dataclasses.is_dataclass(cls)


def passing_kinds(parameter: Parameter) -> frozenset[type[Any]] | None:
    """The classes whose objects are handed on once they are valid; None for whatever they are.

    A frozen class may have subclasses that are not, and pydantic takes their objects.
    """
    if not is_shareable(parameter.type):
        return frozenset((NoneType,))
    members = union_members(parameter.type)
    if all(isinstance(one, type) for one in members) and not set(members).issubset(_CLOSED):
        return frozenset((*members, NoneType))
    return None


def is_text(python_type: Any) -> bool:
    """Whether text may be meant as text."""
    return str in union_members(python_type)


def is_scalar(python_type: Any) -> bool:
    """Whether there is only one way to write a value as JSON, with nothing to put in order."""
    return all(one in _SCALARS or one is NoneType for one in union_members(python_type))
