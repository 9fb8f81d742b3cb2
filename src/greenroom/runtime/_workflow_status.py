"""What is told of a workflow, and when it next has something to do; computed from its position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.clock import to_datetime
from greenroom.components import WorkflowStatus

if TYPE_CHECKING:
    from collections.abc import Collection

    from greenroom.runtime._position import Position, Progress


def due_time(
    position: Position, progress: Progress, *, running: Collection[int | None], has_last_step: bool
) -> int | None:
    """When an instance has to be woken, should it not be in memory then.

    Args:
        position: Where it stands.
        progress: What has happened since.
        running: The branches that run, None for the only step; they see to themselves.
        has_last_step: Whether a step runs when the workflow's time is up.
    """
    if position.over:
        return position.delete_at
    times: list[int | None] = []
    if not position.timed_out and not (position.suspended and has_last_step):
        times.append(position.deadline)
    if not position.suspended:
        if position.pause is not None and not progress.pause_ran_out:
            # Later, where its handler has failed and is tried again.
            times.append(progress.retry_at or position.pause.until)
        elif None not in running:
            times.append(progress.retry_at)
        times += [
            one.retry_at
            for number, one in progress.branches.items()
            if number not in running and one.result is None
        ]
    return min((one for one in times if one is not None), default=None)


def status_of(
    position: Position, progress: Progress, *, deleted: bool, is_running: bool, due: int | None
) -> WorkflowStatus:
    """Where an instance stands, for those who ask from outside."""
    several = progress.all()
    failures = max(one.failures for one in several)
    is_retrying = not is_running and any(one.retry_at is not None for one in several)
    status: Any = position.status
    if deleted:
        status = "deleted"
    elif status == "running" and is_retrying:
        status = "retrying"
    suspended = position.suspended and not position.over
    return WorkflowStatus(
        status=status,
        suspended=suspended,
        reason=position.suspended_because if suspended else position.reason,
        steps=position.steps,
        attempt=failures + 1 if position.steps else 0,
        last_error=next((one.error for one in several if one.error is not None), None),
        next_at=None if due is None else to_datetime(due),
        deadline=None if position.deadline is None else to_datetime(position.deadline),
    )
