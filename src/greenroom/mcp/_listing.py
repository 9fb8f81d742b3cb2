"""The list of tools: encoded once, cut into pages."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

from greenroom.mcp._results import dump
from greenroom.mcp._wire import HANDLER_KEY, ID_PARAMETER_KEY, INVALID_PARAMS, WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greenroom.components import ToolDefinition

PAGE_SIZE: Final = 500
"""Tools on one page. Large, since many clients never ask for the second."""


class ToolListing:
    """The pages of `tools/list`, in the order of the tools' names."""

    def __init__(self, tools: Sequence[ToolDefinition], page_size: int = PAGE_SIZE) -> None:
        pages = [tools[start : start + page_size] for start in range(0, len(tools), page_size)]
        # A cursor names the last tool that was seen, so that it still means the same to a
        # server with a tool more or less.
        self._pages = {
            (pages[number - 1][-1].name if number else None): _encode(page, number < len(pages) - 1)
            for number, page in enumerate(pages or [[]])
        }

    def page(self, cursor: Any) -> bytes:
        """The members of a result: `"tools":[…]` and, when there are more, `"nextCursor"`.

        Raises:
            WireError: The cursor was not given out by this list.
        """
        page = self._pages.get(None if cursor is None else _decode(cursor))
        if page is None:
            raise WireError(INVALID_PARAMS, "Unknown cursor; list again from the beginning")
        return page


def _encode(page: Sequence[ToolDefinition], more: bool) -> bytes:
    members = b'"tools":' + dump([describe_tool(tool) for tool in page])
    if more:
        cursor = urlsafe_b64encode(page[-1].name.encode()).decode()
        members += b',"nextCursor":' + dump(cursor)
    return members


def _decode(cursor: Any) -> str | None:
    if not isinstance(cursor, str):
        raise WireError(INVALID_PARAMS, "cursor must be a string")
    try:
        return urlsafe_b64decode(cursor).decode()
    except (binascii.Error, ValueError):
        # No tool is called so: the caller reports the cursor.
        return ""


def describe_tool(tool: ToolDefinition) -> dict[str, Any]:
    """A tool as it is listed."""
    listed: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    }
    if tool.output_schema is not None:
        listed["outputSchema"] = tool.output_schema
    hints = {
        "readOnlyHint": tool.hints.read_only,
        "destructiveHint": tool.hints.destructive,
        "idempotentHint": tool.hints.idempotent,
        "openWorldHint": tool.hints.open_world,
    }
    stated = {name: hint for name, hint in hints.items() if hint is not None}
    if stated:
        listed["annotations"] = stated
    meta = {HANDLER_KEY: f"{tool.handler.component}.{tool.handler.name}"}
    if tool.id_parameter is not None:
        meta[ID_PARAMETER_KEY] = tool.id_parameter
    listed["_meta"] = meta
    return listed
