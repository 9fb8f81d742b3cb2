"""`tools/list` and `tools/call`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.components import McpContext, MethodTool, ToolContext, mirrored_arguments
from greenroom.edge import asking
from greenroom.mcp._envelope import check_mirrored
from greenroom.mcp._exchange import Exchange
from greenroom.mcp._listing import Listing, describe_tool
from greenroom.mcp._mcp_request import McpRequest, tool_context, traceparent_in
from greenroom.mcp._task_methods import TaskMethods, declares_tasks, tasks_missing
from greenroom.mcp._wire import INVALID_PARAMS, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from greenroom.components import Tool
    from greenroom.edge import Guard, ToolCaller, ToolOutcome
    from greenroom.mcp._answering import Answering


class ToolMethods:
    """Lists the tools of an endpoint, and calls them.

    Args:
        tools: What is offered.
        caller: Carries them out.
        answering: Writes the answers.
        guard: Says who may use which tool; None lets everybody.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        caller: ToolCaller,
        answering: Answering,
        guard: Guard | None,
    ) -> None:
        self._caller = caller
        self._answering = answering
        self._guard = guard
        self.by_name = {tool.name: tool for tool in tools}
        self.tasks = TaskMethods(self.by_name, caller, answering, guard)
        self._header_checks = {
            tool.name: found for tool in tools if (found := mirrored_arguments(tool.input_schema))
        }
        self._tool_list = _list_of(tools)
        self._narrower_lists: dict[tuple[str, ...], Listing] = {}

    async def list(self, request: McpRequest) -> bytes:
        """One page of the tools."""
        return self._answering.listed(request, self._tools_for_caller())

    def _tools_for_caller(self) -> Listing:
        """The tools that the caller is shown; few such sets exist, and each is written once."""
        if self._guard is None:
            return self._tool_list
        principal = asking()
        shown = [one for one in self.by_name.values() if self._guard.offers(one, principal)]
        if len(shown) == len(self.by_name):
            return self._tool_list
        names = tuple(one.name for one in shown)
        if names not in self._narrower_lists:
            self._narrower_lists[names] = _list_of(shown)
        return self._narrower_lists[names]

    async def call(self, request: McpRequest) -> bytes:
        """What a tool answered; a failure is an answer too, which a model can act on."""
        params = request.params
        name = params.get("name")
        tool = self.by_name.get(name) if type(name) is str else None
        if tool is None:
            raise WireError(INVALID_PARAMS, f"Unknown tool: {name}")
        arguments = params.get("arguments")
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            raise WireError(INVALID_PARAMS, "arguments must be an object")
        if request.revision.modern and request.headers is not None and name in self._header_checks:
            check_mirrored(self._header_checks[name], arguments, request.headers)
        if not isinstance(tool, MethodTool) and tool.task is not None and tool.task.required:
            _check_tasks(request)
        if isinstance(tool, MethodTool) or tool.requires_approval:
            return await self._answering.asking(
                request, partial(self._call, request, tool, arguments)
            )
        return await self._call(request, tool, arguments, tool_context(request))

    async def _call(
        self, request: McpRequest, tool: Tool, arguments: dict[str, Any], context: ToolContext
    ) -> bytes:
        traceparent = traceparent_in(request)
        if self._guard is not None:
            self._guard.check_tool(tool, arguments, context, traceparent)
        outcome = await self._caller.call(tool, arguments, context, traceparent=traceparent)
        if self.tasks and not outcome.is_error and declares_tasks(request):
            begun = await self._begun(tool, outcome, context)
            if begun is not None:
                return begun
        return self._answering.writer(request).tool_result(outcome)

    async def _begun(self, tool: Tool, outcome: ToolOutcome, context: ToolContext) -> bytes | None:
        """What is answered where the work goes on as a task."""
        if not isinstance(tool, MethodTool):
            if tool.task is None or outcome.instance is None:
                return None
            return await self.tasks.begun(tool, outcome.instance, context)
        exchange = context.exchange if isinstance(context, McpContext) else None
        if not isinstance(exchange, Exchange) or exchange.task is None:
            return None
        handler, instance = exchange.task
        return await self.tasks.begun(self.tasks.offered(handler), instance, context)


def _check_tasks(request: McpRequest) -> None:
    if not (request.revision.modern and declares_tasks(request)):
        raise tasks_missing()


def _list_of(tools: Iterable[Tool]) -> Listing:
    return Listing("tools", [(tool.name, describe_tool(tool)) for tool in tools])
