"""The workflows behind the tasks that the conformance suite asks for."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from pydantic import BaseModel

from greenroom import (
    Effect,
    ReadOnlyEffect,
    StepEffect,
    TaskQuestion,
    TaskSettings,
    ToolContext,
    Workflow,
    call,
    component,
    function_tool,
    step,
)


def new_id(context: ToolContext) -> str:
    """One workflow for each call."""
    return context.idempotency_key or uuid4().hex


class Confirmation(BaseModel):
    """A form."""

    confirm: bool


class Answer(BaseModel):
    """What the suite fills in."""

    name: str = ""
    confirm: bool = False


@component("computation")
class Computation(Workflow[str]):
    """Takes its time."""

    def empty_state(self) -> str:
        return ""

    @function_tool(
        name="slow_compute", description="Computes slowly.", task=TaskSettings(result="result")
    )
    def start(self, seconds: float, label: str = "") -> Effect[str]:
        begun = self.effects.update_state(label)
        if seconds <= 0:
            return begun.transition_to(self.compute).then_reply("begun")
        late = timedelta(seconds=seconds)
        return begun.pause("computing", timeout=late, on_timeout=call(self.go_on)).then_reply(
            "begun"
        )

    def go_on(self) -> Effect[None]:
        return self.effects.transition_to(self.compute).then_reply(None)

    @step
    def compute(self) -> StepEffect:
        return self.step_effects.end()

    def result(self) -> ReadOnlyEffect[str]:
        return self.effects.reply(f"computed {self.state}")


@component("failing-job")
class FailingJob(Workflow[str]):
    """Comes to nothing."""

    def empty_state(self) -> str:
        return ""

    @function_tool(
        name="failing_job",
        description="Fails.",
        task=TaskSettings(result="result", required=True),
    )
    def start(self) -> Effect[str]:
        return self.effects.transition_to(self.work).then_reply("begun")

    @step
    def work(self) -> StepEffect:
        return self.step_effects.fail("there was nothing to do")

    def result(self) -> ReadOnlyEffect[str]:
        return self.effects.error("The job failed.")


@component("broken-job")
class BrokenJob(Workflow[str]):
    """Ends, and can't say with what."""

    def empty_state(self) -> str:
        return ""

    @function_tool(
        name="protocol_error_job", description="Breaks.", task=TaskSettings(result="result")
    )
    def start(self) -> Effect[str]:
        return self.effects.transition_to(self.work).then_reply("begun")

    @step
    def work(self) -> StepEffect:
        return self.step_effects.end()

    def result(self) -> ReadOnlyEffect[str]:
        raise RuntimeError("secret")


QUESTION = "Shall it be done?"


@component("confirmed-job")
class ConfirmedJob(Workflow[dict[str, bool]]):
    """Goes on when everything it asks has been answered."""

    def empty_state(self) -> dict[str, bool]:
        return {}

    @function_tool(
        name="confirm_delete",
        description="Deletes a file when somebody agrees.",
        task=TaskSettings(result="result", questions="questions", answer="answered"),
    )
    def delete(self, filename: str) -> Effect[str]:
        return self._ask(filename)

    @function_tool(
        name="multi_input",
        description="Asks two things.",
        task=TaskSettings(result="result", questions="questions", answer="answered"),
    )
    def ask_two(self) -> Effect[str]:
        return self._ask("first", "second")

    def _ask(self, *keys: str) -> Effect[str]:
        waiting = self.effects.update_state(dict.fromkeys(keys, False))
        return waiting.pause("needs an answer").then_reply("asked")

    def questions(self) -> ReadOnlyEffect[dict[str, TaskQuestion]]:
        asked = {key: TaskQuestion.of(QUESTION, Confirmation) for key in self.state}
        return self.effects.reply({key: asked[key] for key, done in self.state.items() if not done})

    def answered(self, key: str, answer: Answer | None) -> Effect[None]:
        state = self.state | {key: True}
        changed = self.effects.update_state(state)
        if answer is None:
            return changed.fail("declined").then_reply(None)
        if all(state.values()):
            return changed.transition_to(self.work).then_reply(None)
        return changed.then_reply(None)

    @step
    def work(self) -> StepEffect:
        return self.step_effects.end()

    def result(self) -> ReadOnlyEffect[str]:
        return self.effects.reply(f"done: {', '.join(self.state)}")


@component("greeting-job")
class GreetingJob(Workflow[str]):
    """Greets somebody whose name was asked for first."""

    def empty_state(self) -> str:
        return ""

    @function_tool(description="Greets.", task=TaskSettings(result="result"))
    def start(self, name: str) -> Effect[str]:
        return self.effects.update_state(name).transition_to(self.work).then_reply("begun")

    @step
    def work(self) -> StepEffect:
        return self.step_effects.end()

    def result(self) -> ReadOnlyEffect[str]:
        return self.effects.reply(f"Hello, {self.state}!")


WORKFLOWS = [Computation, FailingJob, BrokenJob, ConfirmedJob, GreetingJob]
TOOLS = [one.tools(bind=new_id) for one in WORKFLOWS[:-1]] + [GreetingJob.tools()]
