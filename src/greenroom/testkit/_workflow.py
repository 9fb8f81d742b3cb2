"""One workflow in a service of its own: held, crashed and hurried through time by a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from greenroom.components import Effect, HistoryEntry, Kinded, WorkflowStatus, define
from greenroom.ids import EntityRef
from greenroom.service import Service
from greenroom.testkit._service import ServiceTestKit

if TYPE_CHECKING:
    from greenroom.runtime import CallRequest, DependencyProvider, StepRun, WorkflowClient
    from greenroom.settings import Settings

C = TypeVar("C")
S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

STOP, CRASH_BEFORE, CRASH_AFTER = "stop_before", "crash_before", "crash_after"


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call that a step has made to a component.

    Example:
        >>> StepCall("withdraw", "wallet", "ada", "take", {"amount": 5}).instance
        'ada'
    """

    step: str
    component: str
    instance: str
    handler: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


class WorkflowTestKit(ServiceTestKit, Generic[C, S]):
    """Tests a workflow: it runs as it does in a service, on a temporary SQLite file.

    Time stands still until `advance`. Whatever is done with the kit, it comes back when nothing
    happens any more, so that a test looks at what has become, and never waits. Steps run by
    themselves; arrange beforehand where they are to stop, or the process is to die.

    Args:
        workflow: The workflow's class.
        workflow_id: The id of the instance under test.
        dependencies: What constructors are given, by type, or a provider; clients are given
            anyway.
        components: Other components: what its steps call, its children.
        settings: How the service runs; read from the environment by default, as anywhere.
        patience: Seconds (of real time) after which a step that has not come back hangs.

    Example:
        >>> with WorkflowTestKit(Transfer, components=[Wallet]) as kit:   # doctest: +SKIP
        ...     kit.crash_after(Transfer.deposit)
        ...     kit.ask(Transfer.start, "ada", "grace", 5)
        ...     assert kit.trace == ["withdraw", "deposit", "deposit"]
        ...     assert kit.status().status == "ended"
    """

    def __init__(
        self,
        workflow: type[Kinded[C, S, Any]],
        *,
        workflow_id: str = "testkit-workflow",
        dependencies: Mapping[type[Any], object] | DependencyProvider | None = None,
        components: Sequence[type] = (),
        settings: Settings | None = None,
        patience: float = 1.0,
    ) -> None:
        self._class: Any = workflow
        self._definition = define(workflow)
        self._ref = EntityRef(self._definition.id, workflow_id)
        service = Service(
            "testkit",
            components=[workflow, *components],
            dependencies=dependencies,
            settings=settings,
        )
        super().__init__(service, patience=patience)
        self._arranged: list[tuple[str, str]] = []
        self._held: list[_Held] = []
        self.trace: list[str] = []
        """The steps whose code has been run, in order, each as often as it was."""
        self.calls: list[StepCall] = []
        """The calls that the steps have made to components, the read-only ones included."""

    # -- looking ---------------------------------------------------------------------------

    @property
    def state(self) -> S:
        """The state that is stored."""
        state: S = self.client.state_at(self._class, self._ref.instance)
        return state

    def status(self) -> WorkflowStatus:
        """Where the workflow stands."""
        return self.workflow.status()

    @property
    def history(self) -> list[HistoryEntry]:
        """What it has been through."""
        return self.client.workflow_history(self._class, self._ref.instance)

    @property
    def workflow(self) -> WorkflowClient[C]:
        """Calls the workflow as its users do; `settle` afterwards."""
        return self.client.for_workflow(self._class, self._ref.instance)

    # -- acting ----------------------------------------------------------------------------

    def ask(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Send a command, and let the workflow go as far as it comes.

        Raises:
            CommandError: The workflow declined.
            AssertionError: A step is held up, and the command would wait for its end.
            GreenroomError: See `greenroom.errors`.
        """
        if self._held and not self._definition.handler_for(handler).read_only:
            message = (
                f"{self._held[0].step} is held up, and a command waits for the end of the step: "
                "say kit.go_on() first"
            )
            raise AssertionError(message)
        reply = self.workflow.ask(handler, *args, **kwargs)
        self.settle()
        return reply

    def suspend(self, reason: str | None = None) -> None:
        """Suspend the workflow; see `WorkflowClient.suspend`."""
        self.workflow.suspend(reason)
        self.settle()

    def resume(self) -> None:
        """Resume the workflow; see `WorkflowClient.resume`."""
        self.workflow.resume()
        self.settle()

    def terminate(self, reason: str | None = None) -> None:
        """Terminate the workflow; see `WorkflowClient.terminate`."""
        self.workflow.terminate(reason)
        self.settle()

    # -- arranging -------------------------------------------------------------------------

    def stop_before(self, step: Callable[..., Any] | str) -> None:
        """Hold the next attempt of a step up, before its code runs, until `go_on`.

        It is as if the step hung: let its timeout pass with `advance` to see what comes then.

        Raises:
            LookupError: The workflow has no such step.
        """
        self._arrange(STOP, step)

    def crash_before(self, step: Callable[..., Any] | str) -> None:
        """Let the process die just before the next attempt of a step, and come back.

        Raises:
            LookupError: The workflow has no such step.
        """
        self._arrange(CRASH_BEFORE, step)

    def crash_after(self, step: Callable[..., Any] | str) -> None:
        """Let the process die when a step's code has run and its result is not stored yet.

        The process comes back, and the step runs again.

        Raises:
            LookupError: The workflow has no such step.
        """
        self._arrange(CRASH_AFTER, step)

    def _arrange(self, what: str, step: Callable[..., Any] | str) -> None:
        steps = self._definition.steps
        if isinstance(step, str) and step not in steps:
            message = f"{self._class.__name__} has no step {step!r}; it has: {', '.join(steps)}"
            raise LookupError(message)
        name = step if isinstance(step, str) else self._definition.step_for(step).name
        self._arranged.append((what, name))

    def go_on(self) -> None:
        """Let the steps run that are held up.

        Raises:
            AssertionError: None is.
        """
        held = [one for one in self._held if one.is_waiting()]
        if not held:
            arranged = ", ".join(f"{what}({step!r})" for what, step in self._arranged)
            message = f"nothing is held up; arranged and not come to: {arranged or 'nothing'}"
            raise AssertionError(message)
        self._held = []
        for one in held:
            one.release()
        self.settle()

    def crash(self) -> None:
        """Let the process die now, and come back on the same file.

        What was acknowledged is still there; steps that were under way run again.
        """
        self._die()
        self.settle()

    def settle(self) -> None:
        """Wait until nothing happens any more; then die and come back, if that was arranged."""
        super().settle()
        while any(one.dies for one in self._held):
            self._die()
            super().settle()

    # -- the seam --------------------------------------------------------------------------

    def _prepare(self, service: Service) -> None:
        service.runtime.wrap_steps(self._wrap)

    def _die(self) -> None:
        self.service.runtime.crash()
        self._let_go()
        self._start()

    def _stop(self) -> None:
        # A step that is held up would be waited for.
        held = any(one.is_waiting() for one in self._held)
        if held and self.service.runtime.is_running:
            self.service.runtime.crash()
        self._let_go()
        super()._stop()

    def _let_go(self) -> None:
        held, self._held = self._held, []
        for one in held:
            one.abandon()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is None and self._arranged:
            arranged = ", ".join(f"{what}({step!r})" for what, step in self._arranged)
            message = f"it never came to what was arranged: {arranged}"
            raise AssertionError(message)

    def _wrap(self, run: StepRun, function: Callable[[], Any], is_async: bool) -> Callable[[], Any]:
        """What an attempt runs instead of the step's own code."""
        if run.actor.ref != self._ref:
            return function
        run.origin.on_call = lambda request: self.calls.append(_step_call(run.name, request))
        found = next((one for one in self._arranged if one[1] == run.name), None)
        if found is not None:
            self._arranged.remove(found)
        what = "" if found is None else found[0]
        before = self._hold(run, dies=what == CRASH_BEFORE) if what in _BEFORE else None
        if before is None:
            self.trace.append(run.name)

        def enter() -> None:
            if before is not None:
                self.trace.append(run.name)

        def leave() -> _Held | None:
            return self._hold(run, dies=True) if what == CRASH_AFTER else None

        if is_async:
            return lambda: _run_async(function, before, enter, leave)
        return lambda: _run(function, before, enter, leave)

    def _hold(self, run: StepRun, *, dies: bool) -> _Held:
        held = _Held(run, dies=dies)
        self._held = [*(one for one in self._held if one.is_waiting()), held]
        self.service.runtime.hold(run)
        return held


class _Held:
    """An attempt that is held up before its code runs, or after."""

    def __init__(self, run: StepRun, *, dies: bool) -> None:
        self.step = run.name
        self.dies = dies
        self._run = run
        self.released: Future[None] = Future()

    def is_waiting(self) -> bool:
        """Whether somebody still waits for its end."""
        return not self._run.cancellation.is_set()

    def release(self) -> None:
        """Let it go on."""
        self._run.held = False
        self.released.set_result(None)

    def abandon(self) -> None:
        """Nobody takes its result."""
        self.released.cancel()


_BEFORE = (STOP, CRASH_BEFORE)


def _run(
    function: Callable[[], Any],
    before: _Held | None,
    enter: Callable[[], None],
    leave: Callable[[], _Held | None],
) -> Any:
    if before is not None:
        before.released.result()
    enter()
    result = function()
    after = leave()
    if after is not None:
        after.released.result()
    return result


async def _run_async(
    function: Callable[[], Any],
    before: _Held | None,
    enter: Callable[[], None],
    leave: Callable[[], _Held | None],
) -> Any:
    if before is not None:
        await asyncio.wrap_future(before.released)
    enter()
    result = await function()
    after = leave()
    if after is not None:
        await asyncio.wrap_future(after.released)
    return result


def _step_call(step: str, request: CallRequest) -> StepCall:
    handler = request.handler
    names = (one.name for one in handler.parameters)
    return StepCall(
        step,
        request.ref.component,
        request.ref.instance,
        handler.name,
        dict(zip(names, request.values, strict=True)),
    )
