"""Workflows as tasks: how they stand, what they ask, what came of them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from greenroom.components import STATUS, TERMINATE, TaskQuestion, render
from greenroom.errors import CommandError, HandlerError
from greenroom.ids import entity_ref
from greenroom.runtime import CallRequest

if TYPE_CHECKING:
    from greenroom.components import (
        HandlerDefinition,
        HistoryEntry,
        TaskDefinition,
        ToolContext,
        ToolDefinition,
        ToolResult,
        WorkflowStatus,
    )
    from greenroom.edge._audit import Audit
    from greenroom.ids import EntityRef
    from greenroom.runtime import Answer

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]

_STATUSES: Mapping[str, TaskStatus] = {
    "ended": "completed",
    "failed": "completed",
    "terminated": "cancelled",
}
"""Of workflows that are over; the others are at work. A task is `failed` when its result can't be
had, for the protocol keeps the word for errors of its own."""


class Runtime(Protocol):
    """What a workflow is asked through."""

    async def call(self, request: CallRequest) -> Answer:
        """The handler's answer; errors are raised."""
        ...

    def history(self, ref: EntityRef, after: int, limit: int) -> list[HistoryEntry]:
        """What a workflow has been through. Blocks on the database."""
        ...


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as the client sees it."""

    status: TaskStatus
    message: str | None
    """For the person at the client."""
    updated_at: datetime | None
    """When something was last stored of it."""
    questions: Mapping[str, TaskQuestion] = field(default_factory=dict)
    result: ToolResult | Exception | None = None
    """What came of it, or why there is nothing."""
    is_error: bool = False


class TaskCaller:
    """Looks at tasks, answers what they ask, and ends them.

    Nothing is kept: a task is the workflow itself, so any process can be asked, and after a
    restart too.

    Args:
        runtime: Carries the calls to workflows.
        audit: Where answers and cancellations are recorded.
    """

    def __init__(self, runtime: Runtime, audit: Audit | None = None) -> None:
        self._runtime = runtime
        self._audit = audit

    async def look(
        self,
        tool: ToolDefinition,
        instance: str,
        context: ToolContext,
        *,
        whole: bool = True,
        asks: bool = True,
    ) -> TaskView | None:
        """How a task stands; None when there is none.

        Args:
            tool: The tool that began it.
            instance: The workflow's id.
            context: Of the request.
            whole: Whether to ask for its questions and its result.
            asks: Whether the client can be asked.
        """
        task = _task_of(tool)
        ref = entity_ref(tool.handler.component, instance)
        answer = await self._ask(ref, task.operations[STATUS], (), context)
        found: WorkflowStatus = answer.value
        if found.status in ("not-started", "deleted"):
            return None
        newest = await asyncio.to_thread(
            self._runtime.history, ref, max(0, answer.sequence_number - 1), 1
        )
        updated_at = newest[0].timestamp if newest else None
        view = TaskView(_STATUSES.get(found.status, "working"), _message(found), updated_at)
        if not whole or found.suspended:
            return view
        if view.status == "completed":
            return await self._with_result(
                view, task, ref, context, failed=found.status == "failed"
            )
        if found.status == "paused" and asks:
            questions = await self._questions(task, ref, context)
            if questions:
                return replace(view, status="input_required", questions=questions)
        return view

    async def answer(
        self,
        tool: ToolDefinition,
        instance: str,
        given: Mapping[str, Any],
        context: ToolContext,
    ) -> None:
        """Give a workflow the answers to what it asks; others are ignored.

        Args:
            tool: The tool that began the task.
            instance: The workflow's id.
            given: What was filled in, by key; None for what the person declined to answer.
            context: Of the request.

        Raises:
            InvalidArgumentsError: An answer does not fit.
            CommandError: The workflow declined it.
        """
        task = _task_of(tool)
        ref = entity_ref(tool.handler.component, instance)
        asked = await self._questions(task, ref, context)
        if task.answer is None:
            return
        key_parameter, answer_parameter = (one.name for one in task.answer.parameters)
        for key in given.keys() & asked.keys():
            values = task.answer.bind_mapping({key_parameter: key, answer_parameter: given[key]})
            # Keys are not used twice, so an answer that comes again is the same answer.
            text = f"{ref.component}\0{ref.instance}\0{key}"
            once = "task-" + hashlib.blake2b(text.encode(), digest_size=20).hexdigest()
            await self._change(tool, ref, task.answer, values, context, idempotency_key=once)

    async def cancel(self, tool: ToolDefinition, instance: str, context: ToolContext) -> None:
        """End a workflow at once; nothing happens to one that is over."""
        ref = entity_ref(tool.handler.component, instance)
        terminate = _task_of(tool).operations[TERMINATE]
        await self._change(tool, ref, terminate, ("cancelled by the client",), context)

    async def _change(
        self,
        tool: ToolDefinition,
        ref: EntityRef,
        handler: HandlerDefinition,
        values: tuple[Any, ...],
        context: ToolContext,
        *,
        idempotency_key: str | None = None,
    ) -> None:
        as_tool = replace(tool, handler=handler)
        try:
            await self._ask(ref, handler, values, context, idempotency_key=idempotency_key)
        except (Exception, asyncio.CancelledError) as error:
            if self._audit is not None:
                self._audit.failed(as_tool, {}, context, error, [ref.instance], None)
            raise
        if self._audit is not None:
            self._audit.record(as_tool, {}, context, instance=ref.instance)

    async def _with_result(
        self,
        view: TaskView,
        task: TaskDefinition,
        ref: EntityRef,
        context: ToolContext,
        *,
        failed: bool,
    ) -> TaskView:
        try:
            answer = await self._ask(ref, task.result.handler, (), context)
            return replace(view, result=render(task.result, answer.json), is_error=failed)
        except CommandError as error:
            return replace(view, result=error, is_error=True)
        except (HandlerError, ValueError) as error:
            # The same whenever it is asked for. Other errors pass: the client asks again.
            return replace(view, status="failed", result=error, is_error=True)

    async def _questions(
        self, task: TaskDefinition, ref: EntityRef, context: ToolContext
    ) -> Mapping[str, TaskQuestion]:
        if task.questions is None:
            return {}
        asked: Mapping[str, TaskQuestion] = (
            await self._ask(ref, task.questions, (), context)
        ).value
        return asked

    async def _ask(
        self,
        ref: EntityRef,
        handler: HandlerDefinition,
        values: tuple[Any, ...],
        context: ToolContext,
        *,
        idempotency_key: str | None = None,
    ) -> Answer:
        return await self._runtime.call(
            CallRequest(
                ref=ref,
                handler=handler,
                values=values,
                idempotency_key=idempotency_key,
                principal=context.principal.subject,
                correlation_id=context.correlation_id,
            )
        )


def _message(found: WorkflowStatus) -> str | None:
    """What may be said about a status: the reasons of failures can come from exceptions."""
    if found.suspended:
        return "suspended"
    return found.reason if found.status in ("paused", "ended", "terminated") else None


def _task_of(tool: ToolDefinition) -> TaskDefinition:
    assert tool.task is not None, f"{tool.name} is no task"
    return tool.task
