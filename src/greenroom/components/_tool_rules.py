"""Checks what a method says of itself as a tool, and reads its schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic.errors import PydanticInvalidForJsonSchema

from greenroom.components._hints import shown
from greenroom.components._manual_schema import Check, differences, read_schema
from greenroom.components._protobuf import mentions_protobuf
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.mcp_methods import McpToolMark
from greenroom.components.mirrored import mirroring_problems
from greenroom.components.schema import input_schema, output_schema
from greenroom.components.tools import TOOL_NAME

NO_PROTOBUF: Final = (
    " answers with a protobuf message, which MCP clients can't read; return a model of its fields"
)


def tool_problems(
    name: str, description: str, handler: HandlerDefinition, mark: McpToolMark, shape: str | None
) -> Iterator[str]:
    if not TOOL_NAME.match(name):
        yield f": the tool is named {name!r}; a name has 1 to 64 letters, digits, _ and -"
    if not description.strip():
        yield " has no description; a model can't know what the tool is for"
    if mentions_protobuf(handler.reply_type):
        yield NO_PROTOBUF
    if mark.timeout is not None and mark.timeout.total_seconds() <= 0:
        yield ": timeout must be more than nothing"
    if mark.max_result_bytes is not None and mark.max_result_bytes <= 0:
        yield ": max_result_bytes must be more than nothing"
    if shape is None:
        yield (
            ": media stand alone or in a list, as list[ImageContent]; "
            f"{shown(handler.reply_type)} is neither"
        )


def read_schemas(
    handler: HandlerDefinition, mark: McpToolMark, shape: str | None
) -> tuple[tuple[dict[str, Any], dict[str, Any] | None, Check | None], list[str]]:
    """The schemas of arguments and result, what checks arguments by hand, and what is wrong."""
    problems: list[str] = []
    shown_input: dict[str, Any] = {}
    shown_output = check = None
    try:
        if mark.input_schema is None:
            shown_input = input_schema(handler, id_parameter=None, id_text="")
        else:
            shown_input, check = read_schema(mark.input_schema)
            required = {one.name for one in handler.parameters if one.required}
            known = {one.name for one in handler.parameters}
            found = differences(shown_input, required, known)
            problems += [f": input_schema {one}" for one in found]
        problems += [f": {one}" for one in mirroring_problems(shown_input)]
        shown_output = None if shape in (None, "content") else output_schema(handler)
    except PydanticInvalidForJsonSchema as error:
        problems.append(f" has a parameter or result without a JSON Schema: {error.message}")
    except ValueError as error:
        problems.append(f": input_schema {error}")
    return (shown_input, shown_output, check), problems
