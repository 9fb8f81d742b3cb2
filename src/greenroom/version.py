"""Which greenroom this is."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def package_version() -> str:
    """The installed version of greenroom; `unknown` for sources that were never installed."""
    try:
        return metadata.version("greenroom")
    except metadata.PackageNotFoundError:
        return "unknown"
