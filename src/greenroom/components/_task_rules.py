"""Checks what `@function_tool(task=...)` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import get_args

from greenroom.components.handlers import HandlerDefinition
from greenroom.components.schema import output_schema, shape_of
from greenroom.components.tasks import TaskQuestion, TaskSettings
from greenroom.components.tools import TaskDefinition, ToolDefinition

_ANSWER_PARAMETERS = 2


def read_task(
    tool: ToolDefinition,
    settings: TaskSettings,
    handlers: Mapping[str, HandlerDefinition],
    operations: Mapping[str, HandlerDefinition],
) -> tuple[ToolDefinition, list[str]]:
    """The tool as a task, and what is wrong with it.

    Args:
        tool: The tool of the command that starts the workflow.
        settings: What was said about the task.
        handlers: Those of the component.
        operations: What every workflow answers to; nothing where the component is none.
    """
    problems = list(_problems(tool.handler, settings, handlers, is_workflow=bool(operations)))
    if problems:
        where = f"{tool.handler.target}: @function_tool(task=...)"
        return tool, [f"{where} {one}" for one in problems]
    found = handlers[settings.result]
    result = replace(
        tool, handler=found, shape=shape_of(found.reply_type), output_schema=output_schema(found)
    )
    task = TaskDefinition(
        result=result,
        operations=operations,
        poll_interval_ms=int(settings.poll_interval.total_seconds() * 1000),
        required=settings.required,
        questions=None if settings.questions is None else handlers[settings.questions],
        answer=None if settings.answer is None else handlers[settings.answer],
    )
    # A client may be answered with either, and holds both against the one schema.
    same = result.output_schema == tool.output_schema
    return replace(tool, task=task, output_schema=tool.output_schema if same else None), []


def _problems(
    handler: HandlerDefinition,
    settings: TaskSettings,
    handlers: Mapping[str, HandlerDefinition],
    *,
    is_workflow: bool,
) -> Iterator[str]:
    if not is_workflow:
        yield "is for workflows; an entity is done when it answers"
        return
    if handler.read_only:
        yield "is for a command that starts the workflow, and this one only reads"
    named = {"result": settings.result, "questions": settings.questions, "answer": settings.answer}
    for word, name in named.items():
        if name is not None and name not in handlers:
            yield f"names {name!r} as its {word}, and the workflow has no such handler"
    result = handlers.get(settings.result)
    if result is not None and not _only_asks(result):
        yield f"needs a result without parameters that only reads, which {settings.result} is not"
    questions = handlers.get(settings.questions or "")
    if questions is not None and not (
        _only_asks(questions) and get_args(questions.reply_type)[-1:] == (TaskQuestion,)
    ):
        yield (
            f"needs questions without parameters, of type ReadOnlyEffect[dict[str, TaskQuestion]], "
            f"which {settings.questions} is not"
        )
    answer = handlers.get(settings.answer or "")
    if answer is not None and (answer.read_only or len(answer.parameters) != _ANSWER_PARAMETERS):
        yield f"needs an answer that takes the key and what was filled in; {settings.answer} does not"


def _only_asks(handler: HandlerDefinition) -> bool:
    return handler.read_only and not handler.parameters
