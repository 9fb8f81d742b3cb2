"""Workflows that are in the middle of a step which the code does not have any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from greenroom.runtime._position import CHILDREN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from greenroom.persistence import Journal
    from greenroom.runtime._workflow_plans import WorkflowPlan


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
