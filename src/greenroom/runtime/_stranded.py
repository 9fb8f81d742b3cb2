"""What is stored and leads nowhere in the code: steps, and calls of timers, that are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from greenroom.components import TIMERS
from greenroom.runtime._position import CHILDREN
from greenroom.runtime._timer_look import read_timer
from greenroom.runtime._timer_targets import TargetGoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from greenroom.persistence import Codec, Journal
    from greenroom.runtime._timer_targets import TimerTargets
    from greenroom.runtime._workflow_plans import WorkflowPlan

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class StrandedStep:
    """A step that instances are in the middle of, and that is gone."""

    component: str
    step: str
    count: int
    """How many instances."""
    example: str
    """One of them."""
    known: tuple[str, ...]
    """The steps that there are."""

    def __str__(self) -> str:
        return (
            f"{self.component}: {self.count} instance(s), {self.component}/{self.example} for one, "
            f"are in the middle of the step {self.step!r}, which the code has not (it has: "
            f"{', '.join(self.known)}). They wait, and go on once its successor is named: "
            f"WorkflowSettings(renamed_steps={{{self.step!r}: ...}})"
        )


def stranded_steps(journal: Journal, plans: Mapping[str, WorkflowPlan]) -> Iterator[StrandedStep]:
    """Every step that is gone and was left in the middle. Blocks on the database.

    Args:
        journal: What is stored.
        plans: The workflows of the code.
    """
    for component, plan in plans.items():
        known = tuple(name for name in plan.steps if name not in plan.renamed)
        found: dict[str, tuple[int, str]] = {}
        for one in journal.steps(component):
            for step in one.step.split(","):
                if step != CHILDREN and plan.step(step) is None:
                    count, example = found.get(step, (0, one.example))
                    found[step] = (count + one.count, example)
        for step, (count, example) in found.items():
            yield StrandedStep(component, step, count, example, known)


def stranded_timers(
    journal: Journal,
    codec: Codec,
    targets: TimerTargets,
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[str]:
    """Each call that the code has no target for, with how many timers wait to make it.

    Blocks on the database, and reads every timer, as long as `goes_on` says so.
    """
    lost: dict[str, tuple[int, str]] = {}
    right: set[tuple[str, str, str]] = set()
    after = None
    while goes_on() and (records := journal.latest(TIMERS, after=after, limit=_PAGE)):
        for record in records:
            after = record.ref.instance
            timer = read_timer(codec, record)
            if timer is None:
                continue
            call = timer.plan.call
            # The arguments differ from timer to timer, and whether they fit may too.
            if (call.component, call.handler, call.arguments) in right:
                continue
            try:
                targets.find(call)
            except TargetGoneError as error:
                count, example = lost.get(str(error), (0, after))
                lost[str(error)] = count + 1, example
            else:
                right.add((call.component, call.handler, call.arguments))
        if len(records) < _PAGE:
            break
    return [
        f"{count} timer(s), as {example!r}: {problem}" for problem, (count, example) in lost.items()
    ]
