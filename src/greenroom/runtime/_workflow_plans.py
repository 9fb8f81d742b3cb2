"""What a workflow's settings come to, step by step; asked and checked once, at start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from greenroom.components import (
    Compensate,
    ComponentDefinition,
    Fail,
    MethodCall,
    Retry,
    StepDefinition,
    WorkflowSession,
    WorkflowSettings,
    new_instance,
)
from greenroom.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step, with what its decorator and the workflow's settings say together."""

    definition: StepDefinition
    timeout_ms: int
    recovery: Retry
    as_compensation: Retry
    """Its own policy, or else again until it succeeds: what `WorkflowSettings.recovery` says of
    steps that fail would leave the compensations before it undone."""


@dataclass(frozen=True, slots=True)
class WorkflowPlan:
    """How the instances of one workflow run."""

    settings: WorkflowSettings
    steps: Mapping[str, StepPlan]
    """By their stored names, the old ones too."""
    timeout_ms: int | None
    delete_after_ms: int | None
    renamed: Mapping[str, str] = field(default_factory=dict)

    def step(self, name: str) -> StepPlan | None:
        """The plan of a stored step; None when the code has no such step any more."""
        return self.steps.get(name)


def plan_workflows(
    definitions: Iterable[ComponentDefinition], dependencies: Mapping[str, Mapping[str, Any]]
) -> dict[str, WorkflowPlan]:
    """Ask every workflow for its settings.

    Raises:
        DefinitionError: Lists everything in them that can't be.
    """
    plans: dict[str, WorkflowPlan] = {}
    problems: list[str] = []
    for definition in definitions:
        if definition.kind != "workflow":
            continue
        plan, wrong = _plan(definition, dependencies[definition.id])
        problems += [f"{definition.cls.__qualname__}.settings: {one}" for one in wrong]
        if plan is not None:
            plans[definition.id] = plan
    if problems:
        raise DefinitionError(problems)
    return plans


def _plan(
    definition: ComponentDefinition, dependencies: Mapping[str, Any]
) -> tuple[WorkflowPlan | None, list[str]]:
    try:
        entity = new_instance(definition, WorkflowSession("settings"), dependencies)
        settings = entity.settings()
    except Exception as error:
        return None, [f"it raised {type(error).__name__}: {error}"]
    if not isinstance(settings, WorkflowSettings):
        return None, [f"it must return WorkflowSettings, not {settings!r}"]
    problems = list(_wrong_references(definition, settings))
    problems += _wrong_times(definition, settings)
    renamed, wrong = _renamed(definition, settings)
    problems += wrong
    if problems:
        return None, problems
    steps = {name: _step_plan(one, settings) for name, one in definition.steps.items()}
    steps |= {old: steps[new] for old, new in renamed.items()}
    return (
        WorkflowPlan(
            settings,
            steps,
            None if settings.timeout is None else _ms(settings.timeout),
            None if settings.delete_after is None else _ms(settings.delete_after),
            renamed,
        ),
        [],
    )


def _step_plan(step: StepDefinition, settings: WorkflowSettings) -> StepPlan:
    said = settings.steps.get(step.name)
    timeout = (said.timeout if said else None) or step.timeout or settings.step_timeout
    own = (said.recovery if said else None) or step.recovery
    until_done = Retry(backoff=settings.recovery.backoff)
    return StepPlan(step, _ms(timeout), own or settings.recovery, own or until_done)


def _wrong_references(definition: ComponentDefinition, settings: WorkflowSettings) -> Iterator[str]:
    if settings.on_timeout is not None:
        yield from _wrong_step(definition, "on_timeout", settings.on_timeout)
    yield from _wrong_recovery(definition, "recovery", settings.recovery)
    for name, said in settings.steps.items():
        if name not in definition.steps:
            known = ", ".join(definition.steps)
            yield f"steps has {name!r}, which is no step; the steps are: {known}"
        if said.recovery is not None:
            yield from _wrong_recovery(definition, f"steps[{name!r}].recovery", said.recovery)
    for step in definition.steps.values():
        if step.recovery is not None:
            yield from _wrong_recovery(definition, f"@step of {step.method}", step.recovery)


def _wrong_recovery(definition: ComponentDefinition, where: str, policy: Retry) -> Iterator[str]:
    target = policy.failover_to
    if isinstance(target, Compensate):
        target = target.then
        if target is not None and not isinstance(target, MethodCall):
            yield f"{where}: then of Compensate is a step as call(self.step, ...), not {target!r}"
            target = None
    if isinstance(target, MethodCall):
        yield from _wrong_step(definition, where, target)
    elif target is not None and not isinstance(target, Fail):
        yield f"{where}: failover_to is a step as call(self.step, ...), Fail(...) or Compensate()"
    for kind, inner in policy.on.items():
        yield from _wrong_recovery(definition, f"{where}.on[{kind.__name__}]", inner)


def _wrong_step(definition: ComponentDefinition, where: str, call: MethodCall) -> Iterator[str]:
    try:
        step = definition.step_for(call.function)
        step.bind(call)
    except (LookupError, TypeError) as error:
        yield f"{where}: {error}"
    else:
        if step.result is not None:
            yield f"{where}: {step.method} is a branch; it can't be gone on with"


def _wrong_times(definition: ComponentDefinition, settings: WorkflowSettings) -> Iterator[str]:
    if settings.timeout is None:
        return
    for step in definition.steps.values():
        timeout_ms = _step_plan(step, settings).timeout_ms
        if timeout_ms >= _ms(settings.timeout):
            yield (
                f"the timeout of the workflow, {settings.timeout}, must be longer than that of "
                f"its step {step.name}, {timeout_ms / 1000:g} s"
            )


def _renamed(
    definition: ComponentDefinition, settings: WorkflowSettings
) -> tuple[dict[str, str], list[str]]:
    renamed: dict[str, str] = {}
    problems = []
    for old, new in settings.renamed_steps.items():
        name = new if isinstance(new, str) else _name_of(definition, new)
        if old in definition.steps:
            problems.append(f"renamed_steps has {old!r}, which is still a step")
        if name not in definition.steps:
            problems.append(f"renamed_steps leads from {old!r} to {name!r}, which is no step")
        else:
            renamed[old] = name
    return renamed, problems


def _name_of(definition: ComponentDefinition, function: Callable[..., object]) -> str:
    try:
        return definition.step_for(function).name
    except LookupError:
        return getattr(function, "__name__", repr(function))


def _ms(duration: Any) -> int:
    return max(1, int(duration.total_seconds() * 1000))
