"""`tasks/*`, of the extension `io.modelcontextprotocol/tasks`: workflows as tasks.

A task id is not remembered anywhere. It names the tool and the workflow, and is signed for the
caller who began the task; so it is good in every process, and after every restart.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from greenroom.components import ToolDefinition, has_capability
from greenroom.edge import TaskView, asking, report
from greenroom.errors import CommandError, InvalidArgumentsError, InvalidCallError
from greenroom.mcp._mcp_request import McpRequest, text_of, tool_context, traceparent_in
from greenroom.mcp._results import dump
from greenroom.mcp._wire import (
    CAPABILITIES_KEY,
    DECLINED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    TASKS,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from greenroom.components import Tool, ToolContext
    from greenroom.edge import Guard, TaskCaller, ToolCaller
    from greenroom.mcp._answering import Answering

_PURPOSE: Final = b"greenroom mcp task "


def declares_tasks(request: McpRequest) -> bool:
    """Whether the client of a request knows tasks."""
    extensions = _capabilities(request).get("extensions")
    return type(extensions) is dict and TASKS in extensions


class TaskMethods:
    """Answers about the tasks that tools of an endpoint have begun.

    Args:
        tools: Those of the endpoint, by name.
        caller: Carries out the tools.
        answering: Writes the answers, and signs the ids.
        guard: Says who may use which tool; None lets everybody.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        caller: ToolCaller,
        answering: Answering,
        guard: Guard | None,
    ) -> None:
        self._tools = {
            name: one
            for name, one in tools.items()
            if isinstance(one, ToolDefinition) and one.task is not None
        }
        self._caller = caller
        self._answering = answering
        self._guard = guard

    def __bool__(self) -> bool:
        """Whether there is anything to ask about."""
        return bool(self._tools)

    @property
    def _workflows(self) -> TaskCaller:
        return self._caller.tasks

    def offered(self, handler: Callable[..., Any]) -> ToolDefinition:
        """The tool of a handler that begins tasks.

        Raises:
            InvalidCallError: None of this endpoint's tools does.
        """
        found = next((one for one in self._tools.values() if one.handler.function is handler), None)
        if found is None:
            name = getattr(handler, "__qualname__", repr(handler))
            raise InvalidCallError(
                f"{name} begins no task here: mark it with @function_tool(task=...), and give its "
                "class to the endpoint's tools="
            )
        return found

    async def begun(
        self, tool: ToolDefinition, instance: str, context: ToolContext
    ) -> bytes | None:
        """What a client is given that has begun a task; None when the workflow does nothing."""
        view = await self._workflows.look(tool, instance, context, whole=False)
        if view is None:
            return None
        now = datetime.now(UTC)
        named = [tool.name, instance, int(now.timestamp() * 1000)]
        task_id = self._answering.seal.sign(_PURPOSE, orjson.dumps(named), _bound())
        members = self._described(tool, task_id, now, view)
        return self._answering.modern.special("task", members)

    async def get(self, request: McpRequest) -> bytes:
        """How a task stands, with its questions, its result or its error."""
        task_id, tool, instance, created = self._find(request)
        context = tool_context(request)
        self._check(request, tool, context)
        asks = has_capability(_capabilities(request), "elicitation", {"form": {}})
        try:
            view = await self._workflows.look(tool, instance, context, asks=asks)
        except Exception as error:
            raise _unanswered(error, tool, context) from error
        if view is None:
            raise _unknown()
        members = self._described(tool, task_id, created, view)
        if view.status == "input_required":
            asked = {key: one.as_request() for key, one in view.questions.items()}
            members += b',"inputRequests":' + dump(asked)
        elif view.result is not None:
            assert tool.task is not None
            outcome = self._caller.outcome_of(
                tool.task.result, view.result, context, is_error=view.is_error
            )
            if view.status == "failed":
                problem = {"code": INTERNAL_ERROR, "message": outcome.text, "data": outcome.meta}
                members += b',"error":' + dump(problem)
            else:
                members += b',"result":' + self._answering.modern.tool_result(outcome)
        return self._answering.modern.result(members)

    async def update(self, request: McpRequest) -> bytes:
        """Give a task answers to what it asks; those to anything else are ignored."""
        _, tool, instance, _ = self._find(request)
        given = request.params.get("inputResponses")
        if type(given) is not dict:
            raise WireError(INVALID_PARAMS, "inputResponses must be an object")
        answers = {
            key: one.get("content") if one["action"] == "accept" else None
            for key, one in given.items()
            if type(one) is dict and one.get("action") in ("accept", "decline", "cancel")
        }
        context = tool_context(request)
        self._check(request, tool, context)
        try:
            await self._workflows.answer(tool, instance, answers, context)
        except InvalidArgumentsError as error:
            raise WireError(INVALID_PARAMS, str(error)) from error
        except Exception as error:
            raise _unanswered(error, tool, context) from error
        return self._answering.modern.result(b"", {})

    async def cancel(self, request: McpRequest) -> bytes:
        """End a task; one that is over stays as it is."""
        _, tool, instance, _ = self._find(request)
        context = tool_context(request)
        self._check(request, tool, context)
        try:
            await self._workflows.cancel(tool, instance, context)
        except Exception as error:
            raise _unanswered(error, tool, context) from error
        return self._answering.modern.result(b"", {})

    def _find(self, request: McpRequest) -> tuple[str, ToolDefinition, str, datetime]:
        if not declares_tasks(request):
            raise tasks_missing()
        task_id = text_of(request, "taskId")
        named = self._answering.seal.signed(_PURPOSE, task_id, _bound())
        if named is None:
            raise _unknown()
        name, instance, created = orjson.loads(named)
        if name not in self._tools:
            raise _unknown()
        return task_id, self._tools[name], instance, datetime.fromtimestamp(created / 1000, UTC)

    def _check(self, request: McpRequest, tool: ToolDefinition, context: ToolContext) -> None:
        if self._guard is not None:
            self._guard.check_tool(tool, {}, context, traceparent_in(request))

    def _described(
        self, tool: ToolDefinition, task_id: str, created: datetime, view: TaskView
    ) -> bytes:
        assert tool.task is not None
        shown: dict[str, Any] = {
            "taskId": task_id,
            "status": view.status,
            "createdAt": _time(created),
            "lastUpdatedAt": _time(max(created, view.updated_at or created)),
            # It is there as long as the workflow is.
            "ttlMs": None,
            "pollIntervalMs": tool.task.poll_interval_ms,
        }
        if view.message is not None:
            shown["statusMessage"] = view.message
        return dump(shown)[1:-1]


def tasks_missing() -> WireError:
    """The answer to a client that would have to know tasks."""
    return WireError(
        MISSING_CAPABILITY,
        f"The client must declare the extension {TASKS}",
        {"requiredCapabilities": {"extensions": {TASKS: {}}}},
    )


def _capabilities(request: McpRequest) -> Mapping[str, Any]:
    found = request.meta.get(CAPABILITIES_KEY)
    return found if type(found) is dict else {}


def _bound() -> str:
    """Whose task it is."""
    principal = asking()
    return dump([principal.subject, principal.service]).decode()


def _unknown() -> WireError:
    return WireError(INVALID_PARAMS, "There is no such task")


def _unanswered(error: Exception, tool: ToolDefinition, context: ToolContext) -> WireError:
    view = report(error, target=tool.name, correlation_id=context.correlation_id)
    code = DECLINED if isinstance(error, CommandError) else INTERNAL_ERROR
    return WireError(code, view.text, {"code": view.code, "correlationId": view.correlation_id})


def _time(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
