"""Arguments of tools that come again in a header, so that proxies see them (`x-mcp-header`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

HEADER_EXTENSION: Final = "x-mcp-header"
"""In the schema of an argument: its header is `Mcp-Param-<this>`."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_PLAIN: Final = frozenset(("string", "integer", "boolean"))

Path = tuple[str, ...]


def mirrored_arguments(schema: Mapping[str, Any]) -> dict[Path, str]:
    """The arguments that are marked, by path, with what they say.

    Only those below `properties` count; clients look nowhere else.
    """
    return {path: one[HEADER_EXTENSION] for path, one in _marked(schema)}


def mirroring_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    """What would make clients reject a tool."""
    seen: set[str] = set()
    for path, one in _marked(schema):
        said, where = one[HEADER_EXTENSION], ".".join(path)
        if not isinstance(said, str) or not _TOKEN.match(said):
            yield f"{where}: {HEADER_EXTENSION} {said!r} can't be part of a header's name"
            continue
        if said.lower() in seen:
            yield f"{where}: {HEADER_EXTENSION} {said!r} comes twice"
        seen.add(said.lower())
        if one.get("type") not in _PLAIN:
            yield f"{where}: {HEADER_EXTENSION} is for text, whole numbers and booleans"


def _marked(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    properties = schema.get("properties")
    for name, one in properties.items() if isinstance(properties, Mapping) else ():
        if not isinstance(one, Mapping):
            continue
        if HEADER_EXTENSION in one:
            yield (name,), one
        for path, inner in _marked(one):
            yield (name, *path), inner
