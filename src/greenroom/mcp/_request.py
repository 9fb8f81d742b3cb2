"""Requests as a client sends them: for our own tools that call a service as everybody does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from greenroom.mcp._wire import CAPABILITIES_KEY, CLIENT_INFO_KEY, MIRRORED, REVISIONS, VERSION_KEY
from greenroom.version import package_version

_REVISION = max(REVISIONS)


def request_of(
    method: str, params: Mapping[str, Any], *, client: str
) -> tuple[dict[str, str], bytes]:
    """Headers and body of one request in the newest revision.

    Args:
        method: Such as `tools/call`.
        params: Its parameters; a `_meta` among them is kept, beside the envelope's.
        client: How the sender names itself.
    """
    envelope = {
        VERSION_KEY: _REVISION,
        CAPABILITIES_KEY: {},
        CLIENT_INFO_KEY: {"name": client, "version": package_version()},
    }
    whole = {**params, "_meta": envelope | params.get("_meta", {})}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": _REVISION,
        "Mcp-Method": method,
    }
    if method in MIRRORED:
        headers["Mcp-Name"] = params[MIRRORED[method]]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": whole}
    return headers, json.dumps(body).encode()
