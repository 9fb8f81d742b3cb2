"""Timed actions that several suites use: what an action does is decided by the test."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from pydantic import BaseModel

from greenroom import (
    AsyncComponentClient,
    AsyncTimerScheduler,
    ComponentClient,
    Effect,
    KeyValueEntity,
    ReadOnlyEffect,
    StepEffect,
    TimedAction,
    TimedActionContext,
    TimedActionEffect,
    TimerScheduler,
    Workflow,
    component,
    step,
    type_name,
)
from tests.support.workflows import HOUR


@type_name("rung")
class Rung(BaseModel, frozen=True):
    """One ring of a bell, as the bell saw it."""

    text: str
    timer: str | None = None
    due_at: str | None = None
    colour: str | None = None
    principal: str | None = None


@component("bell")
class Bell(KeyValueEntity[list[Rung]]):
    """Remembers every command that was carried out."""

    def empty_state(self) -> list[Rung]:
        return []

    def ring(self, text: str = "") -> Effect[int]:
        context = self.command_context
        due = context.due_at
        rung = Rung(
            text=text,
            timer=context.timer,
            due_at=None if due is None else due.isoformat(),
            colour=context.metadata.get("colour"),
            principal=context.principal,
        )
        return self.effects.update_state([*self.state, rung]).then_reply(len(self.state) + 1)

    def refuse(self) -> Effect[int]:
        return self.effects.error("The bell is broken.")

    def rings(self) -> ReadOnlyEffect[list[Rung]]:
        return self.effects.reply(self.state)


class Script:
    """What actions do, and what they have seen."""

    def __init__(self) -> None:
        self.contexts: list[TimedActionContext] = []
        self.errors: list[BaseException | str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.lock = threading.Lock()

    def enter(self, context: TimedActionContext) -> BaseException | str | None:
        with self.lock:
            self.contexts.append(context)
            return self.errors.pop(0) if self.errors else None


_script = Script()


def new_script() -> Script:
    """A fresh script for the next test."""
    global _script  # noqa: PLW0603 - actions are made by the runtime, and find it here
    _script = Script()
    return _script


@component("ringers")
class Ringers(TimedAction):
    """Ring bells, when they are told to."""

    def __init__(
        self,
        client: ComponentClient,
        async_client: AsyncComponentClient,
        timers: TimerScheduler,
        async_timers: AsyncTimerScheduler,
    ) -> None:
        self._client = client
        self._async_client = async_client
        self._timers = timers
        self._async_timers = async_timers

    def ring_then_fail(self, bell: str) -> TimedActionEffect:
        """Ring, and then do what the script says."""
        script = _script
        problem = script.enter(self.context)
        self._client.for_key_value_entity(Bell, bell).ask(Bell.ring, "rung")
        script.gate.wait(20)
        if isinstance(problem, BaseException):
            raise problem
        return self.effects.error(problem) if problem else self.effects.done()

    async def ring_on_the_loop(self, bell: str) -> TimedActionEffect:
        problem = _script.enter(self.context)
        await self._async_client.for_key_value_entity(Bell, bell).ask(Bell.ring, "on the loop")
        return self.effects.error(str(problem)) if problem else self.effects.done()

    def ring_and_start_again(self, bell: str, left: int) -> TimedActionEffect:
        """Replaces the timer that runs it."""
        self._client.for_key_value_entity(Bell, bell).ask(Bell.ring, str(left))
        if left:
            again = self._client.for_timed_action(Ringers).deferred(
                Ringers.ring_and_start_again, bell, left - 1
            )
            self._timers.start_single_timer(self.context.timer, HOUR, again)
        return self.effects.done()

    def ring_and_die_once(self, bell: str, marker: str) -> TimedActionEffect:
        """The first time the process is killed between the ring and the record of it."""
        self._client.for_key_value_entity(Bell, bell).ask(Bell.ring, "rung")
        if not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.effects.done()

    def say_nothing(self) -> TimedActionEffect:
        return None  # type: ignore[return-value]


@component("alarm-clock")
class AlarmClock(Workflow[int]):
    """Starts a timer in a step, and fails after that as often as it is told."""

    def __init__(self, client: ComponentClient, timers: TimerScheduler) -> None:
        self._client = client
        self._timers = timers

    def empty_state(self) -> int:
        return 0

    def wind(self, bell: str) -> Effect[None]:
        return self.effects.transition_to(self.start, bell).then_reply(None)

    @step
    def start(self, bell: str) -> StepEffect:
        call = self._client.for_key_value_entity(Bell, bell).deferred(Bell.ring, "wake up")
        self._timers.start_single_timer(f"wake-{bell}", HOUR, call)
        if self.step_context.attempt == 1:
            raise ConnectionError("after the timer was started")
        return self.step_effects.end()
