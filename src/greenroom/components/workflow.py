"""Workflows: durable processes, made of steps that follow each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Generic, Never, Self, TypeVar

from greenroom.components.contexts import StepContext
from greenroom.components.entity import Entity
from greenroom.components.session import PHASE_STEP, WorkflowSession
from greenroom.components.step import (
    MethodCall,
    Retry,
    StepSettings,
    check_duration,
    check_kind,
)
from greenroom.components.workflow_effects import STEP, WORKFLOW, StepEffects, WorkflowEffects

S = TypeVar("S")

RETRY_FOREVER = Retry()
STEP_TIMEOUT = timedelta(seconds=5)
"""How long an attempt of a step may take, unless something else is said (the Akka SDK's figure)."""


@dataclass(frozen=True, slots=True)
class WorkflowSettings:
    """How the instances of a workflow run.

    Args:
        timeout: How long the whole workflow may take, from its first transition. Then it fails,
            or `on_timeout` runs.
        on_timeout: One last step, as `call(self.give_up)`; whatever it returns, the workflow is
            over after it.
        step_timeout: How long an attempt of a step may take, where the step says nothing else.
        recovery: What happens when a step fails, where the step says nothing else. By default
            it is run again until it succeeds.
        steps: Settings of single steps by name, before those of their decorators.
        keep_history: How long what led to the present state can be read; the service's
            `keep_history` by default.
        delete_after: How long after its end an instance is deleted; never by default.
        renamed_steps: New names of steps by the old ones, for instances that are in flight.

    Example:
        >>> WorkflowSettings(step_timeout=timedelta(seconds=10)).timeout is None
        True
    """

    timeout: timedelta | None = None
    on_timeout: MethodCall | None = None
    step_timeout: timedelta = STEP_TIMEOUT
    recovery: Retry = RETRY_FOREVER
    steps: Mapping[str, StepSettings] = field(default_factory=dict)
    keep_history: timedelta | None = None
    delete_after: timedelta | None = None
    renamed_steps: Mapping[str, str | Callable[..., object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kind("recovery", self.recovery, Retry)
        check_kind("on_timeout", self.on_timeout, MethodCall | None)
        for name, one in self.steps.items():
            check_kind(f"steps[{name!r}]", one, StepSettings)
        check_duration("timeout", self.timeout)
        check_duration("step_timeout", self.step_timeout)
        check_duration("keep_history", self.keep_history)
        check_duration("delete_after", self.delete_after)
        if self.on_timeout is not None and self.timeout is None:
            message = "on_timeout needs a timeout"
            raise ValueError(message)


class Workflow(Entity[S], Generic[S]):
    """A durable process: a state, and steps that follow each other whatever happens.

    Commands are public methods that return an `Effect`; they compute, start and steer. Steps
    are methods with `@step` that return a `StepEffect`; they do the work, and may call
    components with a client that the constructor asks for. The state and the next step are
    stored together, before the step runs. After a crash the step that was under way runs
    again; its calls to components are not carried out twice.

    A new object is made for each command and each step: keep nothing in attributes.

    Example:
        >>> @component("transfer")                                        # doctest: +SKIP
        ... class Transfer(Workflow[TransferState]):
        ...     def __init__(self, client: ComponentClient) -> None:
        ...         self.client = client
        ...
        ...     def start(self, amount: int) -> Effect[str]:
        ...         return self.effects.transition_to(self.withdraw, amount).then_reply("started")
        ...
        ...     @step
        ...     def withdraw(self, amount: int) -> StepEffect:
        ...         self.client.for_event_sourced_entity(Wallet, "a").ask(Wallet.withdraw, amount)
        ...         return self.step_effects.end()
    """

    kind: ClassVar[str] = "workflow"

    _greenroom: WorkflowSession[S]

    def settings(self) -> WorkflowSettings:
        """How instances run. Override it; asked once, when the service starts."""
        return WorkflowSettings()

    @property
    def workflow_id(self) -> str:
        """The id of this instance."""
        return self._greenroom.entity_id

    @property
    def step_context(self) -> StepContext:
        """About the step that runs; only in a step."""
        session = self._greenroom
        if session.phase != PHASE_STEP or session.step is None:
            self._refuse("step_context", "in a step")
        return session.step

    @property
    def effects(self) -> WorkflowEffects[S]:
        """Builds what a command handler returns."""
        return WORKFLOW

    @property
    def step_effects(self) -> StepEffects[S]:
        """Builds what a step returns."""
        return STEP

    def _kind(self) -> tuple[Self, S, Never]:
        raise NotImplementedError
