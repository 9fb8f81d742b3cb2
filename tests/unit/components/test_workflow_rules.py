"""Every breach of the rules of workflows, told at once with class and method."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from greenroom import (
    BranchEffect,
    Compensate,
    ComponentClient,
    Effect,
    Retry,
    StepEffect,
    StepSettings,
    Workflow,
    WorkflowSettings,
    call,
    component,
    function_tool,
    step,
    type_name,
)
from greenroom.components import define
from greenroom.errors import DefinitionError
from greenroom.runtime import Runtime
from greenroom.settings import Settings


@type_name("ticket")
class Ticket(BaseModel, frozen=True):
    number: int


class Nameless(BaseModel):
    number: int


class Good(Workflow[int]):
    def empty_state(self) -> int:
        return 0

    def start(self) -> Effect[str]:
        return self.effects.transition_to(self.work, Ticket(number=1)).then_reply("ok")

    @step
    def work(self, ticket: Ticket) -> StepEffect:
        return self.step_effects.end()


def problems_of(cls: type[Any]) -> list[str]:
    with pytest.raises(DefinitionError) as raised:
        define(component("bad")(cls))
    return list(raised.value.problems)


def test_a_workflow_is_read_with_its_steps() -> None:
    definition = define(component("good")(Good))

    assert definition.kind == "workflow"
    assert list(definition.steps) == ["work"]
    assert list(definition.handlers) == ["start"]
    assert [one.name for one in definition.steps["work"].parameters] == ["ticket"]


def test_a_workflow_may_ask_for_clients() -> None:
    @component("calling")
    class Calling(Good):
        def __init__(self, client: ComponentClient) -> None: ...

    assert define(Calling).dependencies == {"client": ComponentClient}


def test_steps_are_inherited_and_named() -> None:
    @component("child")
    class Child(Good):
        @step(name="renamed-step")
        async def later(self) -> StepEffect:
            return self.step_effects.end()

    definition = define(Child)

    assert sorted(definition.steps) == ["renamed-step", "work"]
    assert definition.steps["renamed-step"].is_async


def test_every_breach_is_told_at_once() -> None:
    class Bad(Workflow[int]):
        def empty_state(self) -> int:
            return 0

        def start(self) -> Effect[str]: ...

        def no_mark(self) -> StepEffect: ...

        @step
        def no_effect(self) -> int: ...

        @step
        def nothing(self): ...  # type: ignore[no-untyped-def]

        @step
        def nameless(self, one: Nameless) -> StepEffect: ...

        @step
        def untyped(self, one) -> StepEffect: ...  # type: ignore[no-untyped-def]

        @step
        def many(self, *more: int) -> StepEffect: ...

        @step(name="a,b")
        def badly_named(self) -> StepEffect: ...

        @step(name="twice")
        def first(self) -> StepEffect: ...

        @step(name="twice")
        def second(self) -> StepEffect: ...

        @step
        @function_tool
        def tool(self) -> StepEffect: ...

        @step
        def branch(self) -> BranchEffect[Nameless]: ...

        @staticmethod
        @step
        def static() -> StepEffect: ...

    told = "\n".join(problems_of(Bad))

    for said in (
        "Bad.no_mark returns StepEffect, but has no @step",
        "Bad.no_effect must return a StepEffect",
        "Bad.nothing must return a StepEffect",
        "Bad.nameless: one is stored as Nameless, which has no permanent name",
        "Bad.untyped: one has no type, and is stored",
        "Bad.many: more must be an ordinary parameter",
        "Bad.badly_named: the step name 'a,b' must be letters",
        "Bad.second and .first are both the step 'twice'",
        "Bad.tool is a step; only command handlers are tools",
        "Bad.branch has a result of Nameless, which has no permanent name",
        "Bad.static is a static or class method; a step takes self",
    ):
        assert said in told, told


def test_a_workflow_without_steps_is_none() -> None:
    class Stepless(Workflow[int]):
        def empty_state(self) -> int:
            return 0

        def start(self) -> Effect[str]: ...

    assert problems_of(Stepless) == [
        f"{Stepless.__qualname__} has no steps: methods with @step that return a StepEffect"
    ]


def test_a_step_that_is_overridden_must_say_so() -> None:
    class Careless(Good):
        def work(self, ticket: Ticket) -> Any:
            return None

    assert problems_of(Careless)[0] == (
        f"{Careless.__qualname__}.work overrides a step; give it @step too"
    )


def settings_problems(settings: object) -> list[str]:
    class Configured(Good):
        def settings(self) -> Any:
            if isinstance(settings, Exception):
                raise settings
            return settings(self) if callable(settings) else settings

        @step
        def quote(self) -> BranchEffect[int]:
            return self.step_effects.result(1)

    with pytest.raises(DefinitionError) as raised:
        Runtime(
            [component("configured")(Configured)],
            settings=Settings(database_url="sqlite:///unused.db"),
        )
    return [one.split(".settings: ")[1] for one in raised.value.problems]


class Other(Workflow[int]):
    @step
    def elsewhere(self) -> StepEffect: ...


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ValueError("no idea"), "it raised ValueError: no idea"),
        ("nothing", "it must return WorkflowSettings"),
        (
            lambda self: WorkflowSettings(recovery=Retry(1, failover_to=call(Other.elsewhere))),
            "Other.elsewhere is no step of Configured",
        ),
        (
            lambda self: WorkflowSettings(recovery=Retry(1, failover_to=call(self.work))),
            "does not fit the step work(ticket)",
        ),
        (
            lambda self: WorkflowSettings(recovery=Retry(1, failover_to=call(self.quote))),
            "quote is a branch",
        ),
        (
            lambda self: WorkflowSettings(
                recovery=Retry(1, failover_to=Compensate(then=self.work))
            ),
            "then of Compensate is a step as call(self.step, ...), not <bound method",
        ),
        (
            lambda self: WorkflowSettings(recovery=Retry(1, failover_to=self.work)),
            "failover_to is a step as call(self.step, ...), Fail(...) or Compensate()",
        ),
        (
            lambda self: WorkflowSettings(
                recovery=Retry(1, on={OSError: Retry(1, failover_to=call(self.start))})
            ),
            "recovery.on[OSError]",
        ),
        (
            WorkflowSettings(timeout=timedelta(seconds=3)),
            "must be longer than that of its step work, 5 s",
        ),
        (WorkflowSettings(steps={"wrok": StepSettings()}), "steps has 'wrok', which is no step"),
        (WorkflowSettings(renamed_steps={"work": "quote"}), "'work', which is still a step"),
        (WorkflowSettings(renamed_steps={"old": "new"}), "from 'old' to 'new', which is no step"),
    ],
)
def test_settings_are_checked_at_start(settings: object, said: str) -> None:
    told = settings_problems(settings)

    assert any(said in one for one in told), told


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: WorkflowSettings(timeout=timedelta(0)),
        lambda: WorkflowSettings(step_timeout=timedelta(seconds=-1)),
        lambda: WorkflowSettings(on_timeout=call(Good.work)),  # type: ignore[call-arg]
        lambda: Retry(-1),
        lambda: step(timeout=timedelta(0))(lambda: None),
    ],
)
def test_settings_that_can_t_be_are_refused_where_they_are_written(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        wrong()
