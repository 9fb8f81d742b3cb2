"""Lists: encoded once, cut into pages; and how what is listed is described."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

from greenroom.components import MethodTool
from greenroom.mcp._content import annotations_of, icons_of, without_none
from greenroom.mcp._results import dump
from greenroom.mcp._wire import HANDLER_KEY, ID_PARAMETER_KEY, INVALID_PARAMS, WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greenroom.components import (
        McpEndpointDefinition,
        PromptDefinition,
        ResourceDefinition,
        Tool,
    )

PAGE_SIZE: Final = 500
"""Entries on one page. Large, since many clients never ask for the second."""

Entry = tuple[str, dict[str, Any]]
"""What a cursor names, unique in its list, and what is listed."""


class Listing:
    """The pages of one list, in its order."""

    def __init__(self, member: str, entries: Sequence[Entry], page_size: int = PAGE_SIZE) -> None:
        pages = [entries[start : start + page_size] for start in range(0, len(entries), page_size)]
        # A cursor names the last entry that was seen, so that it still means the same to a
        # server with an entry more or less.
        self._pages = {
            (pages[number - 1][-1][0] if number else None): _encode(
                member, page, number < len(pages) - 1
            )
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


def _encode(member: str, page: Sequence[Entry], more: bool) -> bytes:
    members = b'"%b":%b' % (member.encode(), dump([entry for _, entry in page]))
    if more:
        cursor = urlsafe_b64encode(page[-1][0].encode()).decode()
        members += b',"nextCursor":' + dump(cursor)
    return members


def _decode(cursor: Any) -> str | None:
    if not isinstance(cursor, str):
        raise WireError(INVALID_PARAMS, "cursor must be a string")
    try:
        return urlsafe_b64decode(cursor).decode()
    except (binascii.Error, ValueError):
        # Nothing is called so: the caller reports the cursor.
        return ""


def describe_server(endpoint: McpEndpointDefinition) -> dict[str, Any]:
    """How a server names itself."""
    return without_none(
        {
            "name": endpoint.server_name,
            "version": endpoint.server_version,
            "title": endpoint.server_title,
            "websiteUrl": endpoint.website_url,
            "icons": icons_of(endpoint.icons),
        }
    )


def describe_tool(tool: Tool) -> dict[str, Any]:
    """A tool as it is listed."""
    listed: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    }
    if tool.output_schema is not None:
        listed["outputSchema"] = tool.output_schema
    hints = without_none(
        {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        }
    )
    if hints:
        listed["annotations"] = hints
    if isinstance(tool, MethodTool):
        own = {"title": tool.title, "icons": icons_of(tool.icons), "_meta": tool.meta or None}
        return listed | without_none(own)
    meta = {HANDLER_KEY: f"{tool.handler.component}.{tool.handler.name}"}
    if tool.id_parameter is not None:
        meta[ID_PARAMETER_KEY] = tool.id_parameter
    listed["_meta"] = meta
    return listed


def describe_resource(one: ResourceDefinition) -> dict[str, Any]:
    """A resource, or a template, as it is listed."""
    key = "uri" if one.template is None else "uriTemplate"
    return without_none(
        {
            key: one.address,
            "name": one.name,
            "title": one.title,
            "description": one.description or None,
            "mimeType": one.mime_type,
            "size": one.size,
            "icons": icons_of(one.icons),
            "annotations": annotations_of(one.audience, one.priority) or None,
        }
    )


def describe_prompt(prompt: PromptDefinition) -> dict[str, Any]:
    """A prompt as it is listed."""
    arguments = [
        without_none({"name": one.name, "description": one.description, "required": one.required})
        for one in prompt.method.handler.parameters
    ]
    return without_none(
        {
            "name": prompt.name,
            "title": prompt.title,
            "description": prompt.description or None,
            "arguments": arguments,
            "icons": icons_of(prompt.icons),
        }
    )
