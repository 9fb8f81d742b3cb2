"""One attempt of one step: its context, the thread or task it runs on, its end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from greenroom.components import Cancellation, current_request
from greenroom.logs import correlation_id
from greenroom.runtime._calls import call_chain, call_origin
from greenroom.runtime._control import Control

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from greenroom.ids import EntityRef
    from greenroom.runtime._actor import Inbox
    from greenroom.runtime._calls import CallOrigin
    from greenroom.runtime._step_engine import StepEngine
    from greenroom.runtime._step_threads import Work


_log = logging.getLogger("greenroom.workflows")


class StepOwner(Protocol):
    """What an attempt needs of the actor it works for."""

    ref: EntityRef
    actor_inbox: Inbox

    def step_over(self, run: StepRun, result: Any, error: BaseException | None) -> None:
        """An attempt has ended; told on a slice of the actor."""
        ...


class StepRun:
    """An attempt under way. The actor forgets it to throw its result away."""

    __slots__ = (
        "_work",
        "actor",
        "attempt",
        "branch",
        "cancellation",
        "held",
        "name",
        "origin",
        "started_at",
        "task",
        "times_out_at",
    )

    def __init__(
        self,
        actor: StepOwner,
        branch: int | None,
        name: str,
        *,
        attempt: int,
        started_at: int,
        origin: CallOrigin,
    ) -> None:
        self.actor = actor
        self.branch = branch
        self.name = name
        self.attempt = attempt
        self.started_at = started_at
        self.times_out_at: int | None = None
        self.origin = origin
        self.cancellation = Cancellation()
        self.held = False
        """It hangs, or a test holds it up: nobody need wait for it."""
        self._work: Work | None = None
        self.task: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return f"step {self.name} of {self.actor.ref}"

    @property
    def waits(self) -> bool:
        """Whether this does nothing but wait for another workflow."""
        return self.times_out_at is None

    def start(self, engine: StepEngine, function: Callable[[], Any], *, is_async: bool) -> None:
        """Run the step: on a thread, or on the runtime's loop."""
        if engine.wrap is not None:
            function = engine.wrap(self, function, is_async)
        if is_async:
            self.start_coroutine(engine, function)
        else:
            engine.runs.add(self)
            self._work = engine.threads.submit(lambda: self._run(engine, function))

    def start_coroutine(
        self, engine: StepEngine, function: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        """Run something on the runtime's loop."""
        engine.runs.add(self)
        engine.loop.call_soon_threadsafe(self._begin, engine, function)

    def cancel(self, engine: StepEngine) -> None:
        """Nobody waits for this any more."""
        engine.forget(self)
        self.cancellation.cancel()
        if self._work is not None:
            self._work.give_up()
        engine.loop.call_soon_threadsafe(self._cancel_task)

    def _run(self, engine: StepEngine, function: Callable[[], Any]) -> None:
        self._enter()
        result, error = None, None
        try:
            result = function()
        # A SystemExit in a step is a failure of the step.
        except BaseException as problem:
            error = problem
        self._report(engine, result, error)

    def _begin(self, engine: StepEngine, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        if not self.cancellation.is_set():
            self.task = asyncio.get_running_loop().create_task(self._await(engine, function))

    async def _await(
        self, engine: StepEngine, function: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        self._enter()
        result, error = None, None
        try:
            result = await function()
        except BaseException as problem:
            error = problem
        self._report(engine, result, error)

    def _cancel_task(self) -> None:
        if self.task is not None:
            self.task.cancel()

    @property
    def chain(self) -> tuple[EntityRef, ...]:
        """Who waits for what the code calls."""
        return (self.actor.ref,)

    def _enter(self) -> None:
        # What the code is for, and not what happened to be on this thread when it was begun.
        call_chain.set(self.chain)
        call_origin.set(self.origin)
        current_request.set(None)
        correlation_id.set(self.origin.correlation_id)

    def _report(self, engine: StepEngine, result: Any, error: BaseException | None) -> None:
        actor = self.actor
        if self.cancellation.is_set():
            # The actor knows this attempt no more, and may not even be there.
            _log.debug("%s: a late result of step %s is thrown away", actor.ref, self.name)
        else:
            actor.actor_inbox.put_control(Control(lambda: actor.step_over(self, result, error)))
        # In this order there is no moment in which nothing seems to be under way.
        engine.forget(self)
