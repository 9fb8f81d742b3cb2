"""Which revision a message speaks, and whether its headers and its body say the same."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from greenroom.mcp._wire import (
    CAPABILITIES_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MIRRORED,
    MODERN_VERSIONS,
    REVISIONS,
    UNNAMED,
    VERSION_KEY,
    Revision,
    WireError,
    unsupported,
)

_VERSION_HEADER: Final = b"mcp-protocol-version"
_MIRRORING: Final = b"mcp-"
"""Begins the headers that say again what is in the body."""
_ABSENT: Final = object()


def header(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    """A header's value; httptools leaves white space around it, which is not part of it."""
    raw = headers.get(name)
    return None if raw is None else raw.decode("latin-1").strip(" \t")


def refuse_doubled_headers(pairs: Iterable[tuple[bytes, bytes]]) -> None:
    """Raises when a header of the protocol comes twice: readers of the first and the last would differ."""
    seen: set[bytes] = set()
    for name, _ in pairs:
        if name in seen:
            shown = name.decode("latin-1")
            raise WireError(HEADER_MISMATCH, f"The {shown} header came more than once")
        if name.startswith(_MIRRORING):
            seen.add(name)


def revision_of(headers: Mapping[bytes, bytes], message: Mapping[str, Any]) -> Revision:
    """The revision that a request speaks, after all that its era requires has been checked.

    The order of the checks decides which error a broken request gets; it is the official
    SDK's: the envelope, then agreement with the headers, then the version.
    """
    named = _named_version(message)
    version = header(headers, _VERSION_HEADER)
    if named is _ABSENT and version is None:
        return UNNAMED
    revision = REVISIONS.get(version) if version is not None else None
    if revision is not None and not revision.modern and named in (_ABSENT, version):
        return revision
    if named is _ABSENT and revision is None:
        raise unsupported(version, tuple(REVISIONS))
    _check_envelope(message)
    _check_headers(headers, message, version, named)
    if revision is None or not revision.modern:
        raise unsupported(version, MODERN_VERSIONS)
    return revision


def revision_of_notification(headers: Mapping[bytes, bytes]) -> Revision:
    """The revision of a message that needs no answer; only its version header is looked at."""
    version = header(headers, _VERSION_HEADER)
    if version is None:
        return UNNAMED
    if version not in REVISIONS:
        raise unsupported(version, tuple(REVISIONS))
    return REVISIONS[version]


def revision_in_body(message: Mapping[str, Any], agreed: Revision) -> Revision:
    """The revision of a request where there are no headers: its own, or the one agreed on."""
    named = _named_version(message)
    if named is _ABSENT:
        return agreed
    _check_envelope(message)
    revision = REVISIONS.get(named) if type(named) is str else None
    if revision is None or not revision.modern:
        raise unsupported(named, MODERN_VERSIONS)
    return revision


def check_mirrored(
    wanted: Mapping[tuple[str, ...], str],
    arguments: Mapping[str, Any],
    headers: Mapping[bytes, bytes],
) -> None:
    """Raises when an argument and its header don't say the same.

    Args:
        wanted: Path of the argument to what follows `Mcp-Param-`.
        arguments: Of the tool call.
        headers: Of the request.
    """
    for path, said in wanted.items():
        value: Any = arguments
        for part in path:
            value = value.get(part) if type(value) is dict else None
        shown, name = f"Mcp-Param-{said}", f"mcp-param-{said.lower()}".encode()
        if value is not None:
            text = str(value).lower() if type(value) is bool else str(value)
            _agree(shown, decode_value(header(headers, name)), text)
        elif name in headers:
            raise WireError(HEADER_MISMATCH, f"The {shown} header has no argument in the body")


def is_modern(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the version header names a revision without handshakes."""
    return header(headers, _VERSION_HEADER) in MODERN_VERSIONS


def check_shape(message: Any) -> None:
    """Raises unless this is one JSON-RPC 2.0 request."""
    if type(message) is not dict:
        raise WireError(INVALID_REQUEST, "A message must be a JSON object")
    if message.get("jsonrpc") != "2.0":
        raise WireError(INVALID_REQUEST, "A message must have jsonrpc: '2.0'")
    if type(message.get("method")) is not str:
        raise WireError(INVALID_REQUEST, "A request must name its method")
    if "id" in message and type(message["id"]) not in (str, int):
        raise WireError(INVALID_REQUEST, "The id of a request must be a string or an integer")
    if type(message.get("params", {})) is not dict:
        raise WireError(INVALID_PARAMS, "params must be an object")


def _named_version(message: Mapping[str, Any]) -> Any:
    meta = message.get("params", {}).get("_meta")
    return meta.get(VERSION_KEY, _ABSENT) if type(meta) is dict else _ABSENT


def _check_envelope(message: Mapping[str, Any]) -> None:
    meta = message.get("params", {}).get("_meta")
    if type(meta) is not dict:
        raise WireError(
            INVALID_PARAMS,
            f"params._meta must be an object with {VERSION_KEY} and {CAPABILITIES_KEY}",
        )
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise WireError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}")
    if type(meta[CAPABILITIES_KEY]) is not dict:
        raise WireError(INVALID_PARAMS, f"params._meta.{CAPABILITIES_KEY} must be an object")


def _check_headers(
    headers: Mapping[bytes, bytes], message: Mapping[str, Any], version: str | None, named: Any
) -> None:
    _agree("MCP-Protocol-Version", version, named)
    _agree("Mcp-Method", header(headers, b"mcp-method"), message["method"])
    parameter = MIRRORED.get(message["method"])
    if parameter is not None:
        value = message["params"].get(parameter)
        if value is not None:
            _agree("Mcp-Name", decode_value(header(headers, b"mcp-name")), value)


def _agree(name: str, in_header: str | None, in_body: Any) -> None:
    if in_header is None:
        raise WireError(HEADER_MISMATCH, f"The {name} header is missing or malformed")
    if in_header != in_body:
        raise WireError(
            HEADER_MISMATCH,
            f"The {name} header {in_header!r} does not match {in_body!r} in the body",
        )


def decode_value(value: str | None) -> str | None:
    """A header's value, which comes as `=?base64?…?=` where it isn't plain ASCII."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
