"""What is kept beside a record: the application's metadata, and where the command came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from greenroom.components import Metadata

if TYPE_CHECKING:
    from greenroom.runtime._calls import CallRequest


def encode_metadata(call: CallRequest, metadata: Metadata | None) -> bytes | None:
    """The stored form; None when there is nothing to keep."""
    if (
        metadata is None
        and call.correlation_id is None
        and call.principal is None
        and call.traceparent is None
        and call.causation is None
    ):
        return None
    kept: dict[str, Any] = origin_of(call)
    if metadata:
        kept["metadata"] = list(metadata)
    return orjson.dumps(kept)


def origin_of(call: CallRequest) -> dict[str, Any]:
    """Where a command came from, as it is stored."""
    return {
        name: value
        for name, value in (
            ("correlation", call.correlation_id),
            ("causation", call.causation),
            ("traceparent", call.traceparent),
            ("principal", call.principal),
        )
        if value is not None
    }


def decode_metadata(stored: bytes | None) -> Metadata:
    """The application's metadata of a stored record."""
    if stored is None:
        return Metadata.EMPTY
    pairs = orjson.loads(stored).get("metadata", ())
    return Metadata((str(key), str(value)) for key, value in pairs)
