"""Errors on their way to another process: as a class's name, a message, and parts.

No pickle: what arrives can only become an error whose class this process knows already, with
parts that are JSON or one of the few types below. Any other part stays behind.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from greenroom.errors import (
    CallError,
    CommandError,
    EntityUnavailableError,
    GreenroomError,
    InternalError,
)
from greenroom.ids import EntityRef, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PLAIN = (str, int, float, bool, type(None))
_TAGGED: tuple[tuple[str, type, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    ("ref", EntityRef, list, lambda parts: EntityRef(*parts)),
    ("datetime", datetime, datetime.isoformat, datetime.fromisoformat),
    ("date", date, date.isoformat, date.fromisoformat),
    (
        "timedelta",
        timedelta,
        lambda span: [span.days, span.seconds, span.microseconds],
        lambda parts: timedelta(*parts),
    ),
    ("decimal", Decimal, str, Decimal),
    ("uuid", UUID, str, UUID),
)
_TAGS = {kind: (tag, write) for tag, kind, write, _ in _TAGGED}
_READERS = {tag: read for tag, _, _, read in _TAGGED}
_INTEGERS = range(-(2**63), 2**63)


def encode_error(error: BaseException) -> dict[str, Any]:
    """An error as JSON: its class, its message, and those of its parts that can be sent."""
    if not isinstance(error, GreenroomError):
        # What it says may be a secret, and is in the log of the process that raised it.
        error = InternalError(f"{type(error).__name__} at the owner of the instance; see its log.")
    kind = type(error)
    parts = {}
    for name, part in vars(error).items():
        try:
            parts[name] = _pack(part)
        except TypeError:
            continue
    return {
        "type": f"{kind.__module__}:{kind.__qualname__}",
        "code": error.code,
        "command": isinstance(error, CommandError),
        "retryable": error.retryable,
        "message": without_surrogates(str(error)),
        "args": [without_surrogates(str(part)) for part in error.args],
        "parts": parts,
    }


def decode_error(wire: Mapping[str, Any]) -> GreenroomError:
    """The error again, as its own class where this process knows it."""
    kind = _known_errors().get(wire["type"])
    if kind is None:
        return _of_unknown_class(wire)
    error = kind.__new__(kind)
    error.args = tuple(wire["args"])
    error.__dict__.update({name: _unpack(part) for name, part in wire["parts"].items()})
    return error


def _of_unknown_class(wire: Mapping[str, Any]) -> GreenroomError:
    """The nearest class; the message, the code and the parts are kept."""
    kind: type[GreenroomError] = CallError
    if wire["command"]:
        kind = CommandError
    elif wire["retryable"]:
        kind = EntityUnavailableError
    error = kind(wire["message"])
    error.__dict__.update({name: _unpack(part) for name, part in wire["parts"].items()})
    error.__dict__["code"] = wire["code"]
    return error


def _known_errors() -> dict[str, type[GreenroomError]]:
    known: dict[str, type[GreenroomError]] = {}
    waiting: list[type[GreenroomError]] = [GreenroomError]
    while waiting:
        kind = waiting.pop()
        known[f"{kind.__module__}:{kind.__qualname__}"] = kind
        waiting += kind.__subclasses__()
    return known


def _pack(value: Any) -> Any:
    """A value as JSON that says its type; a `TypeError` when it has none of ours."""
    kind = type(value)
    if kind is str:
        return without_surrogates(value)
    if kind in _PLAIN and not (kind is int and value not in _INTEGERS):
        return value
    if kind in _TAGS:
        tag, write = _TAGS[kind]
        return {"is": tag, "value": write(value)}
    if kind is list:
        return [_pack(one) for one in value]
    if kind is tuple:
        return {"is": "tuple", "value": [_pack(one) for one in value]}
    if kind is dict and all(type(key) is str for key in value):
        return {
            "is": "dict",
            "value": {without_surrogates(key): _pack(one) for key, one in value.items()},
        }
    raise TypeError(f"{kind.__name__} is not sent")


def _unpack(wire: Any) -> Any:
    if isinstance(wire, list):
        return [_unpack(one) for one in wire]
    if not isinstance(wire, dict):
        return wire
    tag, value = wire["is"], wire["value"]
    if tag == "tuple":
        return tuple(_unpack(one) for one in value)
    if tag == "dict":
        return {key: _unpack(one) for key, one in value.items()}
    return _READERS[tag](value)
