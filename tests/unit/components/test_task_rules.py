"""What `@function_tool(task=...)` may say."""

from datetime import timedelta
from typing import Any

import pytest

from greenroom import (
    Effect,
    KeyValueEntity,
    ReadOnlyEffect,
    StepEffect,
    TaskQuestion,
    TaskSettings,
    Workflow,
    component,
    function_tool,
    step,
)
from greenroom.components import define
from greenroom.errors import DefinitionError


def a_job(task: TaskSettings) -> type[Any]:
    @component("job")
    class Job(Workflow[str]):
        """A job."""

        def empty_state(self) -> str:
            return ""

        @function_tool(description="Begins.", task=task)
        def start(self) -> Effect[int]:
            return self.effects.transition_to(self.work).then_reply(1)

        @step
        def work(self) -> StepEffect:
            return self.step_effects.end()

        def result(self) -> ReadOnlyEffect[list[str]]:
            return self.effects.reply([self.state])

        def result_of(self, what: str) -> ReadOnlyEffect[str]:
            return self.effects.reply(what)

        def questions(self) -> ReadOnlyEffect[dict[str, TaskQuestion]]:
            return self.effects.reply({})

        def answer(self, key: str, answer: dict[str, Any] | None) -> Effect[None]:
            return self.effects.update_state(key).then_reply(None)

    return Job


def test_a_tool_as_a_task_is_read() -> None:
    settings = TaskSettings("result", "questions", "answer", poll_interval=timedelta(seconds=2))
    [tool] = define(a_job(settings)).tools

    assert tool.task is not None
    assert tool.task.result.handler.name == "result"
    assert tool.task.poll_interval_ms == 2000
    # Replies and results differ, and clients hold both against the one schema.
    assert tool.output_schema is None


@pytest.mark.parametrize(
    ("settings", "breach"),
    [
        (TaskSettings("missing"), "names 'missing' as its result"),
        (TaskSettings("start"), "only reads, which start is not"),
        (TaskSettings("result_of"), "only reads, which result_of is not"),
        (TaskSettings("result", "result", "answer"), "questions without parameters"),
        (TaskSettings("result", "questions", "result"), "takes the key and what was filled in"),
        (TaskSettings("result", "nobody", "nothing"), "names 'nobody' as its questions"),
    ],
)
def test_what_does_not_fit_is_told(settings: TaskSettings, breach: str) -> None:
    with pytest.raises(DefinitionError, match=breach):
        define(a_job(settings))


def test_an_entity_has_no_tasks() -> None:
    @component("thing")
    class Thing(KeyValueEntity[str]):
        """A thing."""

        def empty_state(self) -> str:
            return ""

        @function_tool(description="Reads.", task=TaskSettings("get"))
        def get(self) -> ReadOnlyEffect[str]:
            return self.effects.reply(self.state)

    with pytest.raises(DefinitionError, match="an entity is done when it answers"):
        define(Thing)


def test_questions_and_answer_belong_together() -> None:
    with pytest.raises(ValueError, match="belong together"):
        TaskSettings("result", questions="questions")
