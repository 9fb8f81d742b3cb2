"""Asks a person before a command is carried out that needs it, where a person can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field
from pydantic_core import to_json

from greenroom.components import AskForm, McpContext, MissingCapabilityError, ToolCall
from greenroom.errors import ToolError

if TYPE_CHECKING:
    from greenroom.components import ToolContext, ToolDefinition

QUESTION: Final = "greenroom/approval"
_MAX_SHOWN: Final = 2000
"""Characters of the arguments that a person is shown."""


class Consent(BaseModel):
    """What a person fills in."""

    approve: bool = Field(description="Whether to carry it out.")


def check_approval(
    tool: ToolDefinition, instance: str, values: tuple[Any, ...], context: ToolContext
) -> None:
    """Raises unless the call needs no approval, or a person at the client has given it.

    Args:
        tool: What is called.
        instance: The instance that it is called on.
        values: The handler's values.
        context: Of the call; one that can ask is asked through.

    Raises:
        InputNeededError: A person is asked; the call comes again with the answer.
        ToolError: The person did not agree, or nobody can be asked.
    """
    call = _call_of(tool, instance, values)
    needed = tool.requires_approval
    if not (needed(call) if callable(needed) else needed):
        return
    if not isinstance(context, McpContext) or context.exchange is None:
        raise _nobody_to_ask(tool)
    if not context.exchange.can_ask:
        raise _nobody_to_ask(tool)
    try:
        answer = context.ask(QUESTION, AskForm(_question(tool, call), Consent))
    except MissingCapabilityError:
        raise _nobody_to_ask(tool) from None
    if answer.content is None or not answer.content.approve:
        raise ToolError(
            f"The person at the client did not approve of {tool.name}; nothing was done."
        )


def _call_of(tool: ToolDefinition, instance: str, values: tuple[Any, ...]) -> ToolCall:
    names = [one.name for one in tool.handler.parameters]
    arguments = dict(zip(names, values, strict=True))
    if tool.id_parameter is not None:
        arguments = {tool.id_parameter: instance, **arguments}
    return ToolCall(tool.name, arguments)


def _question(tool: ToolDefinition, call: ToolCall) -> str:
    shown = to_json(call.arguments, fallback=str).decode()
    if len(shown) > _MAX_SHOWN:
        shown = shown[:_MAX_SHOWN] + " …"
    return f"May {tool.name} be carried out? {tool.description} Arguments: {shown}"


def _nobody_to_ask(tool: ToolDefinition) -> ToolError:
    return ToolError(
        f"{tool.name} needs the approval of a person, which can't be given over this "
        "connection. Ask the operator of the service to carry it out."
    )
